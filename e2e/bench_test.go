package e2e

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/scenarios"
)

// tiny is a scenario that starts a module on each base.
const tiny = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: tiny}
spec:
  description: A module starts on each base.
  vars: {module: stock, bases: 2, replicas: "${{ vars.bases }}", install: 20ms}
  bases: [{count: "${{ vars.bases }}", installTime: "${{ vars.install }}"}]
  steps:
    - apply: {file: manifests/service.yaml}
    - apply: {file: manifests/deployment.yaml, vars: {version: 1.0.0}}
    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: stock}}
    - assert: {cel: "endpointslices.exists(s, has(s.endpoints) && s.endpoints.filter(e, e.conditions.ready).size() == vars.bases)"}
`

// writeScenario writes the scenario and its manifests, and returns their directory and the path of the scenario.
func writeScenario(t *testing.T) (folder, file string) {
	t.Helper()
	folder = t.TempDir()
	must(t, os.CopyFS(folder, scenarios.Files))
	file = filepath.Join(folder, "tiny.yaml")
	must(t, os.WriteFile(file, []byte(tiny), 0o600))
	return folder, file
}

// TestBench checks that bench measures each phase of a Pod's start, and reports a longer install time as worse than
// the baseline.
func TestBench(t *testing.T) {
	folder, file := writeScenario(t)
	r, err := shared.Run(t.Context(), "bench", "--bases", "3,2", file)
	must(t, err)
	if r.Status != 0 {
		t.Fatalf("exit status %d\n%s", r.Status, r.Err)
	}
	got, requests := map[string]int{}, 0
	for line := range strings.Lines(r.Out) {
		switch name, _, _ := strings.Cut(line, " "); {
		case strings.Contains(name, "/measure=api_request/"):
			requests++
		case strings.HasPrefix(name, "Benchmark"):
			got[name]++
		}
	}
	want := map[string]int{}
	for _, size := range []string{"2", "3"} {
		for _, measure := range []string{"create_to_schedule", "schedule_to_install", "install_to_run", "run_to_watch",
			"pod_startup", "network_programming", "scheduling_throughput"} {
			want["BenchmarkTiny/bases="+size+"/measure="+measure] = 4
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if requests < 10*8 {
		t.Errorf("only %d results of requests in 8 runs", requests)
	}

	before := filepath.Join(folder, "before.txt")
	must(t, os.WriteFile(before, []byte(r.Out), 0o600))
	r, err = shared.Run(t.Context(), "bench", "--bases", "2", "--var", "install=600ms", "--baseline", before, file)
	must(t, err)
	slower := regexp.MustCompile(`(?m)^WORSE +Tiny/bases=2/measure=install_to_run `)
	if r.Status != 1 || !slower.MatchString(r.Err) {
		t.Errorf("a longer install time was not detected: exit status %d\n%s", r.Status, r.Err)
	}
	if !strings.Contains(r.Err, "missing from the new results: Tiny/bases=3\n") {
		t.Errorf("the missing size is not reported:\n%s", r.Err)
	}
}

// TestBenchStopped checks that after Ctrl-C, bench keeps the results so far and removes the bases of its runs.
func TestBenchStopped(t *testing.T) {
	_, file := writeScenario(t)
	cmd := shared.Command(t.Context(), "bench", "--runs", "1000", file)
	errs, err := cmd.StderrPipe()
	must(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	must(t, cmd.Start())
	printed := ""
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		printed += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "run 2 of 1000: ") {
			must(t, cmd.Process.Signal(syscall.SIGINT))
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("bench: %v\n%s", err, printed)
	}
	passed := strings.Count(out.String(), "BenchmarkTiny/bases=2/measure=pod_startup ")
	if passed < 2 || !strings.HasSuffix(printed, "Stopped before the last run\n") {
		t.Errorf("results of %d runs, want at least 2\n%s", passed, printed)
	}
	all, err := up.Bases(t.Context(), "")
	must(t, err)
	for _, b := range all {
		if strings.HasPrefix(b.Group, "tiny-") {
			t.Errorf("base %s still exists", b.HostName)
		}
	}
}
