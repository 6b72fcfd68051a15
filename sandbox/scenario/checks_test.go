package scenario

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/judge"
)

func TestCheckOf(t *testing.T) {
	violations := []judge.Violation{{Length: time.Second, Base: "base-1", Message: "m"}}
	tests := []struct {
		name   string
		result judge.Result
		expect v1alpha1.Expectation
		want   Verdict
		says   string
	}{
		{"holds", judge.Result{Compared: 1, Summary: "s"}, v1alpha1.Holds, Passed, "s"},
		{"does not hold", judge.Result{Compared: 1, Summary: "s", Violations: violations}, v1alpha1.Holds, Failed, "s"},
		{"nothing to hold", judge.Result{Summary: "s"}, v1alpha1.Holds, Skipped, "s"},
		{"violated, as it should", judge.Result{Compared: 1, Summary: "s", Violations: violations}, v1alpha1.Violated, Passed, "s"},
		{"not violated", judge.Result{Compared: 1, Summary: "s"}, v1alpha1.Violated, Failed, "it was to find a violation and found none: s"},
		{"nothing to violate", judge.Result{Summary: "s"}, v1alpha1.Violated, Failed, "it was to find a violation and found none: s"},
		{"it depends on the watch", judge.Result{Compared: 1, Summary: "s", Doubtful: violations}, v1alpha1.Holds, Errored, "inconclusive: m"},
		{"violated, or it depends on the watch", judge.Result{Compared: 1, Summary: "s", Doubtful: violations}, v1alpha1.Violated, Errored, "inconclusive: m"},
		{"one of them does not depend on it", judge.Result{Compared: 1, Summary: "s", Violations: violations, Doubtful: violations}, v1alpha1.Holds, Failed, "s"},
		{"ignored, whatever it depends on", judge.Result{Compared: 1, Summary: "s", Violations: violations, Doubtful: violations}, v1alpha1.Ignored, Passed, "s"},
		{"ignored", judge.Result{Compared: 1, Summary: "s", Violations: violations}, v1alpha1.Ignored, Passed, "s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.result.Name = judge.Truth
			want := Check{Name: judge.Truth, Expect: string(tt.expect), Verdict: tt.want, Summary: tt.says, Compared: tt.result.Compared}
			if len(tt.result.Violations)+len(tt.result.Doubtful) > 0 {
				want.Violations = []Violation{{Length: time.Second, Base: "base-1", Message: "m"}}
			}
			if diff := cmp.Diff(want, checkOf(tt.result, tt.expect)); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvidenceIsTold(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	pod := func(uid, phase string, ready, gone bool) events.Event {
		return events.Event{Time: at, Pod: &events.PodEvent{Base: "base-1", PodState: events.PodState{Name: "p-" + uid, UID: uid, Phase: phase, Ready: ready, Gone: gone,
			Modules: []events.ModuleRef{{Name: "stock", Version: "1"}}}}}
	}
	film := []events.Event{
		pod("a", "Pending", false, false),
		{Time: at, Command: &events.CommandEvent{Base: "base-1", Name: "installBiz", Module: events.ModuleRef{Name: "stock", Version: "1"}, Code: "Arklet.DiskFull", Message: "no space"}},
		{Time: at, Command: &events.CommandEvent{Base: "base-1", Name: "queryAllBiz"}},
		pod("b", "Running", true, false),
		{Time: at, Component: &events.ComponentEvent{Name: "broker", State: "paused"}},
		{Time: at, Request: &events.RequestEvent{Stream: "s", Base: "base-1", Result: "reset"}},
		pod("a", "Running", true, true),
	}
	for _, tt := range []struct{ name, got, want string }{
		{"Pods", lastPods(film), "base-1  stock:1 gone (p-a)\nbase-1  stock:1 Ready (p-b)"},
		{"commands", lastCommands(film), "03:04:05.000  command base-1: installBiz stock:1 Arklet.DiskFull after 0s: no space"},
		{"components", others(film), "03:04:05.000  component broker: paused"},
		{"the last ones", lastOf(film), "03:04:05.000  pod base-1: stock:1 Pending (p-a)\n03:04:05.000  pod base-1: stock:1 Ready (p-b)\n" +
			"03:04:05.000  component broker: paused\n03:04:05.000  pod base-1: stock:1 gone (p-a)"},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A Pod on the base of another run fails the run. Pods without a Node, on other kinds of Nodes and on Nodes of the
// run do not.
func TestAstray(t *testing.T) {
	baseOf := func(node string) string { return map[string]string{"vnode.a": "base-1"}[node] }
	pod := func(node string) events.Event {
		return events.Event{Pod: &events.PodEvent{PodState: events.PodState{Name: "nightly-1", Node: node}}}
	}
	own := []events.Event{pod(""), pod("vnode.a"), pod("worker-1"), {Node: &events.NodeEvent{Name: "vnode.c"}}}
	if err := astray(own, baseOf); err != nil {
		t.Error(err)
	}
	const want = "the Pod nightly-1 was on Node vnode.b, which is not a Node of this run: give the Pod the node selector base.koupleless.io/cluster-name: ${{ run.group }} ($GROUP in a script)"
	if err := astray(append(own, pod("vnode.b")), baseOf); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
