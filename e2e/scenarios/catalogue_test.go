package scenarios

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// catalogue is the directory of the scenario catalogue.
var catalogue = filepath.Join("..", "..", "scenarios")

// selected returns the scenarios that are listed in E2E_SCENARIOS, separated by commas. If E2E_SCENARIOS is empty,
// selected returns all scenarios. It fails the test if a listed name is not in the catalogue.
func selected(t *testing.T, all []*source.Scenario) []*source.Scenario {
	t.Helper()
	list := os.Getenv("E2E_SCENARIOS")
	if list == "" {
		return all
	}
	var chosen []*source.Scenario
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(s *source.Scenario) bool { return s.Scenario.Metadata.Name == name })
		if i < 0 {
			t.Fatalf("E2E_SCENARIOS names %q, which is not in %s", name, catalogue)
		}
		chosen = append(chosen, all[i])
	}
	return chosen
}

// TestCatalogue checks that every scenario of the catalogue passes.
func TestCatalogue(t *testing.T) {
	all, err := source.Load([]string{catalogue, filepath.Join(catalogue, "regressions")}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no scenarios", catalogue)
	}
	all = selected(t, all)
	// Scenarios with many cells run first, so that all sandboxes finish at about the same time.
	slices.SortStableFunc(all, func(a, b *source.Scenario) int { return len(b.Cells) - len(a.Cells) })
	shareable, exclusive := make(chan *source.Scenario, len(all)), make(chan *source.Scenario, len(all))
	for _, s := range all {
		if *s.Scenario.Spec.Exclusive {
			exclusive <- s
		} else {
			shareable <- s
		}
	}
	close(shareable)
	close(exclusive)
	runQueue := func(in runningSandbox, queue <-chan *source.Scenario) {
		for s := range queue {
			t.Run(s.Scenario.Metadata.Name, func(t *testing.T) { runScenario(t, in, s) })
		}
	}
	sharedSandbox := runningSandbox{shared, up}
	var exclusiveDone, shareableDone sync.WaitGroup
	for range parallelScenarios {
		shareableDone.Go(func() { runQueue(sharedSandbox, shareable) })
	}
	for _, s := range exclusiveSandboxes {
		exclusiveDone.Go(func() { runQueue(s, exclusive) })
	}
	shareableDone.Wait()
	runQueue(sharedSandbox, exclusive) // no other scenario uses the shared sandbox now
	exclusiveDone.Wait()
}

// runScenario runs a scenario of the catalogue in a sandbox. It skips the scenario if the sandbox does not support
// it. On kind and with an external broker, it runs only the first cell of each matrix, because these sandboxes differ
// only in the connections of the controller and the bases.
func runScenario(t *testing.T, in runningSandbox, s *source.Scenario) {
	t.Helper()
	if (in.box.Provider == v1alpha1.ProviderKind || externalBroker != nil) && len(s.Cells) > 1 {
		t.Logf("running %s with only one of its %d cells: %s", s.Scenario.Metadata.Name, len(s.Cells), s.Cells[0].Name)
		s.Cells = s.Cells[:1]
	}
	if in.box.Provider == v1alpha1.ProviderKind && killsControlPlane(s) {
		t.Skip("the sandbox cannot kill the control plane of a kind cluster")
	}
	if c := s.Scenario.Spec.Controller; in.box.Provider == v1alpha1.ProviderKind && c != nil && c.APIView {
		t.Skip("a controller in the cluster has no API proxy")
	}
	f := features.New(s.Scenario.Spec.Description).Assess("passes",
		func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
			requirePassed(ctx, t, in, s)
			return ctx
		})
	box.Env.Test(t, f.Feature())
}

// killsControlPlane reports whether a scenario has steps that act on components of the control plane.
func killsControlPlane(s *source.Scenario) (kills bool) {
	s.Scenario.EachStep(func(_ *field.Path, step *v1alpha1.Step) {
		kills = kills || step.APIServer != nil || step.ControllerManager != nil || step.Scheduler != nil
	})
	return kills
}

// exclusiveRun is held for writing while an inconclusive scenario is repeated, so that no other scenario runs at the
// same time.
var exclusiveRun sync.RWMutex

// requirePassed runs all cells of a scenario. It fails the test with the report unless all runs pass.
func requirePassed(ctx context.Context, t *testing.T, in runningSandbox, s *source.Scenario) {
	t.Helper()
	exclusiveRun.RLock()
	r := execute(ctx, t, in.up, s, parallelCells)
	exclusiveRun.RUnlock()
	for n := 0; n < maxRepeats && slices.ContainsFunc(r.Runs, (*scenario.Run).Inconclusive); n++ {
		t.Logf("repeating %s without parallel scenarios: %s", s.Scenario.Metadata.Name, text(t, r))
		exclusiveRun.Lock()
		r = execute(ctx, t, in.up, s, 1)
		exclusiveRun.Unlock()
	}
	sent, lost := 0, 0
	for _, run := range r.Runs {
		for _, stream := range run.Traffic {
			sent, lost = sent+stream.Sent, lost+stream.Summary.Lost
		}
	}
	t.Logf("%d runs, %d requests sent, %d lost", len(r.Runs), sent, lost)
	if r.Result() == scenario.Passed {
		return
	}
	why := text(t, r)
	saveArtifacts(ctx, t, in, r, why)
	t.Error(why)
}

// execute runs all cells of a scenario, at most parallel at the same time.
func execute(ctx context.Context, t *testing.T, in *sandbox.Sandbox, s *source.Scenario, parallel int,
) *scenario.Report {
	t.Helper()
	r, err := scenario.Execute(ctx,
		scenario.Options{Sandbox: in, Scenarios: []*source.Scenario{s}, Parallel: parallel})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) < len(s.Cells) {
		t.Fatalf("%d runs, want at least one for each of %d cells", len(r.Runs), len(s.Cells))
	}
	return r
}

func text(t *testing.T, r *scenario.Report) string {
	t.Helper()
	var b bytes.Buffer
	for _, run := range r.Runs {
		if err := report.WriteRun(&b, run, report.TextOptions{}); err != nil {
			t.Error(err)
		}
	}
	return b.String()
}

// saveArtifacts writes the report and the logs of the sandbox to the artifacts directory.
func saveArtifacts(ctx context.Context, t *testing.T, in runningSandbox, r *scenario.Report, text string) {
	t.Helper()
	folder, err := check.Artifacts("..", t.Name())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "report.txt"), []byte(text), 0o600)
	}
	if err == nil {
		err = report.Save(filepath.Join(folder, "report.html"), r, report.WriteHTML)
	}
	if err == nil {
		err = report.Save(filepath.Join(folder, "report.json"), r, report.WriteJSON)
	}
	if err != nil {
		t.Errorf("saving the report: %v", err)
	}
	logs, err := in.box.Run(ctx, "logs", "--tail", "500")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "logs.txt"), []byte(logs.Out+logs.Err), 0o600)
	}
	if err != nil {
		t.Errorf("saving the logs: %v", err)
	}
	t.Logf("report and logs are in %s", folder)
}
