package scenarios

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// mutation is a controller that is broken on purpose, and who is to notice it.
type mutation struct {
	name     string
	env      map[string]string
	scenario string
	check    string // how the name of a check that fails begins; empty = requests are lost
}

// A scenario that has never been red proves nothing: with a controller that is
// broken on purpose one is red, and by the check that is meant for it.
func TestMutations(t *testing.T) {
	noticed(t, []mutation{
		{"the new Pod turns Ready before the old one turns Not Ready", map[string]string{"MUTATION": "reverse-handover"}, "rolling-update", "order"},
		{"no drain time", map[string]string{"MODULE_DRAIN": "-1s"}, "scale", ""},
		{"bases are never asked for their modules", map[string]string{"MUTATION": "no-lists"}, "uninstalled-by-others", "truth"},
		{"commands are retained", map[string]string{"MUTATION": "retain-commands"}, "reconnect", "activeVersion"},
	})
}

// The same for outages of minutes.
func TestLongMutations(t *testing.T) {
	needsLong(t)
	blind := map[string]string{"MUTATION": "never-blind"}
	noticed(t, []mutation{
		{"silence counts while the tunnel is down", blind, "long/broker-away-5m", "the broker is away: "},
		{"silence counts while the controller starts without a tunnel", blind, "long/broker-away-restart-5m", "the broker is away: "},
		{"silence counts while the connection is half open", blind, "long/broker-half-open", "nothing passes: "},
		{"the silence of most bases counts as that of each", map[string]string{"MUTATION": "no-mass"}, "long/most-silent-5m",
			"most bases are silent: "},
		{"what Pods had put on a base is forgotten", map[string]string{"MUTATION": "forget-placed"}, "long/partitioned-base-10m", "nothingLeft"},
	})
}

func noticed(t *testing.T, mutations []mutation) {
	t.Helper()
	bin := mutable(t)
	for _, c := range mutations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := load(t, filepath.Join(catalogue, c.scenario+".yaml"))
			broken, _ := ofSpeed(t, bin, c.env, s.Scenario.Spec.Speed)
			r := execute(t.Context(), t, broken, s)
			for _, run := range r.Runs {
				if run.Verdict == scenario.Failed && notices(run, c.check) {
					return
				}
			}
			t.Errorf("nobody noticed:\n%s", text(t, r))
		})
	}
}

// notices tells whether a check failed, or, without the beginning of its name, requests were lost.
func notices(run *scenario.Run, check string) bool {
	for _, c := range run.Checks {
		if check != "" && strings.HasPrefix(c.Name, check) && c.Verdict == scenario.Failed {
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
