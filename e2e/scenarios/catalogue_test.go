package scenarios

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// catalogue is the folder of the scenarios.
var catalogue = filepath.Join("..", "..", "scenarios")

// Every scenario of the catalogue passes.
func TestCatalogue(t *testing.T) {
	all, err := source.Load([]string{catalogue}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("there is no scenario in %s", catalogue)
	}
	// Those that need the sandbox for themselves run before the others begin: a
	// parallel subtest waits until its parent has ended.
	for _, s := range all {
		t.Run(s.Scenario.Metadata.Name, func(t *testing.T) {
			if shared.Provider == v1alpha1.ProviderKind && killsAPIServer(s) {
				t.Skip("the API server of a kind cluster is not the sandbox's to kill")
			}
			if c := s.Scenario.Spec.Controller; shared.Provider == v1alpha1.ProviderKind && c != nil && c.APIView {
				t.Skip("nothing stands between a controller in the cluster and its API server")
			}
			if !*s.Scenario.Spec.Exclusive {
				t.Parallel()
			}
			f := features.New(s.Scenario.Spec.Description).Assess("passes", func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
				passes(ctx, t, up, s)
				return ctx
			})
			testenv.Test(t, f.Feature())
		})
	}
}

// killsAPIServer tells whether a scenario does anything to the API server.
func killsAPIServer(s *source.Scenario) (does bool) {
	s.Scenario.EachStep(func(_ *field.Path, step *v1alpha1.Step) { does = does || step.APIServer != nil })
	return does
}

// passes runs a scenario, with every cell of its matrix, and fails the test with
// the report if one has not passed.
func passes(ctx context.Context, t *testing.T, in *sandbox.Sandbox, s *source.Scenario) {
	t.Helper()
	r := execute(ctx, t, in, s)
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
	keep(ctx, t, r)
	t.Error(text(t, r))
}

func execute(ctx context.Context, t *testing.T, in *sandbox.Sandbox, s *source.Scenario) *scenario.Report {
	t.Helper()
	r, err := scenario.Execute(ctx, scenario.Options{Sandbox: in, Scenarios: []*source.Scenario{s}})
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
	if err := report.WriteText(&b, r, report.TextOptions{}); err != nil {
		t.Error(err)
	}
	return b.String()
}

// keep leaves the report and the logs of the sandbox in the artifacts.
func keep(ctx context.Context, t *testing.T, r *scenario.Report) {
	t.Helper()
	folder, err := check.Artifacts("..", t.Name())
	if err == nil {
		err = report.Save(filepath.Join(folder, "report.html"), r, report.WriteHTML)
	}
	if err == nil {
		err = report.Save(filepath.Join(folder, "report.json"), r, report.WriteJSON)
	}
	if err != nil {
		t.Errorf("the report is not kept: %v", err)
	}
	logs, err := shared.Run(ctx, "logs", "--tail", "500")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "logs.txt"), []byte(logs.Out+logs.Err), 0o600)
	}
	if err != nil {
		t.Errorf("the logs are not kept: %v", err)
	}
	t.Logf("report and logs are in %s", folder)
}
