package supervise

import (
	"errors"
	"os"
	"time"
)

// errNoProcess means that no process has the PID, or that the process is a zombie.
var errNoProcess = errors.New("no such process")

// usage contains the data that the operating system provides about a process.
type usage struct {
	// start is the start time of the process. It distinguishes the process from later processes with the same PID.
	start string
	// stopped reports whether the process is suspended by a signal such as SIGSTOP.
	stopped bool
	rss     uint64
	cpu     time.Duration
}

// findProcess returns a handle for the process that has the given PID and start time. It returns errNoProcess if
// there is no such process. On Linux, it opens the pidfd before it reads the start time, so that signals cannot reach
// a later process with the same PID.
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

// ignoreDone returns nil if err wraps os.ErrProcessDone, and otherwise err.
func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
