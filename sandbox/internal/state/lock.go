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

// ErrBusy is returned, wrapped, if another command holds the lock of the sandbox.
var ErrBusy = errors.New("another koupsandbox command is creating or removing it")

const lockPoll = 20 * time.Millisecond

// lockPrefix is the prefix of lock file names. No sandbox name starts with it.
const lockPrefix = ".lock-"

// Lock locks the sandbox for an up or down command. If another command holds the lock, Lock blocks until the lock is
// free or ctx ends, or returns an error that wraps ErrBusy if wait is false. The lock is released by unlock, or when
// the process ends. The lock file is not in the state directory, which is created and removed while the lock is held.
func (h Home) Lock(ctx context.Context, name string, wait bool) (unlock func(), err error) {
	if err := os.MkdirAll(string(h), 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory for locks: %w; choose another directory with --home", err)
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
			return nil, fmt.Errorf(
				"sandbox %q is busy: %w; wait for that command to finish, or stop it with Ctrl-C", name, ErrBusy)
		case err != nil:
			return nil, fmt.Errorf("locking sandbox %q: %w", name, err)
		case !current(l, file): // the previous owner has removed this file, so other processes do not see the lock
			_ = l.Close()
			continue
		}
		return func() {
			_ = os.Remove(file)
			_ = l.Close() // the kernel drops the lock with the file
		}, nil
	}
}

// current reports whether locked is still the file at path.
func current(l *flock.Flock, path string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(path)
	return err == nil && os.SameFile(locked, found)
}
