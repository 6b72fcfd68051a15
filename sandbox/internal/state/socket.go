package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxSocketPath is the longest path of a unix socket, with room for the NUL: 104
// bytes on macOS, 108 on Linux.
const maxSocketPath = 103

// SocketPath returns where the daemon's socket is, or "" when none was made.
func (d Dir) SocketPath() string {
	if elsewhere, err := os.ReadFile(d.socketNote()); err == nil {
		return strings.TrimSpace(string(elsewhere))
	}
	path := d.file("daemon.sock")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// NewSocketPath returns an unused path to listen on. If the path of the folder is too long, it makes a private directory
// for temporary files, and records it.
func (d Dir) NewSocketPath() (string, error) {
	if err := d.removeSocket(); err != nil {
		return "", err
	}
	if path := d.file("daemon.sock"); len(path) <= maxSocketPath {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "koupsandbox-") // 0700
	if err != nil {
		return "", fmt.Errorf("making a folder for the daemon's socket: %w", err)
	}
	path := filepath.Join(dir, "daemon.sock")
	if len(path) > maxSocketPath {
		return "", errors.Join(
			fmt.Errorf("the paths %s and %s are too long for a unix socket (%d bytes): choose a shorter "+
				"--home or TMPDIR",
				d.file("daemon.sock"), path, maxSocketPath), os.Remove(dir))
	}
	if err := WriteFile(d.socketNote(), []byte(path+"\n")); err != nil {
		return "", errors.Join(fmt.Errorf("noting the daemon's socket: %w", err), os.Remove(dir))
	}
	return path, nil
}

func (d Dir) socketNote() string { return d.file("daemon.sock.path") }

func (d Dir) removeSocket() error {
	path := d.SocketPath()
	if path == "" {
		return nil
	}
	err := ignoreMissing(os.Remove(path))
	if dir := filepath.Dir(path); dir != string(d) {
		err = errors.Join(err, ignoreMissing(os.Remove(dir)), ignoreMissing(os.Remove(d.socketNote())))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
