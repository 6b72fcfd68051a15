package release

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// TestIncompatibleVersions checks that binaries of different releases report that they are incompatible, and that the
// newer release can remove a sandbox of the older release.
func TestIncompatibleVersions(t *testing.T) {
	home, err := os.MkdirTemp("/tmp", "koup") // the path of a socket must be short
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	folders := map[string]string{}
	for _, v := range []string{"v1.0.0", "v1.1.0"} {
		folders[v] = filepath.Join(t.TempDir(), "bin")
		copyBinary(t, filepath.Join(repository, "bin/koup-controlplane"),
			filepath.Join(folders[v], "koup-controlplane"))
		build(t.Context(), t, repository, "build", "BIN="+folders[v], "VERSION="+v)
	}
	// run runs koupsandbox of a version, and checks its exit status and output.
	run := func(v string, code int, want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(folders[v], "koupsandbox"),
			append([]string{"--home", home}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), want) {
			t.Errorf("%s %s: exit status %d, want %d and %q:\n%s", v, strings.Join(args, " "), got, code, want,
				out.String())
		}
	}
	t.Cleanup(func() { run("v1.1.0", 0, "", "down") })

	mixed := folders["v1.0.0"] + "/module-controller has version v1.0.0, but this koupsandbox requires v1.1.0"
	run("v1.1.0", 1, mixed, "--bin", folders["v1.0.0"], "up", "--bases", "1")
	run("v1.0.0", 0, `Sandbox "koup" is up`, "up", "--bases", "1")

	other := `sandbox "koup" was created by koupsandbox v1.0.0, but this koupsandbox is v1.1.0; remove the sandbox with: koupsandbox down --name koup, and create it again`
	for _, args := range [][]string{{"up"}, {"base", "list"}, {"base", "add", "1"}, {"component", "kill", "broker"}} {
		run("v1.1.0", 1, other, args...)
	}
	run("v1.1.0", 0, `Sandbox "koup" is running`, "status")
	run("v1.1.0", 0, "koup", "list")
	run("v1.0.0", 0, "base-1", "base", "list") // the sandbox still runs
	run("v1.1.0", 0, "", "down")
	if left, err := filepath.Glob(filepath.Join(home, "koup*")); err != nil || len(left) > 0 {
		t.Errorf("files after down: %v (error: %v)", left, err)
	}
	run("v1.1.0", 0, `Sandbox "koup" is up`, "up", "--bases", "1")
	run("v1.1.0", 0, "", "down")
}
