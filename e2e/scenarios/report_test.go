package scenarios

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// TestFailure checks that a failed run shows the reason on the terminal and in the JSON report, and that the other
// reports contain the run.
func TestFailure(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	result, whole := run(t, 1, nil, "--report-dir", folder, testdata("no-start"))
	if len(whole.Runs) != 1 {
		t.Fatalf("%d runs, want 1", len(whole.Runs))
	}
	of := whole.Runs[0]

	t.Run("text", func(t *testing.T) {
		const why = `step "it serves": timed out after 2s: Deployment stock: status.readyReplicas: want 1, but it is missing`
		if of.Failure != why {
			t.Errorf("failure %q, want %q", of.Failure, why)
		}
		for what, pattern := range map[string]string{
			"the result": `(?m)^✗ no-start +\d+\.\ds(  machine delay \d+\.\ds)?$`,
			"the line": `testdata/no-start\.yaml:14  seed \d+  namespace ` + regexp.QuoteMeta(of.Namespace) +
				`\n`,
			"the reason":        regexp.QuoteMeta(why),
			"the step":          `(?m)^    ✗ assert +it serves +\d+\.\ds  timed out after 2s`,
			"the diff":          `(?m)^  Differences\n    status\.readyReplicas: want 1, but it is missing\n`,
			"the last object":   `(?m)^  Deployment stock, last observed\n    apiVersion: apps/v1\n`,
			"the Pod":           `(?m)^  Pods\n    base-1  stock:1\.0\.0 Pending, InstallModuleFailed \(stock-\S+\)$`,
			"the Pod's events":  `(?m)^  Pod events\n(.*\n)*?.* stock-\S+  Warning .*User\.InstallBizUserError`,
			"the base's answer": `(?m)^  Last commands of the bases\n(.*\n)*?.*command base-1: installBiz stock:1\.0\.0 User\.InstallBizUserError after `,
			"the rerun command": `(?m)^  Rerun: koupsandbox scenario run --name ` + shared.Name +
				` --seed \d+ testdata/no-start\.yaml$`,
			"the summary": `(?m)^1 failed in \d+\.\ds \(seed \d+\)$`,
		} {
			if !regexp.MustCompile(pattern).MatchString(result.Out) {
				t.Errorf("the output does not contain %s:\n%s", what, result.Out)
			}
		}
	})
	t.Run("json", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(folder, "report.json"))
		must(t, err)
		saved := &scenario.Report{}
		must(t, json.Unmarshal(text, saved))
		if diff := cmp.Diff(whole, saved, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("--json and --report-dir differ (-json +dir):\n%s", diff)
		}
		steps := map[string]scenario.Result{}
		for _, s := range of.Steps {
			steps[s.Name] = s.Result
		}
		if diff := cmp.Diff(map[string]scenario.Result{"apply deployment.yaml": scenario.Passed,
			"it serves": scenario.Failed}, steps); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		if of.Result != scenario.Failed || len(of.Timeline) == 0 || len(of.Checks) == 0 {
			t.Errorf("result %s, %d events, %d checks", of.Result, len(of.Timeline), len(of.Checks))
		}
	})
	for _, name := range []string{"junit.xml", "report.html", "summary.md"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil ||
			!strings.Contains(string(text), of.Scenario) {
			t.Errorf("%s does not contain the name of the scenario (error: %v)", name, err)
		}
	}
}

// TestLosses checks that the output reports lost requests and each violation of a check exactly once.
func TestLosses(t *testing.T) {
	t.Parallel()
	result, whole := run(t, 1, nil, testdata("lossy"))
	of := whole.Runs[0]
	if len(of.Traffic) != 1 || of.Traffic[0].Summary.Lost == 0 {
		t.Fatalf("no requests were lost: %+v", of.Traffic)
	}
	messages := []string{"Lost requests of straight: "}
	for _, c := range of.Checks {
		for _, v := range c.Violations {
			messages = append(messages, v.Message)
		}
	}
	if len(messages) != 2 {
		t.Errorf("%d violations, want 1", len(messages)-1)
	}
	for _, text := range messages {
		if n := strings.Count(strings.ToLower(result.Out), strings.ToLower(text)); n != 1 {
			t.Errorf("the output contains %q %d times, want once:\n%s", text, n, result.Out)
		}
	}
}
