package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

var began = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

// eventLog holds the events of a test, in the order in which a run produces them.
type eventLog []events.Event

func (l *eventLog) base(name string) {
	*l = append(*l, events.Event{Time: at(0), Base: &events.BaseEvent{Base: name, Change: events.BaseUp}})
}

func (l *eventLog) pod(ms int, name, base string, ready bool, modules ...string) {
	state := &events.PodState{Name: name, UID: "uid-" + name, Ready: ready, Created: at(ms).Truncate(time.Second)}
	for _, m := range modules {
		state.Modules = append(state.Modules, events.ModuleRef{Name: m, Version: "1.0.0"})
	}
	if base != "" {
		state.Node = "vnode." + base
	}
	*l = append(*l, events.Event{Time: at(ms), Pod: &events.PodEvent{Base: base, PodState: *state}})
}

func (l *eventLog) module(ms int, base, name string, state events.ModuleState) {
	*l = append(*l, events.Event{Time: at(ms),
		Module: &events.ModuleEvent{Base: base, ModuleRef: events.ModuleRef{Name: name, Version: "1.0.0"},
			State: state}})
}

func (l *eventLog) endpoints(ms int, ready ...string) {
	e := &events.EndpointsEvent{Service: "stock"}
	for _, pod := range ready {
		e.Endpoints = append(e.Endpoints, events.Endpoint{Pod: pod, Ready: true})
	}
	e.Endpoints = append(e.Endpoints, events.Endpoint{Pod: "late", Ready: false})
	*l = append(*l, events.Event{Time: at(ms), Endpoints: e})
}

// text returns results in the Go benchmark format, without the configuration lines.
func text(t *testing.T, results []*benchfmt.Result) string {
	t.Helper()
	var b strings.Builder
	w := benchfmt.NewWriter(&b)
	for _, r := range results {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestMeasuresOfPods checks that each part of the startup of a Pod has its own measure. A Pod whose module was
// already installed must have no install measures. A Pod that did not become Ready must have the measures of the
// states that it reached.
func TestMeasuresOfPods(t *testing.T) {
	var l eventLog
	l.base("base-1")
	l.base("base-2")
	l.base("base-2") // reported again when the base is ready
	l.pod(100, "a", "", false, "stock")
	l.pod(100, "b", "", false, "stock", "order")
	l.pod(110, "a", "base-1", false, "stock")
	l.module(115, "base-2", "stock", events.ModuleResolved) // before the watch event of the Pod
	l.pod(120, "b", "base-2", false, "stock", "order")
	l.module(130, "base-1", "stock", events.ModuleResolved)
	l.module(180, "base-1", "stock", events.ModuleActivated)
	l.pod(200, "a", "base-1", true, "stock")
	l.module(215, "base-2", "order", events.ModuleResolved)
	l.module(216, "base-2", "stock", events.ModuleActivated)
	l.endpoints(230, "a")
	l.module(315, "base-2", "order", events.ModuleActivated)
	l.endpoints(330, "a", "b") // before the watch event of Pod b
	l.pod(340, "b", "base-2", true, "stock", "order")
	l.pod(2200, "again", "base-1", false, "stock") // the module is already installed
	l.pod(2210, "again", "base-1", true, "stock")
	l.pod(2250, "late", "", false, "stock")
	l.pod(3150, "late", "base-2", false, "stock")
	l.module(9000, "base-1", "stock", events.ModuleResolved) // after a later restart
	l.module(9100, "base-1", "stock", events.ModuleActivated)
	got := readEvents(l, time.Time{})
	want := `Benchmark/measure=create_to_schedule 4 10 p50-ms
Benchmark/measure=schedule_to_install 2 0 p50-ms
Benchmark/measure=install_to_run 2 50 p50-ms
Benchmark/measure=run_to_watch 2 20 p50-ms
Benchmark/measure=pod_startup 3 100 p50-ms
Benchmark/measure=network_programming 2 0 p50-ms
Benchmark/measure=scheduling_throughput 4 1 p50-Pods/s 2 max-Pods/s
`
	if diff := cmp.Diff(want, text(t, got.results())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if len(got.bases) != 2 {
		t.Errorf("bases = %d, want 2", len(got.bases))
	}
}

// TestEarlierPodsAreIgnored checks that Pods that were created before the measurement are ignored.
func TestEarlierPodsAreIgnored(t *testing.T) {
	var l eventLog
	l.pod(0, "old", "base-1", true, "stock")
	l.pod(1500, "old", "base-1", true, "stock")
	l[1].Pod.Created = began
	l.pod(2000, "new", "", false, "stock")
	l.pod(2040, "new", "base-1", true, "stock")
	want := `Benchmark/measure=create_to_schedule 1 40 p50-ms
Benchmark/measure=pod_startup 1 40 p50-ms
Benchmark/measure=scheduling_throughput 1 1 p50-Pods/s 1 max-Pods/s
`
	if diff := cmp.Diff(want, text(t, readEvents(l, at(1200)).results())); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got := readEvents(nil, at(0)).results(); got != nil {
		t.Errorf("results without events = %d, want 0", len(got))
	}
}
