package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

var start = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// describe returns one line for each lane, segment and mark, with times in milliseconds.
func describe(list []*lane) (lines []string) {
	ms := func(t time.Time) int64 { return t.Sub(start).Milliseconds() }
	for _, l := range list {
		lines = append(lines, strings.TrimSpace(fmt.Sprint(l.kind, " ", l.name)))
		for _, s := range l.spans {
			for _, g := range s.segments {
				lines = append(lines,
					strings.TrimSpace(
						fmt.Sprintf("%s[%d] %s (%s) %d-%d %s %s", s.kind, s.track, s.name, s.version, ms(g.from),
							ms(g.to), g.state, g.text)))
			}
		}
		for _, m := range l.marks {
			lines = append(lines, fmt.Sprintf("%s %d-%d %s", m.kind, ms(m.from), ms(m.to), m.text))
		}
	}
	return lines
}

func TestLanes(t *testing.T) {
	base := func(ms int, change events.BaseChange) events.Event {
		return events.Event{Time: at(ms), Base: &events.BaseEvent{Base: "base-1", Change: change}}
	}
	health := func(ms int, status string) events.Event {
		return events.Event{Time: at(ms), Health: &events.HealthEvent{Base: "base-1", Health: status}}
	}
	module := func(ms int, version string, state events.ModuleState) events.Event {
		return events.Event{Time: at(ms),
			Module: &events.ModuleEvent{Base: "base-1", ModuleRef: events.ModuleRef{Name: "stock", Version: version},
				State: state}}
	}
	pod := func(ms int, base string, p events.PodState) events.Event {
		p.Name, p.UID, p.Modules = "stock-a", "u", []events.ModuleRef{{Name: "stock", Version: "1"}}
		if base != "" {
			p.Node = "vnode.1"
		}
		return events.Event{Time: at(ms), Pod: &events.PodEvent{Base: base, PodState: p}}
	}
	endpoint := func(base string, ready, terminating bool) events.Endpoint {
		return events.Endpoint{IP: "198.18.0.1", Base: base, Ready: ready, Serving: ready || terminating,
			Terminating: terminating}
	}
	for _, tc := range []struct {
		name   string
		events []events.Event
		want   []string
	}{
		{"a base starts, loses its connection, and stops", []events.Event{
			base(0, "up"), base(5, "ready"), base(7, "connected"), base(20, "disconnected"), base(30, "connected"),
			base(50, "down"),
		}, []string{
			"base base-1", "life[0] base-1 () 0-5 starting", "life[0] base-1 () 5-7 disconnected",
			"life[0] base-1 () 7-20 ready",
			"life[0] base-1 () 20-30 disconnected", "life[0] base-1 () 30-50 ready", "life[0] base-1 () 50-100 down",
		}},
		{"a base is unhealthy", []events.Event{
			base(0, "up"), health(0, "UNKNOWN"), base(5, "ready"), base(5, "connected"), health(5, "UP"),
			health(20, "DOWN"), health(30, "UP"), base(50, "down"),
		}, []string{
			"base base-1", "life[0] base-1 () 0-5 starting health UNKNOWN", "life[0] base-1 () 5-20 ready",
			"life[0] base-1 () 20-30 unhealthy health DOWN", "life[0] base-1 () 30-50 ready",
			"life[0] base-1 () 50-100 down",
		}},
		{"a version replaces another", []events.Event{
			module(0, "1", "ACTIVATED"), module(10, "2", "RESOLVED"), module(20, "2", "ACTIVATED"),
			module(20, "1", "DEACTIVATED"), module(40, "1", ""), module(50, "3", "RESOLVED"),
		}, []string{
			"base base-1", "module[0] stock:1 (1) 0-20 ACTIVATED", "module[0] stock:1 (1) 20-40 DEACTIVATED",
			"module[1] stock:2 (2) 10-20 RESOLVED", "module[1] stock:2 (2) 20-100 ACTIVATED",
			"module[0] stock:3 (3) 50-100 RESOLVED",
		}},
		{"the modules of a base end with its process",
			[]events.Event{base(0, "connected"), module(1, "1", "ACTIVATED"), base(9, "down")}, []string{
				"base base-1", "life[0] base-1 () 0-9 starting", "life[0] base-1 () 9-100 down",
				"module[0] stock:1 (1) 1-9 ACTIVATED",
			}},
		{"a Pod is bound to a base, which is removed", []events.Event{
			pod(0, "", events.PodState{Phase: "Pending"}),
			pod(5, "base-1", events.PodState{Phase: "Pending"}),
			pod(6, "base-1", events.PodState{Phase: "Running", Reason: "Installing"}),
			pod(9, "base-1", events.PodState{Phase: "Running", Ready: true}),
			// has no effect on lanes
			pod(12, "base-1", events.PodState{Phase: "Running", Ready: true, Writes: 7}),
			pod(20, "base-1", events.PodState{Phase: "Running", Ready: true, Deleting: true}),
			pod(30, "", events.PodState{Phase: "Running", Deleting: true}),
			pod(40, "", events.PodState{Phase: "Running", Gone: true}),
		}, []string{
			"waiting", "pod[0] stock-a (1) 0-5 pending Pending; stock:1",
			"base base-1", "pod[0] stock-a (1) 5-6 pending Pending; stock:1",
			"pod[0] stock-a (1) 6-9 notReady Running, Installing; stock:1",
			"pod[0] stock-a (1) 9-20 ready Running; stock:1",
			"pod[0] stock-a (1) 20-30 terminating Running, still Ready; stock:1",
			"pod[0] stock-a (1) 30-40 terminating Running, not Ready; stock:1",
		}},
		{"endpoints", []events.Event{
			{Time: at(0), Endpoints: &events.EndpointsEvent{Service: "stock"}},
			{Time: at(1), Endpoints: &events.EndpointsEvent{Service: "stock",
				Endpoints: []events.Endpoint{endpoint("base-1", true, false), endpoint("base-2", false, false)}}},
			{Time: at(2), Endpoints: &events.EndpointsEvent{Service: "stock",
				Endpoints: []events.Endpoint{endpoint("base-1", true, false)}}},
			{Time: at(3), Endpoints: &events.EndpointsEvent{Service: "stock",
				Endpoints: []events.Endpoint{endpoint("base-1", false, true)}}},
		}, []string{
			"service stock", "endpoints[0] stock () 0-1 empty 0 of 0 ready",
			"endpoints[0] stock () 1-2 some 1 of 2 ready; not ready: base-2",
			"endpoints[0] stock () 2-3 all 1 of 1 ready",
			"endpoints[0] stock () 3-100 none 0 of 1 ready, 1 terminating and serving; not ready: base-1",
		}},
		{"faults, commands and lost requests", []events.Event{
			{Time: at(0), Fault: &events.FaultEvent{Base: "base-1", ID: "fault-1", Change: "set", Message: "silent"}},
			{Time: at(4), Fault: &events.FaultEvent{Base: "base-1", ID: "fault-1", Change: "fired"}},
			{Time: at(5), Command: &events.CommandEvent{Base: "base-1", Name: "installBiz",
				Module: events.ModuleRef{Name: "stock", Version: "1"}, Elapsed: 2 * time.Millisecond}},
			// routine commands have no marks
			{Time: at(5), Command: &events.CommandEvent{Base: "base-1", Name: "queryAllBiz"}},
			{Time: at(6), Command: &events.CommandEvent{Base: "base-1", Name: "health", Code: "User.DiskFull",
				Message: "no space"}},
			{Time: at(7), Request: &events.RequestEvent{Stream: "traffic", Base: "base-1", Result: "refused",
				Message: "nobody listens"}},
			{Time: at(8), Fault: &events.FaultEvent{Base: "base-1", ID: "fault-1", Change: "cleared"}},
		}, []string{
			"faults", "fault[0] fault-1 on base-1 () 0-8 set silent", "fired 4-4 fault-1 on base-1",
			"base base-1", "command 3-5 installBiz stock:1", "failure 6-6 health: User.DiskFull: no space",
			"lost 7-7 refused: nobody listens",
		}},
		{"components and Nodes", []events.Event{
			{Time: at(0), Component: &events.ComponentEvent{Name: "broker", State: "running"}},
			{Time: at(5), Component: &events.ComponentEvent{Name: "broker", State: "paused"}},
			{Time: at(1), Node: &events.NodeEvent{Name: "vnode.1", Base: "base-1", State: "Ready"}},
			{Time: at(2), Node: &events.NodeEvent{Name: "vnode.1", Base: "base-1"}},
			{Time: at(3), Node: &events.NodeEvent{Name: "not-a-base", State: "Ready"}},
		}, []string{
			"component broker", "process[0] broker () 0-5 running", "process[0] broker () 5-100 paused", "base base-1",
			"node[0] vnode.1 () 1-2 Ready",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newLaneBuilder()
			for _, e := range tc.events {
				b.observe(e)
			}
			b.end(at(100))
			if diff := cmp.Diff(tc.want, describe(b.sorted())); diff != "" {
				t.Errorf("lanes (-want +got):\n%s", diff)
			}
		})
	}
}
