package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/mutate"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// broken is a controller that is broken on purpose, and who is to notice it.
type broken struct {
	name     string
	mutation string // of package mutate; empty = env breaks it
	env      map[string]string
	scenario string
	check    string // how the name of a check, or of a step, that fails begins; empty = requests are lost
}

// A scenario that has never failed proves nothing. Each of these scenarios fails with a controller that has a defect, and
// the check that is meant for the defect fails.
func TestMutations(t *testing.T) {
	t.Parallel()
	noticed(t, []broken{
		{"the new Pod turns Ready before the old one turns Not Ready", "reverse-handover", nil, "rolling-update",
			"order"},
		{"no drain time", "", map[string]string{"MODULE_DRAIN": "-1s"}, "scale", ""},
	})
}

// TestLongMutations does the same for more defects.
func TestLongMutations(t *testing.T) {
	needsLong(t)
	noticed(t, []broken{
		{"a module goes while a Service sends requests to its Pod", "believe-the-drain", nil,
			"regressions/deleted-pod-in-endpoints", "the Pod is deleted"},
		{"the version that answers goes while a Service sends requests to another Pod", "drain-alone", nil,
			"regressions/pods-leave-in-rollout", ""},
		{"Pods turn Not Ready until their bases have listed their modules", "forget-ready", nil, "slow-list-at-restart",
			""},
		{"commands are retained", "retain-commands", nil, "reconnect", "activeVersion"},
		{"silence counts while the tunnel is down", "never-blind", nil, "long/broker-away-5m", "the broker is away: "},
		{"silence counts while the controller starts without a tunnel", "never-blind", nil,
			"long/broker-away-restart-5m", "the broker is away: "},
		{"silence counts while the connection is half open", "never-blind", nil, "long/broker-half-open",
			"nothing passes: "},
		{"a blind controller keeps its bases", "never-hand-over", nil, "long/controller-blind",
			"the rollout ends while it is blind"},
	})
}

func noticed(t *testing.T, controllers []broken) {
	t.Helper()
	bins, built := t.TempDir(), map[string]*sync.Once{} // by mutation: several need the same
	for _, c := range controllers {
		if built[c.mutation] == nil {
			built[c.mutation] = &sync.Once{}
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bin := programs
			if c.mutation != "" {
				bin = filepath.Join(bins, c.mutation)
				built[c.mutation].Do(func() { build(t, c.mutation, bin) })
			}
			s := load(t, filepath.Join(catalogue, c.scenario+".yaml"))
			own, _ := ofSpeed(t, bin, c.env, s.Scenario.Spec.Speed)
			r := execute(t.Context(), t, own.up, s)
			for _, run := range r.Runs {
				// A run on a slow machine is inconclusive, but its checks and requests have failed.
				if run.Result != scenario.Passed && detects(run, c.check) {
					return
				}
			}
			t.Errorf("nobody noticed:\n%s", text(t, r))
		})
	}
}

// detects reports whether the check or step with the given prefix failed; with an empty prefix, whether requests were lost.
func detects(run *scenario.Run, check string) bool {
	for _, c := range run.Checks {
		if check != "" && strings.HasPrefix(c.Name, check) && c.Result == scenario.Failed {
			return true
		}
	}
	for _, s := range run.Steps {
		if check != "" && strings.HasPrefix(s.Name, check) && s.Result == scenario.Failed {
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

// build builds the controller with a mutation into a new directory, together with copies of the other binaries.
func build(t *testing.T, name, bin string) {
	t.Helper()
	must(t, os.Mkdir(bin, 0o700))
	m, err := mutate.Named(name)
	must(t, err)
	must(t, m.Build(t.Context(), filepath.Join("..", ".."), filepath.Join(bin, box.ControllerBinary)))
	// koupsandbox looks for the others where it stands itself, and not where a link to it does.
	program, err := os.ReadFile(filepath.Join(programs, box.Program))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bin, box.Program), program, 0o700))
	must(t, os.Symlink(filepath.Join(programs, sandbox.ControlPlaneBinary),
		filepath.Join(bin, sandbox.ControlPlaneBinary)))
}
