package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// sharedBases is how many bases the shared sandbox has. Tests that add some take
// them away again.
const sharedBases = 4

// firstOfFuzz is how the name of a first sandbox of koupsandbox fuzz ends.
const firstOfFuzz = "-1"

// quick are settings of the controller that save minutes: silence counts sooner,
// and a deleted module goes sooner.
var quick = map[string]string{
	"BASE_UNREACHABLE_AFTER": "4s",
	"BASE_DEAD_AFTER":        "6s",
	"HEALTH_INTERVAL":        "1s",
	"LIST_INTERVAL":          "2s",
	"MODULE_DRAIN":           "200ms",
	"UNINSTALL_TIMEOUT":      "2s",
}

// What all tests use; bringUp sets it.
var (
	programs string // directory of the built binaries
	home     string // directory of all sandboxes of this run
	shared   *box.Box
	up       *sandbox.Sandbox // the Go API of shared
	client   kubernetes.Interface
)

func TestMain(m *testing.M) {
	box.Env.BeforeEachFeature(isolate)
	os.Exit(box.Main(m, "e2e", 0, bringUp, func() error { return races(shared) }))
}

// races looks for what programs built with the race detector have found.
func races(b *box.Box) error {
	logs, err := filepath.Glob(b.Log("*"))
	if err != nil {
		return fmt.Errorf("looking for data races: %w", err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return fmt.Errorf("looking for data races: %w", err)
		}
		if _, report, found := bytes.Cut(text, []byte("WARNING: DATA RACE")); found {
			return fmt.Errorf("%s has a data race:\n%s", filepath.Base(log), report[:min(len(report), 4<<10)])
		}
	}
	return nil
}

// buildRacy builds our own programs with the race detector, beside the control
// plane as it is. What it finds fails the run.
func buildRacy(ctx context.Context) error {
	racy := filepath.Join(home, ".bin")
	if err := os.Mkdir(racy, 0o700); err != nil {
		return fmt.Errorf("building with the race detector: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-race", "-o", racy+"/", "./sandbox/cmd/koupsandbox", "./controller/cmd/module-controller")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building with the race detector: %w\n%s", err, out)
	}
	err := os.Symlink(filepath.Join(programs, sandbox.ControlPlaneProgram), filepath.Join(racy, sandbox.ControlPlaneProgram))
	if err != nil {
		return fmt.Errorf("building with the race detector: %w", err)
	}
	programs = racy
	return nil
}

// newBox names a sandbox that no other run uses.
func newBox(kind string) *box.Box {
	return &box.Box{Bin: programs, Home: home, Name: envconf.RandomName(kind, 10)}
}

// spec is what test sandboxes have in common.
func spec(bases int) v1alpha1.Spec {
	return v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &bases}, Controller: v1alpha1.Controller{Env: quick}}
}

// bringUp starts the shared sandbox. With E2E_RACE=1 its own programs are built with the race detector.
func bringUp(ctx context.Context, b *box.Box) error {
	shared, programs, home = b, b.Bin, b.Home
	if os.Getenv("E2E_RACE") == "1" {
		if err := buildRacy(ctx); err != nil {
			return err
		}
		b.Bin = programs
	}
	b.Name += firstOfFuzz
	err := b.Up(ctx, spec(sharedBases))
	if err == nil {
		up, err = b.Open(ctx)
	}
	if err == nil {
		client, err = b.Client()
	}
	return err
}
