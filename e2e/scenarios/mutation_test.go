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

// mutant is a controller with a defect, and the scenario and the check that detect the defect.
type mutant struct {
	name     string
	mutation string // name in package mutate; empty if env causes the defect
	env      map[string]string
	scenario string
	check    string // prefix of the name of the failed check or step; empty if requests are lost
}

// Scenarios detect defects of the controller: each scenario fails with the mutant, in the check for this defect.
func TestMutations(t *testing.T) {
	t.Parallel()
	requireDetected(t, []mutant{
		{"the new Pod becomes Ready before the old Pod becomes Not Ready", "reverse-handover", nil, "rolling-update",
			"order"},
		{"no drain time", "", map[string]string{"MODULE_DRAIN": "-1s"}, "scale", ""},
	})
}

// TestLongMutations is TestMutations for scenarios that take minutes.
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

// requireDetected fails the test unless each scenario detects its mutant.
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
			r := execute(t.Context(), t, own.up, s)
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

// detects reports whether the check or step with the given prefix failed; with an empty prefix, whether requests were
// lost.
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
	// koupsandbox searches the other binaries in its own directory after it has resolved symbolic links, so it is
	// copied.
	program, err := os.ReadFile(filepath.Join(binDir, box.Binary))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bin, box.Binary), program, 0o700))
	must(t, os.Symlink(filepath.Join(binDir, sandbox.ControlPlaneBinary),
		filepath.Join(bin, sandbox.ControlPlaneBinary)))
}
