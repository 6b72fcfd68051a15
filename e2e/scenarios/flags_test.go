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

// --repeat repeats every cell, and --parallel makes the runs concurrently, each in its own namespace.
func TestRepeat(t *testing.T) {
	t.Parallel()
	_, side := play(t, 0, nil, "--repeat", "2", "--parallel", "2", testdata("cells"))
	var order []string
	own := map[string]bool{}
	for _, r := range side.Runs {
		order = append(order, fmt.Sprintf("%v #%d", r.Cell["cell"], r.Attempt))
		own[r.Namespace] = true
	}
	if diff := cmp.Diff([]string{"a #1", "b #1", "a #2", "b #2"}, order); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if len(own) != 4 {
		t.Errorf("%d namespaces for 4 runs", len(own))
	}
	first, second := side.Runs[0], side.Runs[1]
	if second.Started.After(first.Started.Add(first.Elapsed)) ||
		first.Started.After(second.Started.Add(second.Elapsed)) {
		t.Errorf("the first two runs were not at the same time: %s for %s, %s for %s", first.Started, first.Elapsed,
			second.Started, second.Elapsed)
	}
}

// The command that a failure prints repeats it.
func TestAgain(t *testing.T) {
	t.Parallel()
	seeds := filepath.Join(t.TempDir(), "seeds")
	result, report := play(t, 1, nil, "--repeat", "2", "--var", "word=two words", "--var", "seeds="+seeds, "--var",
		"fail=b two words 2", testdata("cells"))
	failed := report.Runs[3]
	if failed.Verdict != scenario.Failed {
		t.Fatalf("the last run has %s", failed.Verdict)
	}
	found := regexp.MustCompile(`(?m)^  Again: (.*)$`).FindAllStringSubmatch(result.Out, -1)
	if len(found) != 1 {
		t.Fatalf("%d commands are printed, want 1:\n%s", len(found), result.Out)
	}
	shell(t, nil, found[0][1], 1)
	line := fmt.Sprintf("b two words 2 %d\n", failed.Seed)
	text, err := os.ReadFile(seeds)
	must(t, err)
	if n := strings.Count(string(text), line); n != 2 {
		t.Errorf("the run %q is in the runs, and again, %d times:\n%s", line, n, text)
	}
}

// --selector selects scenarios of a directory and does not check the others,
// --dry-run runs nothing, --from-step leaves steps out.
func TestSelection(t *testing.T) {
	t.Parallel()
	steps := filepath.Join(t.TempDir(), "steps")
	to := "steps=" + steps
	result, report := play(t, 0, nil, "--var", to, "--dry-run", "--repeat", "2", "--selector", "kind=steps", "testdata")
	if want := "three-steps\n\n2 runs of 1 scenario; all can be run.\n"; result.Out != want || report != nil {
		t.Errorf("--dry-run prints %q and reports %v, want %q", result.Out, report, want)
	}
	if _, err := os.Stat(steps); err == nil {
		t.Error("--dry-run has done a step")
	}
	if made := namespaces(t, "three-steps"); len(made) > 0 {
		t.Errorf("--dry-run has made %v", made)
	}

	_, report = play(t, 0, nil, "--var", to, "--from-step", "second", "--selector", "kind=steps", "testdata")
	got := map[string]scenario.Verdict{}
	for _, r := range report.Runs {
		for _, s := range r.Steps {
			got[r.Scenario+" "+s.Name] = s.Verdict
		}
	}
	want := map[string]scenario.Verdict{
		"three-steps first": scenario.Skipped, "three-steps second": scenario.Passed,
		"three-steps third": scenario.Passed,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(steps)
	must(t, err)
	if diff := cmp.Diff("second\nthird\n", string(text)); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}
