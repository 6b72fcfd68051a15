package supervise

import (
	"errors"
	"os"
	"time"
)

// errNoProcess means that no process has the PID, or that the process is a zombie.
var errNoProcess = errors.New("no such process")

// usage is what the operating system says about a live process.
type usage struct {
	// start differs from that of every other process with the same PID.
	start string
	// stopped is true after SIGSTOP.
	stopped bool
	rss     uint64
	cpu     time.Duration
}

// findProcess returns a handle on the process that started at start, or errNoProcess. On Linux the handle is a pidfd from
// before the start time is read, so that a signal cannot reach a later process with the same PID.
func findProcess(pid int, start string) (*os.Process, error) {
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

func isRunning(pid int, start string) bool {
	u, err := inspect(pid)
	return err == nil && u.start == start
}

// ignoreDone drops the error that says that a process to be signalled has ended.
func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
