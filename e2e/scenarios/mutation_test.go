package scenarios

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// A scenario that has never been red proves nothing: with a controller that is
// broken on purpose one is red, and by the check that is meant for it.
func TestMutations(t *testing.T) {
	bin := mutable(t)
	for _, c := range []struct {
		name     string
		env      map[string]string
		scenario string
		check    string // a built-in check that fails; empty = requests are lost
	}{
		{"the new Pod turns Ready before the old one turns Not Ready", map[string]string{"MUTATION": "reverse-handover"}, "rolling-update", "order"},
		{"no drain time", map[string]string{"MODULE_DRAIN": "-1s"}, "scale", ""},
		{"commands are retained", map[string]string{"MUTATION": "retain-commands"}, "reconnect", "activeVersion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all, err := source.Load([]string{filepath.Join(catalogue, c.scenario+".yaml")}, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := execute(t.Context(), t, mutant(t, bin, c.env), all[0])
			for _, run := range r.Runs {
				if run.Verdict == scenario.Failed && notices(run, c.check) {
					return
				}
			}
			t.Errorf("nobody noticed:\n%s", text(t, r))
		})
	}
}

// notices tells whether a check failed, or, without its name, requests were lost.
func notices(run *scenario.Run, check string) bool {
	for _, c := range run.Checks {
		if c.Name == check && c.Verdict == scenario.Failed {
			return true
		}
	}
	for _, stream := range run.Traffic {
		if check == "" && stream.Summary.Lost > 0 {
			return true
		}
	}
	return false
}

// mutant brings up a sandbox of its own with a controller that can be broken.
func mutant(t *testing.T, bin string, env map[string]string) *sandbox.Sandbox {
	t.Helper()
	b := &box.Box{Bin: bin, Home: home, Name: envconf.RandomName("broken", 12)}
	t.Cleanup(func() {
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	spec := spec()
	spec.Controller.Env = maps.Clone(env)
	if err := b.Up(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// mutable builds the controller with the tag mutation, beside the other programs as they are.
func mutable(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "mutation", "-o", filepath.Join(bin, box.ControllerProgram), "./controller/cmd/module-controller")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the controller with mutations: %v\n%s", err, out)
	}
	// koupsandbox looks for the others where it stands itself, and not where a link to it does.
	program, err := os.ReadFile(filepath.Join(programs, box.Program))
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, box.Program), program, 0o700)
	}
	if err == nil {
		err = os.Symlink(filepath.Join(programs, sandbox.ControlPlaneProgram), filepath.Join(bin, sandbox.ControlPlaneProgram))
	}
	if err != nil {
		t.Fatal(err)
	}
	return bin
}
