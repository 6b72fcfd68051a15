package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrNotOwned is returned for a directory that koupsandbox has not created. It is wrapped in an error that states the
// fix.
var ErrNotOwned = errors.New("was not created by koupsandbox, and is not changed")

const (
	markFile = ".made-by-koupsandbox"
	markText = "koupsandbox created this directory; koupsandbox down removes it and all its files\n"
)

// Owned reports whether the directory exists and has the ownership marker, which koupsandbox writes. It returns false
// and no error if the directory does not exist or is empty; a sandbox can use such a directory. For any other
// directory, it returns an error that wraps ErrNotOwned; do not change such a directory. For a directory of another
// user, it returns the error of CheckOwner.
func (d Dir) Owned() (bool, error) {
	if err := d.CheckOwner(); err != nil {
		return false, err
	}
	info, err := os.Stat(string(d))
	switch {
	case errors.Is(err, os.ErrPermission):
		return false, fmt.Errorf("checking the state directory: %w", err)
	case err != nil:
		return false, nil //nolint:nilerr // it does not exist
	}
	var entries []os.DirEntry
	if info.IsDir() {
		entries, err = os.ReadDir(string(d))
		if err != nil {
			return false, fmt.Errorf("reading the state directory: %w", err)
		}
	}
	switch {
	case d.marked():
		return true, nil
	case info.IsDir() && len(entries) == 0:
		return false, nil
	}
	return false, fmt.Errorf("the directory %s %w; choose another --name or --home, or move the directory away", d,
		ErrNotOwned)
}

// CheckOwner returns an error if another user owns the directory or its home. That user could read the files of the
// sandbox, or provide a kubeconfig, a socket or run records that make the current user run commands. Call CheckOwner
// before you read anything from the directory. If the directory does not exist, CheckOwner returns nil.
func (d Dir) CheckOwner() error {
	if err := Home(filepath.Dir(string(d))).CheckOwner(); err != nil {
		return err
	}
	return checkOwner(string(d), os.Geteuid())
}

// CheckOwner returns an error if the home directory belongs to a user other than the current user or root.
func (h Home) CheckOwner() error { return checkOwner(string(h), os.Geteuid(), 0) }

func checkOwner(dir string, users ...int) error {
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the owner of the directory: %w", err)
	}
	if at, ok := info.Sys().(*syscall.Stat_t); ok && !slices.Contains(users, int(at.Uid)) {
		return fmt.Errorf("the directory %s belongs to user %d, who could read or replace its files; choose another "+
			"--home, or change the owner of the directory", dir, at.Uid)
	}
	return nil
}

// mark writes the file that is the ownership marker. The content of the file is not used.
func (d Dir) mark() error {
	if d.marked() {
		return nil // do not write it again: the disk may be full
	}
	return os.WriteFile(d.file(markFile), []byte(markText), 0o600)
}

func (d Dir) marked() bool { return isFile(d.file(markFile)) }

// isFile reports whether path is a regular file. It returns false for a symbolic link.
func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
