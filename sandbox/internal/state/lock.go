package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// ErrBusy is returned, wrapped, when another command has the sandbox's lock.
var ErrBusy = errors.New("another koupsandbox command is bringing it up or taking it down")

const lockPoll = 20 * time.Millisecond

// lockPrefix begins the names of lock files; no sandbox's name does.
const lockPrefix = ".lock-"

// Lock locks the sandbox for one up or down. It waits until ctx ends, or returns ErrBusy immediately if wait is false. The
// lock ends with unlock, or with the process. Its file is outside the sandbox's folder, which is created and removed under
// the lock.
func (h Home) Lock(ctx context.Context, name string, wait bool) (unlock func(), err error) {
	if err := os.MkdirAll(string(h), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for locks: %w; choose another place with --home", err)
	}
	file := filepath.Join(string(h), lockPrefix+name)
	for {
		l := flock.New(file, flock.SetPermissions(0o600))
		var ok bool
		if wait {
			ok, err = l.TryLockContext(ctx, lockPoll)
		} else {
			ok, err = l.TryLock()
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded), err == nil && !ok:
			return nil, fmt.Errorf("sandbox %q is busy: %w; wait for it, or stop it with Ctrl-C", name, ErrBusy)
		case err != nil:
			return nil, fmt.Errorf("locking sandbox %q: %w", name, err)
		case !current(l, file): // somebody has unlocked, and this is a file that nobody else will find
			_ = l.Close()
			continue
		}
		return func() {
			_ = os.Remove(file)
			_ = l.Close() // the kernel drops the lock with the file
		}, nil
	}
}

// current reports whether the file that is locked is the one that others find.
func current(l *flock.Flock, path string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(path)
	return err == nil && os.SameFile(locked, found)
}
