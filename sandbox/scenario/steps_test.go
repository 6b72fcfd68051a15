package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// load loads a scenario whose spec has the given fields.
func load(t *testing.T, spec string) *source.Scenario {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Scenario\nmetadata: {name: tried}\nspec:\n  " +
		"description: A test.\n" +
		"  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := source.Load([]string{path}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// newTestExecution returns an execution of a scenario that needs no sandbox: its steps are scripts, sleeps and
// conditions about bases, and the test adds the events of these bases.
func newTestExecution(t *testing.T, o Options, spec string) *execution {
	t.Helper()
	o.Scenarios, o.Seed = []*source.Scenario{load(t, spec)}, 1
	runs, err := plan(o, "dev", 1)
	if err != nil {
		t.Fatal(err)
	}
	e := newExecution(&runner{o: o}, runs[0])
	e.queryBases = func(context.Context) ([]control.Base, error) { return nil, nil }
	e.recorder = observe.New(observe.Options{Namespace: e.in.name, Group: e.in.name})
	e.env, err = steps.New(steps.Options{Recorder: e.recorder, Static: e.in.Static, Vars: e.in.Vars, Run: e.in.Run,
		Namespace: e.in.name, Group: e.in.name, Dir: t.TempDir(), Join: e.join})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.compile(); err != nil {
		t.Fatal(err)
	}
	return e
}

// outline formats steps, one per line, with their results but without times and line numbers.
func outline(steps []*Step, indent string) []string {
	var lines []string
	for _, s := range steps {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s%s: %s %s", indent, s.Name, s.Result, s.Message), " "))
		lines = append(lines, outline(s.Steps, indent+"  ")...)
	}
	return lines
}

// wantOutline compares the outline of an execution with want, in which … matches any message.
func wantOutline(t *testing.T, e *execution, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	got := outline(e.run.Steps, "")
	for i, line := range want {
		before, after, open := strings.Cut(line, "…")
		if open && i < len(got) && strings.HasPrefix(got[i], before) && strings.HasSuffix(got[i], after) {
			got[i] = line
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestSteps(t *testing.T) {
	tests := []struct {
		name, spec string
		o          Options
		err        string
		want       []string
	}{
		{
			"one after the other, until one fails",
			"steps:\n- {name: a, script: {content: echo one}}\n- {name: b, script: {content: exit 2}}\n- {name: c, " +
				"script: {content: echo three}}",
			Options{}, "exit code 2",
			[]string{"a: passed one", "b: failed … exit code 2"},
		},
		{
			"a condition that is false",
			"vars: {want: 1}\nsteps:\n- {name: a, if: vars.want == 2, script: {content: exit 1}}\n- {name: b, if: " +
				"vars.want == 1, script: {content: echo b}}",
			Options{}, "",
			[]string{"a: skipped …: vars.want == 2", "b: passed b"},
		},
		{
			"repeated",
			"steps:\n- {name: a, repeat: 3, script: {content: 'echo x >> f; wc -l < f | tr -d \" \"; test $(wc " +
				"-l < f) -lt 3'}}",
			Options{}, "exit code 1",
			[]string{"a (1 of 3): passed 1", "a (2 of 3): passed 2", "a (3 of 3): failed … exit code 1"},
		},
		{
			"what a script prints",
			"steps:\n- {name: a, script: {content: echo five, output: said}}\n- {name: b, script: {content: 'echo " +
				"\"$X\"', env: {X: 'it said ${{ outputs.said }}'}}}",
			Options{}, "",
			[]string{"a: passed five", "b: passed it said five"},
		},
		{
			"a group",
			"steps:\n- name: g\n  steps:\n  - {name: a, script: {content: echo one}}\n  - {name: b, script: " +
				"{content: exit 1}}\n- {name: c, script: {content: echo}}",
			Options{}, "exit code 1",
			[]string{"g: failed … exit code 1", "  a: passed one", "  b: failed … exit code 1"},
		},
		{
			"at the same time",
			"steps:\n- name: g\n  parallel:\n  - {name: a, script: {content: 'until test -e b; do sleep 0.01; " +
				"done'}}\n  - {name: b, script: {content: 'touch b; until test -e c; do sleep 0.01; done'}}\n  - " +
				"{name: c, script: {content: 'touch c'}}",
			Options{}, "",
			nil,
		},
		{
			"in the background, and waited for",
			"steps:\n- {name: a, background: true, script: {content: 'until test -e b; do sleep 0.01; done; echo " +
				"over'}}\n- {name: b, script: {content: touch b}}\n- {name: c, wait: {step: a}}",
			Options{}, "",
			[]string{"a: passed over", "b: passed", "c: passed …"},
		},
		{
			"a failure in the background is reported at the end",
			"steps:\n- {name: a, background: true, script: {content: 'exit 4'}}",
			Options{}, "exit code 4",
			[]string{"a: failed … exit code 4"},
		},
		{
			"a timeout",
			"steps:\n- {name: a, timeout: 50ms, script: {content: sleep 60}}",
			Options{}, "50ms",
			[]string{"a: failed …"},
		},
		{
			"from a step",
			"steps:\n- {name: a, script: {content: exit 1}}\n- name: g\n  steps:\n  - {name: b, script: {content: " +
				"exit 1}}\n  - {name: c, script: {content: echo c}}\n- {name: d, script: {content: echo d}}",
			Options{FromStep: "c"}, "",
			[]string{"a: skipped …", "g: passed", "  b: skipped …", "  c: passed c", "d: passed d"},
		},
		{
			"from a step that is not there",
			"steps:\n- {name: a, script: {content: exit 1}}",
			Options{FromStep: "x"}, `"x"`,
			[]string{"a: skipped …"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newTestExecution(t, tt.o, tt.spec)
			err := e.body(t.Context())
			if joined := e.joinAll(); joined != nil && err == nil {
				t.Errorf("a background step failed: %v", joined)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if tt.want != nil { // the order of parallel steps is undefined
				wantOutline(t, e, tt.want...)
			}
		})
	}
}

func TestParallelStepsEndTogether(t *testing.T) {
	e := newTestExecution(t, Options{},
		"steps:\n- name: g\n  parallel:\n  - {name: a, timeout: 1m, script: {content: sleep "+
			"60}}\n  - {name: b, script: {content: exit 7}}")
	began := time.Now()
	err := e.body(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), " exit code 7") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the steps took %s", took)
	}
}

// module adds events that report states of a module on base-1.
func module(e *execution, states ...events.ModuleState) {
	for _, s := range states {
		e.recorder.AddEvent(events.Event{
			Module: &events.ModuleEvent{Base: "base-1", ModuleRef: events.ModuleRef{Name: "stock", Version: "1"},
				State: s}})
	}
}

func TestInvariants(t *testing.T) {
	const serves = "bases.all(b, bases[b].modules.exists(m, m.state == 'ACTIVATED'))"
	const broken = "bases.exists(b, bases[b].modules.exists(m, m.state == 'BROKEN'))"
	passed := func(n int) Check {
		return Check{Name: "i", Expect: "holds", Result: Passed, Compared: n, Summary: fmt.Sprint(n)}
	}
	failed := func(n int, word, event string) Check {
		return Check{Name: "i", Expect: "holds", Result: Failed, Compared: n, Summary: `invariant "i" (` + word + `) was`,
			Violations: []Violation{{Message: event}}}
	}
	tests := []struct {
		name, always, never string
		states              []events.ModuleState
		want                Check
	}{
		{"always true", serves, "", []events.ModuleState{"ACTIVATED"}, passed(2)},
		{"violated temporarily", serves, "", []events.ModuleState{"BROKEN", "ACTIVATED"},
			failed(2, "always", "module base-1: stock:1 BROKEN")},
		{"violated initially", broken, "", []events.ModuleState{"BROKEN"}, failed(1, "always", "initial state")},
		{"never true", "", broken, []events.ModuleState{"RESOLVED", "ACTIVATED"}, passed(3)},
		{"true once", "", broken, []events.ModuleState{"ACTIVATED", "BROKEN", "ACTIVATED"},
			failed(3, "never", "module base-1: stock:1 BROKEN")},
		{"never compared", "", "traffic.exists(t, true)", []events.ModuleState{"ACTIVATED"},
			Check{Name: "i", Expect: "holds", Result: Failed, Summary: "these lists are empty: traffic"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := "always:\n- {name: i, cel: \"" + tt.always + "\"}\n"
			if tt.never != "" {
				spec = "never:\n- {name: i, cel: \"" + tt.never + "\"}\n"
			}
			e := newTestExecution(t, Options{}, spec+"steps:\n- {name: a, script: {content: echo}}")
			e.recorder.AddEvent(events.Event{Base: &events.BaseEvent{Base: "base-1", Change: "ready"}})
			module(e, "ACTIVATED")
			guarded, release, err := e.guard(t.Context(), "", e.in.Spec.Always, e.in.Spec.Never)
			if err != nil {
				t.Fatal(err)
			}
			module(e, tt.states...)
			ended := guarded.Err() != nil
			err = release()
			if ended != (len(tt.want.Violations) > 0) || (err != nil) != (tt.want.Result == Failed) ||
				err != nil && !strings.Contains(err.Error(), tt.want.Summary) {
				t.Errorf("scope ended: %t, error %v", ended, err)
			}
			for i, c := range e.run.Checks {
				if strings.Contains(c.Summary, tt.want.Summary) {
					e.run.Checks[i].Summary = tt.want.Summary
				}
				for j := range e.run.Checks[i].Violations {
					e.run.Checks[i].Violations[j].Time = time.Time{}
				}
			}
			if diff := cmp.Diff([]Check{tt.want}, e.run.Checks); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestViolatedInvariantEndsStep(t *testing.T) {
	e := newTestExecution(t, Options{},
		"steps:\n- name: a\n  timeout: 1m\n  never:\n  - {name: i, cel: \"bases.exists(b, "+
			"bases[b].ready)\"}\n  script: {content: 'touch began; sleep 60'}\n- {name: b, script: {content: echo}}")
	done := make(chan error, 1)
	go func() { done <- e.body(t.Context()) }()
	e.recorder.AddEvent(events.Event{Base: &events.BaseEvent{Base: "base-1", Change: "ready"}})
	err := <-done
	var why *violationError
	if !errors.As(err, &why) {
		t.Fatalf("error %v, want a violated invariant", err)
	}
	wantOutline(t, e, `a: failed invariant "a: i" (never) …: `+why.event)
}

func TestProgressReportsSteps(t *testing.T) {
	var mu sync.Mutex
	var told []string
	o := Options{Progress: func(event ProgressEvent) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf("%s %d %s %s", event.Kind, event.Depth, event.Step.Name, event.Step.Result))
	}}
	e := newTestExecution(t, o,
		"steps:\n- name: g\n  steps:\n  - {name: a, script: {content: echo}}\n- {name: b, script: "+
			"{content: exit 1}}")
	if err := e.body(t.Context()); err == nil {
		t.Error("the steps passed, want a failure")
	}
	if diff := cmp.Diff([]string{"stepEnded 1 a passed", "stepEnded 0 g passed", "stepEnded 0 b failed"},
		told); diff != "" {
		t.Errorf("progress events (-want +got):\n%s", diff)
	}
}
