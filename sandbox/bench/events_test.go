package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

var began = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

// told are events that a test tells in the order of a run.
type told []timeline.Event

func (l *told) base(name string) {
	*l = append(*l, timeline.Event{Time: at(0), Kind: timeline.Base, Base: name, State: string(timeline.BaseUp)})
}

func (l *told) pod(ms int, name, base string, ready bool, modules ...string) {
	state := &timeline.PodState{Name: name, UID: "uid-" + name, Ready: ready, Created: at(ms).Truncate(time.Second)}
	for _, m := range modules {
		state.Modules = append(state.Modules, timeline.ModuleRef{Name: m, Version: "1.0.0"})
	}
	if base != "" {
		state.Node = "vnode." + base
	}
	*l = append(*l, timeline.Event{Time: at(ms), Kind: timeline.Pod, Base: base, Pod: state})
}

func (l *told) module(ms int, base, name string, state timeline.ModuleState) {
	*l = append(*l, timeline.Event{Time: at(ms), Kind: timeline.Module, Base: base, Module: name, Version: "1.0.0", State: string(state)})
}

func (l *told) endpoints(ms int, ready ...string) {
	e := timeline.Event{Time: at(ms), Kind: timeline.Endpoints, Name: "stock"}
	for _, pod := range ready {
		e.Endpoints = append(e.Endpoints, timeline.Endpoint{Pod: pod, Ready: true})
	}
	e.Endpoints = append(e.Endpoints, timeline.Endpoint{Pod: "late", Ready: false})
	*l = append(*l, e)
}

func item(measurement, name, unit string, samples int, p50, p90, p99 float64) Item {
	return Item{Measurement: measurement, Unit: unit, Data: map[string]float64{Perc50: p50, Perc90: p90, Perc99: p99},
		Labels: map[string]string{metricLabel: name, countLabel: fmt.Sprint(samples)}}
}

// Each part of a Pod's start goes to its own measure; a Pod that found its module there has no install, and
// one that never got Ready has only what happened to it.
func TestMeasuresOfPods(t *testing.T) {
	var l told
	l.base("base-1")
	l.base("base-2")
	l.base("base-2") // told again when it is ready
	l.pod(100, "a", "", false, "stock")
	l.pod(100, "b", "", false, "stock", "order")
	l.pod(110, "a", "base-1", false, "stock")
	l.module(115, "base-2", "stock", timeline.ModuleResolved) // the base knew before this watch
	l.pod(120, "b", "base-2", false, "stock", "order")
	l.module(130, "base-1", "stock", timeline.ModuleResolved)
	l.module(180, "base-1", "stock", timeline.ModuleActivated)
	l.pod(200, "a", "base-1", true, "stock")
	l.module(215, "base-2", "order", timeline.ModuleResolved)
	l.module(216, "base-2", "stock", timeline.ModuleActivated)
	l.endpoints(230, "a")
	l.module(315, "base-2", "order", timeline.ModuleActivated)
	l.endpoints(330, "a", "b") // before the watch of Pods told of b
	l.pod(340, "b", "base-2", true, "stock", "order")
	l.pod(2200, "again", "base-1", false, "stock") // the module is there
	l.pod(2210, "again", "base-1", true, "stock")
	l.pod(2250, "late", "", false, "stock")
	l.pod(3150, "late", "base-2", false, "stock")
	l.module(9000, "base-1", "stock", timeline.ModuleResolved) // of a later restart
	l.module(9100, "base-1", "stock", timeline.ModuleActivated)
	got := follow(l, time.Time{})
	want := []Item{
		item(PodStartup, "create_to_schedule", milliseconds, 4, 10, 900, 900), // 10, 20, 0, 900
		item(PodStartup, "schedule_to_install", milliseconds, 2, 0, 20, 20),
		item(PodStartup, "install_to_run", milliseconds, 2, 50, 200, 200),
		item(PodStartup, "run_to_watch", milliseconds, 2, 20, 25, 25),
		item(PodStartup, "pod_startup", milliseconds, 3, 100, 240, 240), // 10, 100, 240
		item(NetworkProgramming, "network_programming", milliseconds, 2, 0, 30, 30),
		{Measurement: Throughput, Unit: podsASecond, Data: map[string]float64{Perc50: 1, Perc90: 2, Perc99: 2, Max: 2}, // 2, 0, 1, 1
			Labels: map[string]string{metricLabel: "scheduling_throughput", countLabel: "4"}},
	}
	if diff := cmp.Diff(want, got.items()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(got.bases) != 2 {
		t.Errorf("%d bases, want 2", len(got.bases))
	}
}

// What was there before is no start.
func TestPodsFromBeforeAreLeftOut(t *testing.T) {
	var l told
	l.pod(0, "old", "base-1", true, "stock")
	l.pod(1500, "old", "base-1", true, "stock")
	l[1].Pod.Created = began
	l.pod(2000, "new", "", false, "stock")
	l.pod(2040, "new", "base-1", true, "stock")
	want := []Item{
		item(PodStartup, "create_to_schedule", milliseconds, 1, 40, 40, 40),
		item(PodStartup, "pod_startup", milliseconds, 1, 40, 40, 40),
		{Measurement: Throughput, Unit: podsASecond, Data: map[string]float64{Perc50: 1, Perc90: 1, Perc99: 1, Max: 1},
			Labels: map[string]string{metricLabel: "scheduling_throughput", countLabel: "1"}},
	}
	if diff := cmp.Diff(want, follow(l, at(1200)).items()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := follow(nil, at(0)).items(); got != nil {
		t.Errorf("no events make %v", got)
	}
}
