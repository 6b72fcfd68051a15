package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a moment, in milliseconds from the beginning.
func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

// biz is a change of a module, named as version@base of the module biz.
func biz(ms int, where, state string) timeline.Event {
	version, base, _ := strings.Cut(where, "@")
	return timeline.Event{Time: at(ms), Kind: timeline.Module, Base: base, Module: "biz", Version: version, State: state}
}

func host(ms int, name, state string) timeline.Event {
	return timeline.Event{Time: at(ms), Kind: timeline.Base, Base: name, State: state}
}

// vpod is a write of a Pod; flags are ready, deleting, gone, failed, or owner=….
func vpod(ms int, name, where string, flags ...string) timeline.Event {
	version, base, _ := strings.Cut(where, "@")
	p := &timeline.PodState{
		Name: name, UID: "uid-" + name, Owner: "ReplicaSet/" + version, Phase: "Running", Writes: 1,
		Modules: []timeline.ModuleRef{{Name: "biz", Version: version}},
		Ready:   slices.Contains(flags, "ready"), Deleting: slices.Contains(flags, "deleting"), Gone: slices.Contains(flags, "gone"),
	}
	for _, f := range flags {
		if owner, ok := strings.CutPrefix(f, "owner="); ok {
			p.Owner = owner
		}
		if f == "failed" {
			p.Phase = "Failed"
		}
	}
	return timeline.Event{Time: at(ms), Kind: timeline.Pod, Base: base, Pod: p}
}

func component(ms int, name, state string) timeline.Event {
	return timeline.Event{Time: at(ms), Kind: timeline.Component, Name: name, State: state}
}

// rule is what a fault of the API does.
func rule(ms int, kind, state string) timeline.Event {
	return timeline.Event{Time: at(ms), Kind: timeline.Fault, Target: "api", Name: "r", Code: kind, State: state}
}

// way is what a fault of the target mqtt does: that of a base, or of the controllers.
func way(ms int, base, kind, state string) timeline.Event {
	return timeline.Event{Time: at(ms), Kind: timeline.Fault, Target: "mqtt", Name: "w", Base: base, Code: kind, State: state}
}

// onNode puts Pods on a Node.
func onNode(node string, events list) list {
	out := slices.Clone(events)
	for i := range out {
		if out[i].Pod != nil {
			p := *out[i].Pod
			p.Node, out[i].Pod = node, &p
		}
	}
	return out
}

// endpoints are those of the Service svc that are ready, as Pod@base.
func endpoints(ms int, ready ...string) timeline.Event {
	e := timeline.Event{Time: at(ms), Kind: timeline.Endpoints, Name: "svc"}
	for _, r := range ready {
		name, base, _ := strings.Cut(r, "@")
		e.Endpoints = append(e.Endpoints, timeline.Endpoint{Pod: name, Base: base, Ready: true, Serving: true})
	}
	return e
}

// published is the endpoint of Pod p1 in a Service with publishNotReadyAddresses, while the Pod is not Ready or
// is being deleted.
func published(ms int, deleting bool) timeline.Event {
	e := endpoints(ms, "p1@a")
	e.Endpoints[0].Serving, e.Endpoints[0].Terminating = deleting, deleting
	return e
}

func lost(ms int, base string) timeline.Event {
	return timeline.Event{Time: at(ms), Kind: timeline.Request, Name: "traffic", State: "notFound", Base: base, Module: "biz"}
}

func command(ms int, where, name, code string, elapsed time.Duration) timeline.Event {
	version, base, _ := strings.Cut(where, "@")
	return timeline.Event{Time: at(ms), Kind: timeline.Command, Base: base, Name: name, Module: "biz", Version: version, Code: code, Elapsed: elapsed}
}

// installed is a version that is resolved, then active.
func installed(ms int, where string) []timeline.Event {
	return []timeline.Event{biz(ms, where, "RESOLVED"), biz(ms+10, where, "ACTIVATED"), command(ms+11, where, "installBiz", "", 15*time.Millisecond)}
}

// removed ends an active version.
func removed(ms int, where string) []timeline.Event {
	return []timeline.Event{biz(ms, where, "DEACTIVATED"), biz(ms+5, where, "STOPPED")}
}

// uninstalled ends an active version by a command.
func uninstalled(ms int, where string) []timeline.Event {
	return append(removed(ms, where), command(ms+6, where, "uninstallBiz", "", 7*time.Millisecond))
}

// switched is a swap by a command.
func switched(ms int, base string) []timeline.Event {
	return append(swap(ms, base), command(ms+1, "2@"+base, "installBiz", "", 12*time.Millisecond))
}

// asked is a list that a base tells.
func asked(ms int, base string) timeline.Event {
	return timeline.Event{Time: at(ms), Kind: timeline.Command, Base: base, Name: "queryAllBiz"}
}

// fires is a fault that happens.
func fires(ms int, base, kind string) timeline.Event {
	return timeline.Event{Time: at(ms), Kind: timeline.Fault, Target: "base", Base: base, Name: "f", State: "fired", Code: kind}
}

// identity is an event of a base's process.
func identity(id string, e timeline.Event) timeline.Event {
	e.Identity = id
	return e
}

// swap is the moment at which version 2 replaces version 1.
func swap(ms int, base string) []timeline.Event {
	return []timeline.Event{biz(ms, "1@"+base, "DEACTIVATED"), biz(ms, "2@"+base, "ACTIVATED")}
}

type list = []timeline.Event

func script(parts ...any) list {
	var out list
	for _, p := range parts {
		switch p := p.(type) {
		case timeline.Event:
			out = append(out, p)
		case list:
			out = append(out, p...)
		}
	}
	return out
}

// judged returns the result of one check at 60 s.
func judged(name string, o Options, events list) Result {
	return judgedAt(60_000, name, o, events)
}

// judgedAt returns it at another moment.
func judgedAt(ms int, name string, o Options, events list) Result {
	for _, r := range Judge(events, at(ms), o) {
		if r.Name == name {
			return r
		}
	}
	return Result{}
}

// rolling is a lossless update of base a, while base b serves.
var rolling = script(
	host(0, "a", "up"), host(0, "b", "up"), host(1, "a", "ready"), host(1, "b", "ready"),
	vpod(10, "p1", "1@a"), installed(20, "1@a"), vpod(40, "p1", "1@a", "ready"),
	vpod(10, "q1", "1@b"), installed(20, "1@b"), vpod(40, "q1", "1@b", "ready"), endpoints(45, "p1@a", "q1@b"),
	vpod(1000, "p2", "2@a"), biz(1010, "2@a", "RESOLVED"), swap(1020, "a"), command(1021, "2@a", "installBiz", "", 12*time.Millisecond),
	vpod(1030, "p1", "1@a"), vpod(1035, "p2", "2@a", "ready"), endpoints(1040, "p2@a", "q1@b"),
	vpod(1050, "p1", "1@a", "deleting"), biz(3000, "1@a", "STOPPED"), vpod(3010, "p1", "1@a", "gone"),
)
