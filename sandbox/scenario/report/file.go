package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes a report of any kind to a file, such as Save(path, r, WriteHTML), and makes its folder. The file
// is replaced when it is complete, so that nobody reads a half; after an error it is as it was
// before.
func Save[R any](path string, r R, write func(io.Writer, R) error) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a report is made to be shown
		return fmt.Errorf("making the folder of the report: %w", err)
	}
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("making the file of the report: %w", err)
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
