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

// catalogue is the directory of the scenarios.
var catalogue = filepath.Join("..", "..", "scenarios")

// selected returns the scenarios that E2E_SCENARIOS names, separated by commas, or all of them if it is empty.
// It fails the test if a name is not in the catalogue.
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

// Every scenario of the catalogue passes.
func TestCatalogue(t *testing.T) {
	all, err := source.Load([]string{catalogue, filepath.Join(catalogue, "regressions")}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("there is no scenario in %s", catalogue)
	}
	all = selected(t, all)
	// The longest begin, so that all sandboxes end together.
	slices.SortStableFunc(all, func(a, b *source.Scenario) int { return len(b.Cells) - len(a.Cells) })
	together, alone := make(chan *source.Scenario, len(all)), make(chan *source.Scenario, len(all))
	for _, s := range all {
		if *s.Scenario.Spec.Exclusive {
			alone <- s
		} else {
			together <- s
		}
	}
	close(together)
	close(alone)
	work := func(in place, queue <-chan *source.Scenario) {
		for s := range queue {
			t.Run(s.Scenario.Metadata.Name, func(t *testing.T) { assess(t, in, s) })
		}
	}
	here := place{shared, up}
	var ended, side sync.WaitGroup
	for range sideBySide {
		side.Go(func() { work(here, together) })
	}
	for _, p := range places {
		ended.Go(func() { work(p, alone) })
	}
	side.Wait()
	work(here, alone) // no other scenario runs
	ended.Wait()
}

// assess runs a scenario of the catalogue in a sandbox, if it can be run there. On kind and with the
// user's broker, which differ by the way to the controller and to bases alone, one cell of each matrix is
// enough.
func assess(t *testing.T, in place, s *source.Scenario) {
	t.Helper()
	if (in.box.Provider == v1alpha1.ProviderKind || theirs != nil) && len(s.Cells) > 1 {
		t.Logf("here %s is run with one of its %d cells: %s", s.Scenario.Metadata.Name, len(s.Cells), s.Cells[0].Name)
		s.Cells = s.Cells[:1]
	}
	if in.box.Provider == v1alpha1.ProviderKind && killsControlPlane(s) {
		t.Skip("the control plane of a kind cluster is not the sandbox's to kill")
	}
	if c := s.Scenario.Spec.Controller; in.box.Provider == v1alpha1.ProviderKind && c != nil && c.APIView {
		t.Skip("nothing stands between a controller in the cluster and its API server")
	}
	f := features.New(s.Scenario.Spec.Description).Assess("passes",
		func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
			passes(ctx, t, in, s)
			return ctx
		})
	box.Env.Test(t, f.Feature())
}

// killsControlPlane reports whether a scenario affects the control plane.
func killsControlPlane(s *source.Scenario) (does bool) {
	s.Scenario.EachStep(func(_ *field.Path, step *v1alpha1.Step) {
		does = does || step.APIServer != nil || step.ControllerManager != nil || step.Scheduler != nil
	})
	return does
}

// machine is locked for writing while an inconclusive scenario is repeated: no other scenario runs in parallel.
var machine sync.RWMutex

// passes runs a scenario, with every cell of its matrix, and fails the test with
// the report if one has not passed.
func passes(ctx context.Context, t *testing.T, in place, s *source.Scenario) {
	t.Helper()
	machine.RLock()
	r := execute(ctx, t, in.up, s)
	machine.RUnlock()
	if slices.ContainsFunc(r.Runs, (*scenario.Run).Inconclusive) {
		t.Logf("%s is run again, alone: %s", s.Scenario.Metadata.Name, text(t, r))
		machine.Lock()
		r = execute(ctx, t, in.up, s)
		machine.Unlock()
	}
	sent, lost := 0, 0
	for _, run := range r.Runs {
		for _, stream := range run.Traffic {
			sent, lost = sent+stream.Sent, lost+stream.Summary.Lost
		}
	}
	t.Logf("%d runs, %d requests sent, %d lost", len(r.Runs), sent, lost)
	if r.Verdict() == scenario.Passed {
		return
	}
	why := text(t, r)
	keep(ctx, t, in, r, why)
	t.Error(why)
}

func execute(ctx context.Context, t *testing.T, in *sandbox.Sandbox, s *source.Scenario) *scenario.Report {
	t.Helper()
	r, err := scenario.Execute(ctx,
		scenario.Options{Sandbox: in, Scenarios: []*source.Scenario{s}, Parallel: cellsAtOnce})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) < len(s.Cells) {
		t.Fatalf("%d runs of %d cells", len(r.Runs), len(s.Cells))
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

// keep leaves the report, its text too, and the logs of the sandbox in the artifacts.
func keep(ctx context.Context, t *testing.T, in place, r *scenario.Report, text string) {
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
		t.Errorf("the report is not kept: %v", err)
	}
	logs, err := in.box.Run(ctx, "logs", "--tail", "500")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "logs.txt"), []byte(logs.Out+logs.Err), 0o600)
	}
	if err != nil {
		t.Errorf("the logs are not kept: %v", err)
	}
	t.Logf("report and logs are in %s", folder)
}
