package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/judge"
)

func TestCheckOf(t *testing.T) {
	violations := []judge.Finding{{Kind: judge.ModuleLeft, Length: time.Second, Base: "base-1"}}
	tests := []struct {
		name   string
		result judge.Result
		expect v1alpha1.Expectation
		want   Result
	}{
		{"holds", judge.Result{Compared: 1}, v1alpha1.Holds, Passed},
		{"does not hold", judge.Result{Compared: 1, Violations: violations}, v1alpha1.Holds, Failed},
		{"nothing to hold", judge.Result{}, v1alpha1.Holds, Skipped},
		{"violated, as it should", judge.Result{Compared: 1, Violations: violations}, v1alpha1.Violated, Passed},
		{"not violated", judge.Result{Compared: 1}, v1alpha1.Violated, Failed},
		{"nothing to violate", judge.Result{}, v1alpha1.Violated, Failed},
		{"it depends on the watch", judge.Result{Compared: 1, Doubtful: violations}, v1alpha1.Holds, Errored},
		{"violated, or it depends on the watch", judge.Result{Compared: 1, Doubtful: violations}, v1alpha1.Violated,
			Errored},
		{"one of them does not depend on it", judge.Result{Compared: 1, Violations: violations, Doubtful: violations},
			v1alpha1.Holds, Failed},
		{"ignored, whatever it depends on", judge.Result{Compared: 1, Violations: violations, Doubtful: violations},
			v1alpha1.Ignored, Passed},
		{"ignored", judge.Result{Compared: 1, Violations: violations}, v1alpha1.Ignored, Passed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.result.Name = judge.NothingLeft
			got := checkOf(tt.result, tt.expect)
			want := Check{Name: judge.NothingLeft, Expect: string(tt.expect), Result: tt.want, Summary: got.Summary,
				Compared: tt.result.Compared}
			if len(tt.result.Violations)+len(tt.result.Doubtful) > 0 {
				want.Violations = []Violation{{Length: time.Second, Base: "base-1", Message: violations[0].String()}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Summary, tt.result.Summary()) &&
				!strings.Contains(got.Summary, violations[0].String()) {
				t.Errorf("summary %q", got.Summary)
			}
		})
	}
}

func TestEvidence(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	pod := func(uid, phase string, ready, gone bool) events.Event {
		return events.Event{Time: at,
			Pod: &events.PodEvent{Base: "base-1",
				PodState: events.PodState{Name: "p-" + uid, UID: uid, Phase: phase, Ready: ready, Gone: gone,
					Modules: []events.ModuleRef{{Name: "stock", Version: "1"}}}}}
	}
	film := []events.Event{
		pod("a", "Pending", false, false),
		{Time: at, Command: &events.CommandEvent{Base: "base-1", Name: "installBiz",
			Module: events.ModuleRef{Name: "stock", Version: "1"}, Code: "Arklet.DiskFull", Message: "no space"}},
		{Time: at, Command: &events.CommandEvent{Base: "base-1", Name: "queryAllBiz"}},
		pod("b", "Running", true, false),
		{Time: at, Component: &events.ComponentEvent{Name: "broker", State: "paused"}},
		{Time: at, Request: &events.RequestEvent{Stream: "s", Base: "base-1", Result: "reset"}},
		pod("a", "Running", true, true),
	}
	for _, tt := range []struct{ name, got, want string }{
		{"Pods", lastPods(film), "base-1  stock:1 gone (p-a)\nbase-1  stock:1 Ready (p-b)"},
		{"commands", lastCommands(film),
			"03:04:05.000  command base-1: installBiz stock:1 Arklet.DiskFull after 0s: no space"},
		{"components", componentAndFaultEvents(film), "03:04:05.000  component broker: paused"},
		{"the last ones", lastOf(film),
			"03:04:05.000  pod base-1: stock:1 Pending (p-a)\n03:04:05.000  pod base-1: stock:1 Ready (p-b)\n" +
				"03:04:05.000  component broker: paused\n03:04:05.000  pod base-1: stock:1 gone (p-a)"},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestFindStrayPod checks that findStrayPod returns an error for a Pod on a base of another run. It must return no
// error for a Pod without a Node, on a Node that is not a base, or on a Node of the run.
func TestFindStrayPod(t *testing.T) {
	baseOf := func(node string) string { return map[string]string{"vnode.a": "base-1"}[node] }
	pod := func(node string) events.Event {
		return events.Event{Pod: &events.PodEvent{PodState: events.PodState{Name: "nightly-1", Node: node}}}
	}
	own := []events.Event{pod(""), pod("vnode.a"), pod("worker-1"), {Node: &events.NodeEvent{Name: "vnode.c"}}}
	if err := findStrayPod(own, baseOf); err != nil {
		t.Error(err)
	}
	err := findStrayPod(append(own, pod("vnode.b")), baseOf)
	if err == nil || !strings.Contains(err.Error(), "nightly-1") || !strings.Contains(err.Error(), "vnode.b") ||
		!strings.Contains(err.Error(), labels.BaseCluster) {
		t.Errorf("got %v", err)
	}
}
