package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// Binaries of two versions do not work together, and report it. The newer version can take down a sandbox of the older
// version.
func TestVersionsRefuseEachOther(t *testing.T) {
	home, err := os.MkdirTemp("/tmp", "koup") // there are sockets in it
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	folders := map[string]string{}
	for _, v := range []string{"v1.0.0", "v1.1.0"} {
		folders[v] = filepath.Join(t.TempDir(), "bin")
		place(t, filepath.Join(repository, "bin/koup-controlplane"), filepath.Join(folders[v], "koup-controlplane"))
		build(t.Context(), t, repository, "build", "BIN="+folders[v], "VERSION="+v)
	}
	// run runs koupsandbox of a version, and checks its exit status and output.
	run := func(v string, code int, says string, args ...string) {
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
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), says) {
			t.Errorf("%s %s ended with %d, want %d and %q:\n%s", v, strings.Join(args, " "), got, code, says,
				out.String())
		}
	}
	t.Cleanup(func() { run("v1.1.0", 0, "", "down") })

	mixed := folders["v1.0.0"] + "/module-controller is of version v1.0.0, and this koupsandbox needs v1.1.0"
	run("v1.1.0", 1, mixed, "--bin", folders["v1.0.0"], "up", "--bases", "1")
	run("v1.0.0", 0, `Sandbox "koup" is up`, "up", "--bases", "1")

	other := `sandbox "koup" was brought up by koupsandbox v1.0.0, and this is v1.1.0: take it down with: koupsandbox down --name koup, and bring it up again`
	for _, args := range [][]string{{"up"}, {"base", "list"}, {"base", "add", "1"}, {"component", "kill", "broker"}} {
		run("v1.1.0", 1, other, args...)
	}
	run("v1.1.0", 0, `Sandbox "koup" is running`, "status")
	run("v1.1.0", 0, "koup", "list")
	run("v1.0.0", 0, "base-1", "base", "list") // it is as it was
	run("v1.1.0", 0, "", "down")
	if left, err := filepath.Glob(filepath.Join(home, "koup*")); err != nil || len(left) > 0 {
		t.Errorf("there is left %s", fmt.Sprint(left, err))
	}
	run("v1.1.0", 0, `Sandbox "koup" is up`, "up", "--bases", "1")
	run("v1.1.0", 0, "", "down")
}
