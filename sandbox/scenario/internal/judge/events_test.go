package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns the time offset milliseconds after the start of the run.
func at(offset int) time.Time { return zero.Add(ms(offset)) }

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// biz returns an event that changes the state of the module biz. The argument where has the form VERSION@BASE.
func biz(ms int, where string, state events.ModuleState) events.Event {
	version, base, _ := strings.Cut(where, "@")
	return events.Event{Time: at(ms),
		Module: &events.ModuleEvent{Base: base, ModuleRef: events.ModuleRef{Name: "biz", Version: version},
			State: state}}
}

func host(ms int, name string, change events.BaseChange) events.Event {
	return events.Event{Time: at(ms), Base: &events.BaseEvent{Base: name, Change: change}}
}

// vpod returns the event of a write to a Pod. The accepted flags are ready, deleting, gone, failed and owner=….
func vpod(ms int, name, where string, flags ...string) events.Event {
	version, base, _ := strings.Cut(where, "@")
	p := &events.PodState{
		Name: name, UID: "uid-" + name, Owner: "ReplicaSet/" + version, Phase: "Running", Writes: 1,
		Modules: []events.ModuleRef{{Name: "biz", Version: version}},
		Ready:   slices.Contains(flags, "ready"), Deleting: slices.Contains(flags, "deleting"),
		Gone: slices.Contains(flags, "gone"),
	}
	for _, f := range flags {
		if owner, ok := strings.CutPrefix(f, "owner="); ok {
			p.Owner = owner
		}
		if f == "failed" {
			p.Phase = "Failed"
		}
	}
	return events.Event{Time: at(ms), Pod: &events.PodEvent{Base: base, PodState: *p}}
}

func component(ms int, name string, state events.ComponentState) events.Event {
	return events.Event{Time: at(ms), Component: &events.ComponentEvent{Name: name, State: state}}
}

// apiFaultEvent returns an event that reports a change of an API fault.
func apiFaultEvent(ms int, kind fault.Kind, change events.FaultChange) events.Event {
	return events.Event{Time: at(ms), Fault: &events.FaultEvent{Target: "api", ID: "r", Kind: kind, Change: change}}
}

// mqttFaultEvent returns an event that reports a change of an MQTT fault. The fault acts on the connection of the given
// base, or on the connections of the controllers if base is empty.
func mqttFaultEvent(ms int, base string, kind fault.Kind, change events.FaultChange) events.Event {
	return events.Event{Time: at(ms),
		Fault: &events.FaultEvent{Target: "mqtt", Base: base, ID: "w", Kind: kind, Change: change}}
}

// onNode returns a copy of the events in which all Pods are on the given Node.
func onNode(node string, all list) list {
	out := slices.Clone(all)
	for i := range out {
		if out[i].Pod != nil {
			p := *out[i].Pod
			p.Node, out[i].Pod = node, &p
		}
	}
	return out
}

// endpoints returns an event with the ready endpoints of the Service svc, each as POD@BASE.
func endpoints(ms int, ready ...string) events.Event {
	e := &events.EndpointsEvent{Service: "svc"}
	for _, r := range ready {
		name, base, _ := strings.Cut(r, "@")
		e.Endpoints = append(e.Endpoints, events.Endpoint{Pod: name, Base: base, Ready: true, Serving: true})
	}
	return events.Event{Time: at(ms), Endpoints: e}
}

// published returns an event with the endpoint of Pod p1 in a Service with publishNotReadyAddresses. The Pod is
// terminating if deleting is true, and otherwise Not Ready.
func published(ms int, deleting bool) events.Event {
	e := endpoints(ms, "p1@a")
	p := &e.Endpoints.Endpoints[0]
	p.Serving, p.Terminating = deleting, deleting
	return e
}

func lost(ms int, base string) events.Event {
	return events.Event{Time: at(ms),
		Request: &events.RequestEvent{Stream: "traffic", Base: base, Module: events.ModuleRef{Name: "biz"},
			Result: "notFound"}}
}

func command(ms int, where, name, code string, elapsed time.Duration) events.Event {
	version, base, _ := strings.Cut(where, "@")
	return events.Event{Time: at(ms),
		Command: &events.CommandEvent{Base: base, Name: name, Module: events.ModuleRef{Name: "biz", Version: version},
			Code: code, Elapsed: elapsed}}
}

// installed returns the events of a successful installation.
func installed(ms int, where string) []events.Event {
	return []events.Event{biz(ms, where, "RESOLVED"), biz(ms+10, where, "ACTIVATED"),
		command(ms+11, where, "installBiz", "", 15*time.Millisecond)}
}

// removed returns the events that report that an active version disappears from its base.
func removed(ms int, where string) []events.Event {
	return []events.Event{biz(ms, where, "DEACTIVATED"), biz(ms+5, where, "STOPPED")}
}

// uninstalled returns the events of an uninstall command.
func uninstalled(ms int, where string) []events.Event {
	return append(removed(ms, where), command(ms+6, where, "uninstallBiz", "", 7*time.Millisecond))
}

// switched returns the events of a command that switches the base to version 2.
func switched(ms int, base string) []events.Event {
	return append(swap(ms, base), command(ms+1, "2@"+base, "installBiz", "", 12*time.Millisecond))
}

// asked returns the event that reports the response to a module list query.
func asked(ms int, base string) events.Event {
	return events.Event{Time: at(ms), Command: &events.CommandEvent{Base: base, Name: "queryAllBiz"}}
}

// fires returns the event that reports that a fault was triggered.
func fires(ms int, base string, kind fault.Kind) events.Event {
	return events.Event{Time: at(ms),
		Fault: &events.FaultEvent{Target: "base", Base: base, ID: "f", Kind: kind, Change: "fired"}}
}

// identity returns an event that reports the identity of a base process.
func identity(id string, e events.Event) events.Event {
	switch {
	case e.Base != nil:
		e.Base.Identity = id
	case e.Module != nil:
		e.Module.Identity = id
	}
	return e
}

// swap returns the events that report that version 2 replaces version 1.
func swap(ms int, base string) []events.Event {
	return []events.Event{biz(ms, "1@"+base, "DEACTIVATED"), biz(ms, "2@"+base, "ACTIVATED")}
}

type list = []events.Event

func script(parts ...any) list {
	var out list
	for _, p := range parts {
		switch p := p.(type) {
		case events.Event:
			out = append(out, p)
		case list:
			out = append(out, p...)
		}
	}
	return out
}

// judged evaluates a run that ends at 60 s, and returns the result of the named check.
func judged(name string, o Options, all list) Result {
	return judgedAt(60_000, name, o, all)
}

// judgedAt evaluates a run that ends at the given time, and returns the result of the named check.
func judgedAt(ms int, name string, o Options, all list) Result {
	for _, r := range Evaluate(all, at(ms), o) {
		if r.Name == name {
			return r
		}
	}
	return Result{}
}

// rolling contains the events of a lossless rolling update on base a while the module is also active on base b.
var rolling = script(
	host(0, "a", "up"), host(0, "b", "up"), host(1, "a", "ready"), host(1, "b", "ready"),
	vpod(10, "p1", "1@a"), installed(20, "1@a"), vpod(40, "p1", "1@a", "ready"),
	vpod(10, "q1", "1@b"), installed(20, "1@b"), vpod(40, "q1", "1@b", "ready"), endpoints(45, "p1@a", "q1@b"),
	vpod(1000, "p2", "2@a"), biz(1010, "2@a", "RESOLVED"), swap(1020, "a"),
	command(1021, "2@a", "installBiz", "", 12*time.Millisecond),
	vpod(1030, "p1", "1@a"), vpod(1035, "p2", "2@a", "ready"), endpoints(1040, "p2@a", "q1@b"),
	vpod(1050, "p1", "1@a", "deleting"), biz(3000, "1@a", "STOPPED"), vpod(3010, "p1", "1@a", "gone"),
)
