package judge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/judge"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// BenchmarkRollout judges a rolling update over many bases. What it costs for a Pod must not grow with their
// number.
func BenchmarkRollout(b *testing.B) {
	for _, bases := range []int{100, 1000, 10_000} {
		events, end := rolledOut(bases)
		b.Run(fmt.Sprint(bases), func(b *testing.B) {
			for b.Loop() {
				for _, r := range judge.Judge(events, end, judge.Options{}) {
					if len(r.Violations) > 0 {
						b.Fatalf("%s: %+v", r.Name, r.Violations[0])
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bases), "ns/Pod")
		})
	}
}

// rolledOut are the events of a rolling update: on each base an old Pod gives way to a new one.
func rolledOut(bases int) (events []timeline.Event, end time.Time) {
	now := time.Unix(1_000, 0)
	tell := func(e timeline.Event) {
		now = now.Add(time.Millisecond)
		e.Time = now
		events = append(events, e)
	}
	name := func(i int) string { return fmt.Sprintf("base-%d", i) }
	pod := func(i int, version string, change func(*timeline.PodState)) {
		p := timeline.PodState{
			UID: fmt.Sprintf("%s-%d", version, i), Name: fmt.Sprintf("stock-%s-%d", version, i), Node: "vnode." + name(i), Owner: "DaemonSet/stock",
			Modules: []timeline.ModuleRef{{Name: "stock", Version: version}},
		}
		change(&p)
		tell(timeline.Event{Kind: timeline.Pod, Base: name(i), Pod: &p})
	}
	module := func(i int, version string, state timeline.ModuleState) {
		tell(timeline.Event{Kind: timeline.Module, Base: name(i), Module: "stock", Version: version, State: string(state)})
	}
	begun := func(*timeline.PodState) {}
	ready := func(p *timeline.PodState) { p.Ready = true }
	for i := range bases {
		for _, change := range []timeline.BaseChange{timeline.BaseUp, timeline.BaseReady, timeline.BaseConnected} {
			tell(timeline.Event{Kind: timeline.Base, Base: name(i), Identity: name(i), State: string(change)})
		}
		module(i, "1", timeline.ModuleActivated)
		pod(i, "1", ready)
	}
	for i := range bases {
		pod(i, "2", begun)
		tell(timeline.Event{Kind: timeline.Command, Base: name(i), Name: timeline.CommandInstall, Module: "stock", Version: "2"})
		module(i, "2", timeline.ModuleActivated)
		module(i, "1", timeline.ModuleDeactivated)
		pod(i, "1", begun)
		pod(i, "2", ready)
		pod(i, "1", func(p *timeline.PodState) { p.Deleting, p.Gone = true, true })
		module(i, "1", "")
	}
	return events, now
}
