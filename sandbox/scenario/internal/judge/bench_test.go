package judge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/judge"
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
func rolledOut(bases int) (all []events.Event, end time.Time) {
	now := time.Unix(1_000, 0)
	tell := func(e events.Event) {
		now = now.Add(time.Millisecond)
		e.Time = now
		all = append(all, e)
	}
	name := func(i int) string { return fmt.Sprintf("base-%d", i) }
	pod := func(i int, version string, change func(*events.PodState)) {
		p := events.PodState{
			UID: fmt.Sprintf("%s-%d", version, i), Name: fmt.Sprintf("stock-%s-%d", version, i), Node: "vnode." + name(i), Owner: "DaemonSet/stock",
			Modules: []events.ModuleRef{{Name: "stock", Version: version}},
		}
		change(&p)
		tell(events.Event{Pod: &events.PodEvent{Base: name(i), PodState: p}})
	}
	module := func(i int, version string, state events.ModuleState) {
		tell(events.Event{Module: &events.ModuleEvent{Base: name(i), ModuleRef: events.ModuleRef{Name: "stock", Version: version}, State: state}})
	}
	begun := func(*events.PodState) {}
	ready := func(p *events.PodState) { p.Ready = true }
	for i := range bases {
		for _, change := range []events.BaseChange{events.BaseUp, events.BaseReady, events.BaseConnected} {
			tell(events.Event{Base: &events.BaseEvent{Base: name(i), Identity: name(i), Change: change}})
		}
		module(i, "1", events.ModuleActivated)
		pod(i, "1", ready)
	}
	for i := range bases {
		pod(i, "2", begun)
		tell(events.Event{Command: &events.CommandEvent{Base: name(i), Name: events.CommandInstall, Module: events.ModuleRef{Name: "stock", Version: "2"}}})
		module(i, "2", events.ModuleActivated)
		module(i, "1", events.ModuleDeactivated)
		pod(i, "1", begun)
		pod(i, "2", ready)
		pod(i, "1", func(p *events.PodState) { p.Deleting, p.Gone = true, true })
		module(i, "1", "")
	}
	return all, now
}
