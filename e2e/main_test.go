package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/types"

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

// What all tests use; TestMain sets it.
var (
	testenv  types.Environment
	programs string // folder of the built programs
	home     string // folder of all sandboxes of this run
	shared   *box.Box
	up       *sandbox.Sandbox // the Go API of shared
	client   kubernetes.Interface
	objects  *resources.Resources // for objects of whatever kind
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	err := prepare(ctx)
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	testenv = env.NewWithConfig(envconf.New().WithFailFast())
	testenv.Setup(func(ctx context.Context, _ *envconf.Config) (context.Context, error) { return ctx, bringUp(ctx) })
	var endErr error // the framework itself only logs it
	testenv.Finish(func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
		endErr = errors.Join(races(shared), shared.Down(ctx))
		return ctx, nil
	})
	testenv.BeforeEachFeature(isolate)
	code := testenv.Run(m)
	if endErr != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", endErr)
		return 1
	}
	return code
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

// prepare finds the programs: those that make build has left in bin, those in
// $E2E_BIN, or, with E2E_RACE=1, ones that it builds with the race detector.
func prepare(ctx context.Context) error {
	var err error
	if home, err = os.MkdirTemp("", "koup-e2e-"); err != nil { // a short path, because sockets go there
		return fmt.Errorf("making a folder for sandboxes: %w", err)
	}
	if programs, err = box.FindPrograms(".."); err != nil {
		return err
	}
	if os.Getenv("E2E_RACE") == "1" {
		return buildRacy(ctx)
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

func bringUp(ctx context.Context) error {
	shared = newBox("e2e")
	shared.Name += firstOfFuzz
	start := time.Now()
	if err := shared.Up(ctx, spec(sharedBases)); err != nil {
		return err
	}
	fmt.Printf("sandbox %s is up after %.1fs\n", shared.Name, time.Since(start).Seconds())
	var err error
	if up, err = shared.Open(ctx); err != nil {
		return err
	}
	if client, err = clientOf(shared); err != nil {
		return err
	}
	config, err := shared.REST()
	if err != nil {
		return err
	}
	objects, err = resources.New(config)
	return err
}

func clientOf(b *box.Box) (kubernetes.Interface, error) {
	config, err := b.REST()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}
