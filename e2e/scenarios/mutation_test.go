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

// mutant is a controller with a defect. scenario and check detect the defect.
type mutant struct {
	name     string
	mutation string // name of a mutation in package mutate; empty if env causes the defect
	env      map[string]string
	scenario string
	check    string // name prefix of the check or step that must fail; empty if requests must be lost
}

// TestMutations checks that scenarios detect defects of the controller. Each scenario must fail with its mutant, in
// the check for this defect.
func TestMutations(t *testing.T) {
	t.Parallel()
	requireDetected(t, []mutant{
		{"the new Pod becomes Ready before the old Pod becomes Not Ready", "reverse-handover", nil, "rolling-update",
			"order"},
		{"no drain time", "", map[string]string{"MODULE_DRAIN": "-1s"}, "scale", ""},
	})
}

// TestLongMutations is like TestMutations, for scenarios that take minutes.
func TestLongMutations(t *testing.T) {
	needsLong(t)
	requireDetected(t, []mutant{
		{"a module is uninstalled while a Service sends requests to its Pod", "trust-drain-time", nil,
			"regressions/deleted-pod-in-endpoints", "the Pod is deleted"},
		{"the active version is uninstalled while a Service sends requests to another Pod of the base", "drain-alone",
			nil,
			"regressions/pods-leave-in-rollout", ""},
		{"Pods are Not Ready until their bases have listed their modules", "forget-ready", nil, "slow-list-at-restart",
			""},
		{"commands are retained", "retain-commands", nil, "reconnect", "activeVersion"},
		{"missed heartbeats are counted while the tunnel is down", "count-unobserved", nil, "long/broker-away-5m",
			"the broker is away: "},
		{"missed heartbeats are counted while the controller starts without a tunnel", "count-unobserved", nil,
			"long/broker-away-restart-5m", "the broker is away: "},
		{"missed heartbeats are counted while the connection is half open", "count-unobserved", nil,
			"long/broker-half-open",
			"nothing passes: "},
		{"a controller without a tunnel keeps its bases", "never-hand-over", nil, "long/controller-blind",
			"the rollout ends while it is blind"},
	})
}

// requireDetected fails the test unless each mutant is detected by its scenario.
func requireDetected(t *testing.T, controllers []mutant) {
	t.Helper()
	bins, built := t.TempDir(), map[string]*sync.Once{} // by mutation, because several mutants can have the same one
	for _, c := range controllers {
		if built[c.mutation] == nil {
			built[c.mutation] = &sync.Once{}
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bin := binDir
			if c.mutation != "" {
				bin = filepath.Join(bins, c.mutation)
				built[c.mutation].Do(func() { build(t, c.mutation, bin) })
			}
			s := load(t, filepath.Join(catalogue, c.scenario+".yaml"))
			own, _ := startSandbox(t, bin, c.env, s.Scenario.Spec.Speed)
			r := execute(t.Context(), t, own.up, s, parallelCells)
			for _, run := range r.Runs {
				// A run on a slow machine is inconclusive, but its checks and requests have failed.
				if run.Result != scenario.Passed && detects(run, c.check) {
					return
				}
			}
			t.Errorf("the scenario did not detect the mutant:\n%s", text(t, r))
		})
	}
}

// detects reports whether a check or step whose name begins with check has failed. If check is empty, it reports
// whether requests were lost.
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

// build builds the controller with the named mutation into the new directory bin, and copies the other binaries to
// bin.
func build(t *testing.T, name, bin string) {
	t.Helper()
	must(t, os.Mkdir(bin, 0o700))
	m, err := mutate.Named(name)
	must(t, err)
	must(t, m.Build(t.Context(), filepath.Join("..", ".."), filepath.Join(bin, box.ControllerBinary)))
	// koupsandbox searches the other binaries in its own directory after it has resolved symbolic links, so it is
	// copied.
	program, err := os.ReadFile(filepath.Join(binDir, box.Binary))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bin, box.Binary), program, 0o700))
	must(t, os.Symlink(filepath.Join(binDir, sandbox.ControlPlaneBinary),
		filepath.Join(bin, sandbox.ControlPlaneBinary)))
}
