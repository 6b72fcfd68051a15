package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrNotOwned is returned, wrapped, for a directory that koupsandbox has not created. The error message suggests a
// fix.
var ErrNotOwned = errors.New("was not created by koupsandbox, and is not changed")

const (
	markFile = ".made-by-koupsandbox"
	markText = "koupsandbox created this directory; koupsandbox down removes it and all its files\n"
)

// Owned reports whether the directory has the ownership marker, a file that koupsandbox writes. If the directory does
// not exist or is empty, Owned returns false and no error, and a sandbox can use the directory. For any other
// directory, it returns an error that wraps ErrNotOwned, and the caller must not change the directory. For a
// directory of another user, it returns the error of CheckOwner.
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

// CheckOwner returns an error if another user owns the directory or its home. The other user could read the files of
// the sandbox, or make the current user run commands through a forged kubeconfig, socket or run record. Call
// CheckOwner before you read anything from the directory. If the directory does not exist, CheckOwner returns nil.
func (d Dir) CheckOwner() error {
	if err := Home(filepath.Dir(string(d))).CheckOwner(); err != nil {
		return err
	}
	return checkOwner(string(d), os.Geteuid())
}

// CheckOwner returns an error unless the home directory belongs to the current user or root. A missing directory is
// not an error.
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

// mark writes the ownership marker. The content of this file has no meaning.
func (d Dir) mark() error {
	if d.marked() {
		return nil // do not write it again: the disk may be full
	}
	return os.WriteFile(d.file(markFile), []byte(markText), 0o600)
}

func (d Dir) marked() bool { return isFile(d.file(markFile)) }

// isFile reports whether path is a regular file, and not, for example, a symbolic link.
func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
