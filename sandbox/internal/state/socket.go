package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxSocketPath is the maximum length of a Unix socket path in bytes, without the terminating NUL. With the NUL,
// macOS allows 104 bytes and Linux 108 bytes.
const maxSocketPath = 103

// SocketPath returns the path of the daemon's socket, or "" if the socket does not exist.
func (d Dir) SocketPath() string {
	if elsewhere, err := os.ReadFile(d.socketPathFile()); err == nil {
		return strings.TrimSpace(string(elsewhere))
	}
	path := d.file("daemon.sock")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// NewSocketPath returns an unused path for the daemon's socket. If a path in the state directory would be too long,
// it returns a path in a new, private temporary directory, and records the path in the state directory.
func (d Dir) NewSocketPath() (string, error) {
	if err := d.removeSocket(); err != nil {
		return "", err
	}
	if path := d.file("daemon.sock"); len(path) <= maxSocketPath {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "koupsandbox-") // 0700
	if err != nil {
		return "", fmt.Errorf("creating a directory for the daemon's socket: %w", err)
	}
	path := filepath.Join(dir, "daemon.sock")
	if len(path) > maxSocketPath {
		return "", errors.Join(
			fmt.Errorf("the paths %s and %s are too long for a Unix socket (%d bytes); choose a shorter "+
				"--home or TMPDIR",
				d.file("daemon.sock"), path, maxSocketPath), os.Remove(dir))
	}
	if err := WriteFile(d.socketPathFile(), []byte(path+"\n")); err != nil {
		return "", errors.Join(fmt.Errorf("recording the path of the daemon's socket: %w", err), os.Remove(dir))
	}
	return path, nil
}

func (d Dir) socketPathFile() string { return d.file("daemon.sock.path") }

func (d Dir) removeSocket() error {
	path := d.SocketPath()
	if path == "" {
		return nil
	}
	err := ignoreMissing(os.Remove(path))
	if dir := filepath.Dir(path); dir != string(d) {
		err = errors.Join(err, ignoreMissing(os.Remove(dir)), ignoreMissing(os.Remove(d.socketPathFile())))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
