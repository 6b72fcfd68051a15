package demo

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

var update = flag.Bool("update", false, "update the golden files")

var start = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

const active = events.ModuleActivated

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// TestLoad checks that the embedded scenarios are valid.
func TestLoad(t *testing.T) {
	list, err := load()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range list {
		got[s.Scenario.Metadata.Name] = s.File
	}
	if diff := cmp.Diff(map[string]string{deployment: "demo/deployment.yaml", daemonSet: "demo/daemonset.yaml"},
		got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}

func module(ms int, version string, state events.ModuleState) events.Event {
	return events.Event{Time: at(ms),
		Module: &events.ModuleEvent{ModuleRef: events.ModuleRef{Name: "stock", Version: version}, State: state}}
}

func TestBaseTracker(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events []events.Event
		want   []string
	}{
		{"first install", []events.Event{module(0, "1", "RESOLVED"), module(300, "1", active)}, nil},
		{"new version first", []events.Event{module(0, "1", active), module(1, "2", "RESOLVED"),
			module(300, "2", active), module(300, "1", "DEACTIVATED"), module(900, "1", "")},
			[]string{"base-1 switches from 1 to 2"}},
		{"old version first, within the same switch",
			[]events.Event{module(0, "1", active), module(1, "2", "RESOLVED"), module(300, "1", "DEACTIVATED"),
				module(301, "2", active)},
			[]string{"base-1 switches from 1 to 2"}},
		{"gap while the new version is installed",
			[]events.Event{module(0, "1", active), module(1, "2", "RESOLVED"), module(100, "1", ""),
				module(301, "2", active)},
			[]string{"! base-1: 2 is active after 201 ms"}},
		{"old version removed first",
			[]events.Event{module(0, "1", active), module(100, "1", "DEACTIVATED"), module(101, "1", ""),
				module(120, "2", "RESOLVED"), module(441, "2", active)},
			[]string{"! base-1: 1 was removed; no version is active", "! base-1: 2 is active after 341 ms"}},
		{"short gap that was reported",
			[]events.Event{module(0, "1", active), module(100, "1", ""), module(102, "2", active)},
			[]string{"! base-1: 1 was removed; no version is active", "! base-1: 2 is active after 2 ms"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &baseTracker{}
			var got []string
			for _, e := range tc.events {
				e.Module.Base = "group-base-1"
				text, bad := p.apply("base-1", e)
				if bad {
					text = "! " + text
				}
				if text != "" {
					got = append(got, text)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func run(name string, verdict scenario.Result, sent, lost int) *scenario.Run {
	return &scenario.Run{Scenario: name, Namespace: name + "-x7k2p", Started: start, Elapsed: 4 * time.Second,
		Result:  verdict,
		Traffic: []scenario.Traffic{{Summary: traffic.Summary{Sent: sent, Lost: lost}}}}
}

func TestPrinter(t *testing.T) {
	step := func(ms int, name, scenarioName string, verdict scenario.Result) scenario.ProgressEvent {
		return scenario.ProgressEvent{Kind: scenario.StepEnded, Run: run(scenarioName, "", 0, 0),
			Step: &scenario.Step{Name: name, Action: "wait", Result: verdict, Started: at(ms),
				Message: "timed out\nafter 30s"}}
	}
	for name, width := range map[string]int{"columns": 100, "narrow": 60} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			printer := newPrinter(Options{Out: &out, Width: width, Clock: clocktesting.NewFakePassiveClock(start)})
			observe := func(base string, e events.Event) {
				e.Module.Base = base
				printer.observe(e)
			}
			left, right := run(deployment, scenario.Passed, 1446, 0), run(daemonSet, scenario.Failed, 1446, 81)
			printer.printHeader()
			observe("deployment-x7k2p-base-1", module(0, "9", active)) // the run has not started
			printer.progress(scenario.ProgressEvent{Kind: scenario.Planned, Total: 2})
			printer.progress(scenario.ProgressEvent{Kind: scenario.RunStarted, Run: left})
			printer.progress(scenario.ProgressEvent{Kind: scenario.RunStarted, Run: right})
			printer.progress(step(800, "every base serves 1.0.0", deployment, scenario.Passed))
			printer.progress(step(900, "every base serves 1.0.0", daemonSet, scenario.Failed))
			observe("base-1", module(0, "9", active)) // a base of the sandbox
			for _, e := range []events.Event{module(500, "1.0.0", active), module(1200, "2.0.0", active),
				module(1200, "1.0.0", "DEACTIVATED")} {
				observe("deployment-x7k2p-base-1", e)
			}
			for _, e := range []events.Event{module(500, "1.0.0", active), module(2600, "1.0.0", ""),
				module(2900, "2.0.0", active)} {
				observe("daemonset-x7k2p-base-2", e)
			}
			printer.progress(scenario.ProgressEvent{Kind: scenario.RunEnded, Run: left})
			printer.progress(scenario.ProgressEvent{Kind: scenario.RunEnded, Run: right})
			printer.printResults(&scenario.Report{Runs: []*scenario.Run{left, right}})
			file := "testdata/" + name + ".txt"
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("output; update it with -update (-want +got):\n%s", diff)
			}
			for _, line := range strings.Split(out.String(), "\n")[4:] {
				if width == 100 && ansi.StringWidth(line) > width {
					t.Errorf("line of more than %d columns: %q", width, line)
				}
			}
		})
	}
}

// TestPrinterRepeatsARun checks that the printer announces the repetition of an inconclusive run, and ignores the
// versions on the bases of the first run.
func TestPrinterRepeatsARun(t *testing.T) {
	var out bytes.Buffer
	printer := newPrinter(Options{Out: &out, Width: 60, Clock: clocktesting.NewFakePassiveClock(start)})
	first := run(deployment, scenario.Errored, 900, 1)
	first.Failure, first.Delay = "inconclusive: why", 1100*time.Millisecond
	for range 2 {
		printer.progress(scenario.ProgressEvent{Kind: scenario.RunStarted, Run: first})
		for _, e := range []events.Event{module(500, "1.0.0", active), module(1200, "2.0.0", active),
			module(1200, "1.0.0", "DEACTIVATED")} {
			e.Module.Base = "deployment-x7k2p-base-1"
			printer.observe(e)
		}
		printer.progress(scenario.ProgressEvent{Kind: scenario.RunPostponed, Run: first})
	}
	line := "Deployment   1.2s  base-1 switches from 1.0.0 to 2.0.0\n"
	want := line + "── inconclusive: this machine was delayed by up to 1.1 s; repeating the run ──\n" + line
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// TestCheckResult checks that CheckResult returns an error that names the workload if a demo run does not have the
// expected result.
func TestCheckResult(t *testing.T) {
	for _, tc := range []struct {
		name        string
		left, right *scenario.Run
		want        string // workload and result that the error must name; empty if there is no error
	}{
		{"expected results", run(deployment, scenario.Passed, 900, 0), run(daemonSet, scenario.Failed, 900, 9), ""},
		{"the Deployment loses requests", run(deployment, scenario.Failed, 900, 1),
			run(daemonSet, scenario.Failed, 900, 9),
			"Deployment failed"},
		{"no requests were sent", run(deployment, scenario.Passed, 0, 0), run(daemonSet, scenario.Failed, 900, 9),
			"Deployment passed"},
		{"the DaemonSet loses no requests", run(deployment, scenario.Passed, 900, 0),
			run(daemonSet, scenario.Passed, 900, 0), "DaemonSet passed"},
		{"the DaemonSet fails for another reason", run(deployment, scenario.Passed, 900, 0),
			run(daemonSet, scenario.Failed, 900, 0), "DaemonSet failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := CheckResult(&scenario.Report{Runs: []*scenario.Run{tc.left, tc.right}})
			kind, verdict, fails := strings.Cut(tc.want, " ")
			if (err != nil) != fails ||
				fails && (!strings.Contains(err.Error(), " "+kind+" ") ||
					!strings.HasSuffix(err.Error(), " "+verdict)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	inconclusive := run(daemonSet, scenario.Errored, 900, 9)
	inconclusive.Delay = 1100 * time.Millisecond
	inconclusive.Failure = "inconclusive: this machine was delayed by up to 1.1 s: 9 requests lost"
	want := "the demo is inconclusive: this machine was delayed by up to 1.1 s; " +
		"close other programs, and run the demo again"
	err := CheckResult(&scenario.Report{Runs: []*scenario.Run{run(deployment, scenario.Passed, 900, 0), inconclusive}})
	if err == nil || err.Error() != want || !errors.Is(err, errInconclusive) {
		t.Errorf("an inconclusive run: got %v, want %s", err, want)
	}
	err = CheckResult(&scenario.Report{Runs: []*scenario.Run{run(deployment, scenario.Failed, 900, 1), inconclusive}})
	if err == nil || errors.Is(err, errInconclusive) {
		t.Errorf("an inconclusive run and an unexpected result: got %v", err)
	}
	if CheckResult(&scenario.Report{}) == nil {
		t.Error("a report without runs is accepted")
	}
}
