package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// TestRepeat checks that --repeat repeats every cell, and that --parallel executes runs concurrently, each in its own
// namespace.
func TestRepeat(t *testing.T) {
	t.Parallel()
	_, report := run(t, 0, nil, "--repeat", "2", "--parallel", "2", testdata("cells"))
	var order []string
	namespaces := map[string]bool{}
	for _, r := range report.Runs {
		order = append(order, fmt.Sprintf("%v #%d", r.Cell["cell"], r.Attempt))
		namespaces[r.Namespace] = true
	}
	if diff := cmp.Diff([]string{"a #1", "b #1", "a #2", "b #2"}, order); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if len(namespaces) != 4 {
		t.Errorf("%d namespaces for 4 runs", len(namespaces))
	}
	first, second := report.Runs[0], report.Runs[1]
	if second.Started.After(first.Started.Add(first.Elapsed)) ||
		first.Started.After(second.Started.Add(second.Elapsed)) {
		t.Errorf("the first two runs were not concurrent: %s for %s, %s for %s", first.Started, first.Elapsed,
			second.Started, second.Elapsed)
	}
}

// TestRerunCommand checks that the rerun command in the output of a failed run repeats this run with the same seed.
func TestRerunCommand(t *testing.T) {
	t.Parallel()
	seeds := filepath.Join(t.TempDir(), "seeds")
	result, report := run(t, 1, nil, "--repeat", "2", "--var", "word=two words", "--var", "seeds="+seeds, "--var",
		"fail=b two words 2", testdata("cells"))
	failed := report.Runs[3]
	if failed.Result != scenario.Failed {
		t.Fatalf("the result of the last run is %s, want failed", failed.Result)
	}
	found := regexp.MustCompile(`(?m)^  Rerun: (.*)$`).FindAllStringSubmatch(result.Out, -1)
	if len(found) != 1 {
		t.Fatalf("%d rerun commands, want 1:\n%s", len(found), result.Out)
	}
	want := 2
	if strings.Contains(shell(t, nil, found[0][1], 1), "  repeated") {
		want++ // the machine was too slow for a result at the first attempt
	}
	line := fmt.Sprintf("b two words 2 %d\n", failed.Seed)
	text, err := os.ReadFile(seeds)
	must(t, err)
	if n := strings.Count(string(text), line); n != want {
		t.Errorf("the run %q was executed %d times, want %d:\n%s", line, n, want, text)
	}
}

// TestSelection checks three flags: --selector selects scenarios of a directory and does not validate the others,
// --dry-run executes no steps, and --from-step skips the earlier steps.
func TestSelection(t *testing.T) {
	t.Parallel()
	steps := filepath.Join(t.TempDir(), "steps")
	to := "steps=" + steps
	result, report := run(t, 0, nil, "--var", to, "--dry-run", "--repeat", "2", "--selector", "kind=steps", "testdata")
	if want := "three-steps\n\n2 runs of 1 scenario; all are valid.\n"; result.Out != want || report != nil {
		t.Errorf("--dry-run prints %q and reports %v, want %q", result.Out, report, want)
	}
	if _, err := os.Stat(steps); err == nil {
		t.Error("--dry-run executed a step")
	}
	if created := runNamespaces(t, "three-steps"); len(created) > 0 {
		t.Errorf("--dry-run created the namespaces %v", created)
	}

	_, report = run(t, 0, nil, "--var", to, "--from-step", "second", "--selector", "kind=steps", "testdata")
	got := map[string]scenario.Result{}
	for _, r := range report.Runs {
		for _, s := range r.Steps {
			got[r.Scenario+" "+s.Name] = s.Result
		}
	}
	want := map[string]scenario.Result{
		"three-steps first": scenario.Skipped, "three-steps second": scenario.Passed,
		"three-steps third": scenario.Passed,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(steps)
	must(t, err)
	if diff := cmp.Diff("second\nthird\n", string(text)); diff != "" {
		t.Errorf("executed steps (-want +got):\n%s", diff)
	}
}

// TestOtherEnvironment checks that --up fails if the running sandbox has another environment than the requested one.
func TestOtherEnvironment(t *testing.T) {
	t.Parallel()
	result, report := run(t, 2, nil, "--up", "--env", "elsewhere", testdata("three-steps"))
	if want := "already running with the environment"; !strings.Contains(result.Err, want) || report != nil {
		t.Errorf("error %q, want %q; report %v", result.Err, want, report)
	}
}
