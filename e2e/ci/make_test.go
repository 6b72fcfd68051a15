package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMakeBuildPrintsSteps checks that make build prints one line for each binary, and no commands. The go command of
// the test compiles nothing.
func TestMakeBuildPrintsSteps(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\n"), 0o700)) //nolint:gosec // a script
	build := func() string {
		cmd := exec.CommandContext(t.Context(), "make", "-C", root, "--no-print-directory", "build", "BIN="+dir)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make build: %v\n%s", err, out)
		}
		return string(out)
	}
	const steps = "Compiling koupsandbox\nCompiling module-controller\nCompiling fakebase\n"
	if diff := cmp.Diff("Compiling Kubernetes (about 10 minutes the first time)\n"+steps, build()); diff != "" {
		t.Errorf("the first build (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(steps, build()); diff != "" {
		t.Errorf("the next build (-want +got):\n%s", diff)
	}
}
