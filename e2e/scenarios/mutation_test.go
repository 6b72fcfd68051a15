package scenarios

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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
		{"bases are never asked for their modules", map[string]string{"MUTATION": "no-lists"}, "uninstalled-by-others", "truth"},
		{"commands are retained", map[string]string{"MUTATION": "retain-commands"}, "reconnect", "activeVersion"},
		{"silence counts whatever the controller can see", map[string]string{"MUTATION": "never-blind"}, "long/broker-away-5m",
			"the broker is away: a Node is not Ready, or gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all, err := source.Load([]string{filepath.Join(catalogue, c.scenario+".yaml")}, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := execute(t.Context(), t, ofSpeed(t, bin, c.env, all[0].Scenario.Spec.Speed), all[0])
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
