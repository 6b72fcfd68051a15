package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes a report to a file, for example Save(path, r, WriteHTML). It creates missing directories. It replaces
// the file atomically, so that other processes never read an incomplete report. If Save fails, the existing file is
// unchanged.
func Save[R any](path string, r R, write func(io.Writer, R) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // reports may be read by all users
		return fmt.Errorf("creating the directory of the report: %w", err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("creating the report: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f, r), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("writing the report %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
