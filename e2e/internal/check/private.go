package check

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Private fails the test unless all files in a directory have the mode 0600, and all directories 0700. It returns their
// number.
func Private(t testing.TB, folder string) (looked int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) && path != folder { // it was for a moment
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		looked++
		want := fs.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("permissions of %s = %#o, want %#o", path, got, want)
		}
		return nil
	})
	Must(t, err)
	return looked
}
