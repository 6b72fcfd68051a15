package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrNotOwned is returned, wrapped with what to do, for a folder that koupsandbox has not made.
var ErrNotOwned = errors.New("was not made by koupsandbox, and is left alone")

const (
	markFile = ".made-by-koupsandbox"
	markText = "koupsandbox made this folder, and removes it with all that is in it: koupsandbox down\n"
)

// Owned reports whether the folder exists and has the mark that koupsandbox writes when it creates a folder. It
// returns false without an error if the folder does not exist or is empty, so that a sandbox can use it. For
// any other folder it returns an error that wraps ErrNotOwned; do not change anything in such a folder. A folder
// of another user gives the error of CheckOwner.
func (d Dir) Owned() (bool, error) {
	if err := d.CheckOwner(); err != nil {
		return false, err
	}
	info, err := os.Stat(string(d))
	switch {
	case errors.Is(err, os.ErrPermission):
		return false, fmt.Errorf("looking for the state folder: %w", err)
	case err != nil:
		return false, nil //nolint:nilerr // there is none
	}
	var entries []os.DirEntry
	if info.IsDir() {
		entries, err = os.ReadDir(string(d))
		if err != nil {
			return false, fmt.Errorf("looking into the state folder: %w", err)
		}
	}
	switch {
	case d.marked():
		return true, nil
	case info.IsDir() && len(entries) == 0:
		return false, nil
	}
	return false, fmt.Errorf("the folder %s %w: choose another --name or --home, or move the folder away", d,
		ErrNotOwned)
}

// CheckOwner returns an error if another user owns the folder or its home. That user could read the files of
// the sandbox, or provide a kubeconfig, a socket or run records that make the current user run programs. Call
// CheckOwner before you read anything from the folder. A folder that does not exist is fine.
func (d Dir) CheckOwner() error {
	if err := Home(filepath.Dir(string(d))).CheckOwner(); err != nil {
		return err
	}
	return checkOwner(string(d), os.Geteuid())
}

// CheckOwner returns an error if a user other than the current one or root owns the home.
func (h Home) CheckOwner() error { return checkOwner(string(h), os.Geteuid(), 0) }

func checkOwner(folder string, users ...int) error {
	info, err := os.Stat(folder)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the owner of the folder: %w", err)
	}
	if at, ok := info.Sys().(*syscall.Stat_t); ok && !slices.Contains(users, int(at.Uid)) {
		return fmt.Errorf("the folder %s belongs to the user %d, who could read or replace its files; choose another "+
			"--home, or change the owner of the folder", folder, at.Uid)
	}
	return nil
}

// mark makes the folder koupsandbox's own. That the file is there is what counts.
func (d Dir) mark() error {
	if d.marked() {
		return nil // and a full disk does not matter
	}
	return os.WriteFile(d.file(markFile), []byte(markText), 0o600)
}

func (d Dir) marked() bool { return isFile(d.file(markFile)) }

// isFile reports whether there is a file, and no link to one.
func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
