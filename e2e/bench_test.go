package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/bench"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/scenarios"
)

// tiny starts a module on each of few bases, which take as long to install it as they are told.
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

// benchFolder has the scenario and what it applies.
func benchFolder(t *testing.T) (folder, file string) {
	t.Helper()
	folder = t.TempDir()
	must(t, os.CopyFS(folder, scenarios.Files))
	file = filepath.Join(folder, "tiny.yaml")
	must(t, os.WriteFile(file, []byte(tiny), 0o600))
	return folder, file
}

// bench measures every part of a Pod's start, and notices bases that take longer to install than they did.
func TestBench(t *testing.T) {
	folder, file := benchFolder(t)
	base, page := filepath.Join(folder, "base.json"), filepath.Join(folder, "page.html")
	must(t, shared.Must(t.Context(), "bench", "--bases", "3,2", "--json", base, "--html", page, file))
	first, err := bench.Read(base)
	must(t, err)
	type size struct {
		Bases, Pods int
		Measures    []string
	}
	parts := []string{"create_to_schedule", "schedule_to_install", "install_to_run", "run_to_watch", "pod_startup", "network_programming"}
	var got []size
	for _, run := range first.Runs {
		s := size{Bases: run.Bases}
		requests := 0
		for _, item := range run.Items {
			switch {
			case item.Measurement == bench.Responsiveness:
				requests++
			case item.Measurement == bench.Throughput:
				if most := item.Data[bench.Max]; most < 1 || most > float64(run.Bases) {
					t.Errorf("of %d Pods %g were scheduled in a second", run.Bases, most)
				}
			case item.Labels["Count"] == fmt.Sprint(run.Bases):
				s.Measures = append(s.Measures, item.Name())
			}
			if item.Name() == "POST pods/binding (resource)" {
				_, err := fmt.Sscan(item.Labels["Count"], &s.Pods)
				must(t, err)
			}
		}
		if requests < 10 {
			t.Errorf("only %d kinds of requests were seen", requests)
		}
		got = append(got, s)
	}
	if diff := cmp.Diff(slices.Repeat([]size{{2, 2, parts}, {3, 3, parts}}, 3), got); diff != "" {
		t.Errorf("what the runs measured (-want +got):\n%s", diff)
	}
	html, err := os.ReadFile(page)
	must(t, err)
	if n := strings.Count(string(html), "<svg"); n < len(parts)+1 {
		t.Errorf("the page has %d charts", n)
	}

	r, err := shared.Run(t.Context(), "bench", "--bases", "2", "--var", "install=600ms", "--baseline", base, "-o", "json", file)
	must(t, err)
	var now bench.Result
	must(t, json.Unmarshal([]byte(r.Out), &now))
	if r.Status != 1 || now.Baseline == nil {
		t.Fatalf("exit status %d, comparison %v\n%s", r.Status, now.Baseline, r.Err)
	}
	slower := func(name string) bool {
		return slices.ContainsFunc(now.Baseline.Regressions(), func(c bench.Change) bool {
			return c.Name == name && c.Percentile == bench.Perc50 && c.Bases == 2 && c.Before < 600 && c.Now >= 600
		})
	}
	if !slower("install_to_run") {
		t.Errorf("nobody noticed that installing takes longer: %+v", now.Baseline)
	}
	if diff := cmp.Diff([]string{"tiny, 3 bases"}, now.Baseline.Missing); diff != "" {
		t.Errorf("not compared (-want +got):\n%s", diff)
	}
}

// Ctrl-C keeps what was measured, and takes away what the runs have made.
func TestBenchStopped(t *testing.T) {
	folder, file := benchFolder(t)
	result := filepath.Join(folder, "result.json")
	cmd := shared.Command(t.Context(), "bench", "--runs", "1000", "--json", result, file)
	errs, err := cmd.StderrPipe()
	must(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	must(t, cmd.Start())
	told := ""
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		told += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "run 2 of 1000: ") {
			must(t, cmd.Process.Signal(syscall.SIGINT))
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v\n%s%s", err, out.String(), told)
	}
	r, err := bench.Read(result)
	must(t, err)
	passed := 0
	for _, run := range r.Runs {
		if run.Verdict == scenario.Passed {
			passed++
		}
	}
	if !r.Stopped || passed < 2 || !strings.Contains(out.String(), "note: it was stopped before all runs had been made\n") {
		t.Errorf("stopped: %v, %d runs have passed\n%s", r.Stopped, passed, out.String())
	}
	all, err := up.Bases(t.Context(), "")
	must(t, err)
	for _, b := range all {
		if strings.HasPrefix(b.Group, "tiny-") {
			t.Errorf("base %s is left", b.HostName)
		}
	}
}
