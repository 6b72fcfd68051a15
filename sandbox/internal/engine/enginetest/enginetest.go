// Package enginetest replaces the container engine in tests.
package enginetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Fake installs a shell script as the only container engine on this machine until the test ends. name is docker or
// podman. If name is empty, no engine is installed.
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
