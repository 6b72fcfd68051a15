package supervise

import (
	"errors"
	"os"
	"time"
)

// errNoProcess says that no process has the pid, or that it has ended and waits to be collected by
// its parent.
var errNoProcess = errors.New("no such process")

// usage is what the operating system says about a live process.
type usage struct {
	// start tells this process from every other that has had or will have its pid. It is compared,
	// never interpreted.
	start string
	// stopped is true after SIGSTOP.
	stopped bool
	rss     uint64
	cpu     time.Duration
}

// owned returns a handle on the process pid if it is the one that started at start, and
// errNoProcess if that one is gone. On Linux the handle is a pidfd taken before the start time is
// read, so that a signal through it cannot reach a later process of the same pid.
func owned(pid int, start string) (*os.Process, error) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, errNoProcess
	}
	u, err := inspect(pid)
	if err == nil && u.start != start {
		err = errNoProcess
	}
	if err != nil {
		_ = p.Release()
		return nil, err
	}
	return p, nil
}

func alive(pid int, start string) bool {
	u, err := inspect(pid)
	return err == nil && u.start == start
}

// ignoreGone drops the error that says that a process to be signalled has ended.
func ignoreGone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
