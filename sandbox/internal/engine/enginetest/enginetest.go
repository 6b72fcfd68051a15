// Package enginetest replaces the container engine in tests.
package enginetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Fake makes a shell script the only container engine that the test can find. name is docker or podman. If name is
// empty, the test can find no engine.
func Fake(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"sh", "cat", "sleep"} { // tools for the script; real engines are not in the PATH
		for _, bin := range []string{"/bin", "/usr/bin"} {
			if _, err := os.Stat(filepath.Join(bin, tool)); err == nil {
				if err := os.Symlink(filepath.Join(bin, tool), filepath.Join(dir, tool)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	if name != "" {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}
