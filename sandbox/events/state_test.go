package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func base(change BaseChange, identity string) Event {
	return Event{Base: &BaseEvent{Base: "a", Identity: identity, Change: change}}
}

// module returns an event with the state of a version of the module "biz" on base "a".
func module(ms int, version string, state ModuleState) Event {
	return Event{Time: at(ms),
		Module: &ModuleEvent{Base: "a", ModuleRef: ModuleRef{Name: "biz", Version: version}, State: state}}
}

func pod(ms int, name, base string, change func(*PodState)) Event {
	p := &PodState{Name: name, UID: "uid-" + name, Phase: "Running", Modules: []ModuleRef{{Name: "biz", Version: "1"}}}
	change(p)
	return Event{Time: at(ms), Pod: &PodEvent{Base: base, PodState: *p}}
}

func nothing(*PodState) {}
func on(node string) func(*PodState) {
	return func(p *PodState) { p.Node = node }
}
func ready(p *PodState)       { p.Ready = true }
func gone(p *PodState)        { p.Gone = true }
func terminating(p *PodState) { p.Ready, p.Deleting = true, true }
func failed(p *PodState)      { p.Phase = "Failed" }

// content is the content of a State as plain values, for comparisons.
type content struct {
	Bases       map[string]BaseStatus
	Pods        map[string]PodStatus
	Nodes       map[string]NodeStatus
	Services    map[string]ServiceStatus
	Components  map[string]ComponentStatus
	Faults      map[string]FaultStatus
	Streams     map[string]StreamStatus
	Steps       map[string]StepStatus
	Hosts       map[string]string // host names of the bases, by Node name
	WrongPodsOn []string          // names of the bases for which PodsOn returns an unexpected result
}

func valuesOf[T any](t Table[T]) map[string]T {
	all := map[string]T{}
	for _, name := range t.Names() {
		all[name] = *t.Get(name)
	}
	return all
}

func contentOf(s *State) content {
	c := content{valuesOf(s.Bases), valuesOf(s.Pods), valuesOf(s.Nodes), valuesOf(s.Services), valuesOf(s.Components),
		valuesOf(s.Faults), valuesOf(s.Streams), valuesOf(s.Steps), map[string]string{}, nil}
	for _, base := range []string{"a", "b"} {
		var on, there []*PodStatus
		for p := range s.PodsOn(base) {
			on = append(on, p)
		}
		for p := range s.Pods.All() {
			if p.Base == base {
				there = append(there, p)
			}
		}
		byNumber := func(p, q *PodStatus) int { return p.Number - q.Number }
		slices.SortFunc(on, byNumber)
		slices.SortFunc(there, byNumber)
		if !slices.Equal(on, there) {
			c.WrongPodsOn = append(c.WrongPodsOn, base)
		}
	}
	for _, node := range []string{"vnode.1", "vnode.2", "other"} {
		if host := s.BaseOf(node); host != "" {
			c.Hosts[node] = host
		}
	}
	return c
}

func biz(version string, state ModuleState, since int, own bool) ModuleStatus {
	return ModuleStatus{ModuleRef: ModuleRef{Name: "biz", Version: version}, State: state, Since: at(since),
		Preinstalled: own}
}

func health(status string) Event {
	return Event{Health: &HealthEvent{Base: "a", Health: status, Readiness: "UP",
		Metaspace: Metaspace{Used: 1, Max: 2}}}
}

func TestState(t *testing.T) {
	only := func(b BaseStatus) content {
		b.Name = "a"
		c := content{Bases: map[string]BaseStatus{"a": b}}
		if b.Identity != "" {
			c.Hosts = map[string]string{"vnode." + b.Identity: "a"}
		}
		return c
	}
	pods := func(all ...PodStatus) content {
		c := content{Pods: map[string]PodStatus{}}
		for _, p := range all {
			c.Pods[p.UID] = p
		}
		return c
	}
	status := func(e Event, number int, base string, since time.Time) PodStatus {
		return PodStatus{PodState: e.Pod.PodState, Base: base, Number: number, ReadySince: since}
	}
	for name, tc := range map[string]struct {
		events []Event
		want   content
	}{
		"nothing": {nil, content{}},
		"commands change nothing": {
			[]Event{{Command: &CommandEvent{Base: "a", Name: CommandInstall,
				Module: ModuleRef{Name: "biz", Version: "1"}}}}, content{}},
		"steps": {
			[]Event{{Time: at(1), Step: &StepEvent{Name: "one", State: StepBegan}},
				{Time: at(2), Step: &StepEvent{Name: "two", State: StepBegan}},
				{Time: at(3), Step: &StepEvent{Name: "one", State: StepPassed}},
				{Time: at(4), Step: &StepEvent{Name: "never", State: StepSkipped}}},
			content{Steps: map[string]StepStatus{"1": {StepEvent{Name: "one", State: StepPassed}, 1, at(1), at(3)},
				"2": {StepEvent{Name: "two", State: StepBegan}, 2, at(2), time.Time{}},
				"3": {StepEvent{Name: "never", State: StepSkipped}, 3, at(4), at(4)}}}},
		"base starts": {
			[]Event{base(BaseUp, "1"), base(BaseConnected, "1"), base(BaseReady, "1")},
			only(BaseStatus{Identity: "1", Running: true, Connected: true, Ready: true})},
		"health of a base": {
			[]Event{base(BaseUp, "1"), health("UNKNOWN"), base(BaseReady, "1"), health("DOWN")},
			only(BaseStatus{Identity: "1", Running: true, Ready: true, Health: "DOWN", Readiness: "UP",
				Metaspace: Metaspace{Used: 1, Max: 2}})},
		"health of a base that has ended": {
			[]Event{health("UP"), base(BaseUp, "1"), health("UP"), base(BaseDown, "1"), health("UP")},
			only(BaseStatus{Identity: "1"})},
		"added base has no process": {[]Event{base(BaseAdded, "1")},
			only(BaseStatus{Identity: "1"})},
		"base is disconnected": {[]Event{base(BaseConnected, ""), base(BaseDisconnected, "")},
			only(BaseStatus{Running: true})},
		"first event: disconnected": {[]Event{base(BaseDisconnected, "")},
			only(BaseStatus{Running: true})},
		"first event: down": {[]Event{base(BaseDown, "")}, only(BaseStatus{})},
		"base stops with its modules": {
			[]Event{base(BaseReady, "1"), base(BaseConnected, "1"), module(1, "1", ModuleActivated),
				base(BaseDown, "1")}, only(BaseStatus{Identity: "1"})},
		"new process has no modules": {
			[]Event{base(BaseReady, "1"), module(1, "1", ModuleActivated), base(BaseUp, "2")},
			content{Bases: map[string]BaseStatus{"a": {Name: "a", Identity: "2", Running: true}},
				Hosts: map[string]string{"vnode.1": "a", "vnode.2": "a"}}},
		"late events of a removed base": {
			[]Event{base(BaseReady, ""), base(BaseRemoved, ""), module(1, "1", ModuleDeactivated),
				base(BaseDisconnected, ""), base(BaseConnected, ""), base(BaseDown, "")},
			only(BaseStatus{Removed: true})},
		"base with the name of a removed base": {[]Event{base(BaseReady, ""), base(BaseRemoved, ""),
			base(BaseReady, "")},
			only(BaseStatus{Running: true, Ready: true})},
		"added base with the name of a removed base": {[]Event{base(BaseReady, ""), base(BaseRemoved, ""),
			base(BaseAdded, "2")},
			only(BaseStatus{Identity: "2"})},
		"event without a base": {
			[]Event{{Base: &BaseEvent{Change: BaseDown}},
				{Module: &ModuleEvent{ModuleRef: ModuleRef{Name: "biz"}, State: ModuleBroken}}}, content{}},
		"modules are sorted by name": {
			[]Event{base(BaseReady, ""), module(1, "2", ModuleResolved),
				{Time: at(2), Module: &ModuleEvent{Base: "a", ModuleRef: ModuleRef{Name: "aaa", Version: "9"},
					State: "BROKEN"}}, module(3, "1", ModuleActivated)},
			only(BaseStatus{Running: true, Ready: true, Modules: []ModuleStatus{
				{ModuleRef: ModuleRef{Name: "aaa", Version: "9"}, State: ModuleBroken, Since: at(2)},
				biz("1", ModuleActivated, 3, false), biz("2", ModuleResolved, 1, false)}})},
		"switch": {
			[]Event{base(BaseReady, ""), module(1, "1", ModuleActivated), module(2, "2", ModuleResolved),
				module(3, "1", ModuleDeactivated), module(3, "2", ModuleActivated)},
			only(BaseStatus{Running: true, Ready: true,
				Modules: []ModuleStatus{biz("1", ModuleDeactivated, 1, false), biz("2", ModuleActivated, 2, false)}})},
		"removed modules": {
			[]Event{base(BaseReady, ""), module(1, "1", ModuleActivated), module(1, "2", ModuleActivated),
				module(1, "3", ModuleBroken), module(1, "4", ModuleActivated),
				module(2, "1", ""), module(2, "2", ModuleStopped), module(2, "3", ModuleUnresolved),
				module(2, "5", "")},
			only(BaseStatus{Running: true, Ready: true, Modules: []ModuleStatus{biz("4", ModuleActivated, 1, false)}})},
		"module is installed again": {
			[]Event{base(BaseReady, ""), module(1, "1", ModuleActivated), module(2, "1", ""),
				module(3, "1", ModuleResolved)},
			only(BaseStatus{Running: true, Ready: true, Modules: []ModuleStatus{biz("1", ModuleResolved, 3, false)}})},
		"Pod event before the event of its base": {
			[]Event{pod(1, "p", "", on("vnode.2")), pod(2, "q", "", on("vnode.9")), base(BaseUp, "2")},
			content{Bases: map[string]BaseStatus{"a": {Name: "a", Identity: "2", Running: true}},
				Hosts: map[string]string{"vnode.2": "a"},
				Pods: map[string]PodStatus{
					"uid-p": status(pod(1, "p", "", on("vnode.2")), 1, "a", time.Time{}),
					"uid-q": status(pod(2, "q", "", on("vnode.9")), 2, "", time.Time{})}}},
		"Pod event before the event of its Node": {
			[]Event{pod(1, "p", "", on("vnode.2")), {Node: &NodeEvent{Name: "vnode.2", Base: "a"}},
				pod(2, "q", "", on("vnode.2"))},
			content{Hosts: map[string]string{"vnode.2": "a"}, Pods: map[string]PodStatus{
				"uid-p": status(pod(1, "p", "", on("vnode.2")), 1, "a", time.Time{}),
				"uid-q": status(pod(2, "q", "", on("vnode.2")), 2, "a", time.Time{})}}},
		"preinstalled module": {
			[]Event{base(BaseUp, ""), module(1, "1", ModuleActivated), base(BaseReady, ""),
				module(2, "1", ModuleDeactivated), module(3, "2", ModuleActivated)},
			only(BaseStatus{Running: true, Ready: true,
				Modules: []ModuleStatus{biz("1", ModuleDeactivated, 1, true), biz("2", ModuleActivated, 3, false)}})},
		"modules before the stream": {
			[]Event{base(BaseReady, ""), module(1, "1", ModuleActivated), {Synced: true},
				module(3, "2", ModuleActivated)},
			only(BaseStatus{Running: true, Ready: true,
				Modules: []ModuleStatus{biz("1", ModuleActivated, 1, true), biz("2", ModuleActivated, 3, false)}})},
		"first event: module": {
			[]Event{module(1, "1", ModuleActivated)},
			only(BaseStatus{Running: true, Ready: true, Modules: []ModuleStatus{biz("1", ModuleActivated, 1, false)}})},
		"Pod keeps its base after the base was removed": {
			[]Event{pod(1, "p", "", nothing), pod(2, "p", "a", ready), pod(3, "p", "", ready)},
			pods(status(pod(0, "p", "", ready), 1, "a", at(2)))},
		"Pod becomes Ready again": {
			[]Event{pod(1, "p", "a", ready), pod(2, "p", "a", nothing), pod(3, "p", "a", ready),
				pod(4, "p", "a", ready)},
			pods(status(pod(0, "p", "", ready), 1, "a", at(3)))},
		"deleted Pod does not serve": {[]Event{pod(1, "p", "a", ready), pod(2, "p", "a", terminating)},
			pods(status(pod(0, "p", "", terminating), 1, "a", time.Time{}))},
		"Pods are created and deleted": {
			[]Event{pod(1, "p", "a", nothing), pod(1, "q", "b", nothing), pod(2, "p", "a", gone),
				pod(3, "r", "a", failed), pod(4, "never", "", gone)},
			pods(status(pod(0, "q", "", nothing), 2, "b", time.Time{}),
				status(pod(0, "r", "", failed), 3, "a", time.Time{}))},
		"Pod without a UID": {
			[]Event{{Pod: &PodEvent{PodState: PodState{Name: "p"}}}},
			content{Pods: map[string]PodStatus{"p": {PodState: PodState{Name: "p"}, Number: 1}}}},
		"Nodes": {
			[]Event{{Node: &NodeEvent{Name: "vnode.1", Base: "a", State: "Ready"}},
				{Node: &NodeEvent{Name: "vnode.1", Base: "a", State: "NotReady"}},
				{Node: &NodeEvent{Name: "vnode.2", Base: "b", State: "Ready"}},
				{Node: &NodeEvent{Name: "vnode.2", Base: "b"}}, {Node: &NodeEvent{Name: "other", State: "Unknown"}}},
			content{Nodes: map[string]NodeStatus{"vnode.1": {Name: "vnode.1", Base: "a", State: NodeNotReady},
				"other": {Name: "other", State: NodeUnknown}},
				Hosts: map[string]string{"vnode.1": "a", "vnode.2": "b"}}},
		"endpoints": {
			[]Event{{Endpoints: &EndpointsEvent{Service: "svc",
				Endpoints: []Endpoint{{IP: "198.18.0.1", Pod: "p", Ready: true}}}},
				{Endpoints: &EndpointsEvent{Service: "none"}},
				{Endpoints: &EndpointsEvent{Service: "svc", Endpoints: []Endpoint{{IP: "198.18.0.2", Pod: "q"}}}}},
			content{Services: map[string]ServiceStatus{"none": {Name: "none"},
				"svc": {Name: "svc", Endpoints: []Endpoint{{IP: "198.18.0.2", Pod: "q"}}}}}},
		"components": {
			[]Event{{Time: at(1), Component: &ComponentEvent{Name: "broker", State: "running"}},
				{Time: at(2), Component: &ComponentEvent{Name: "broker", State: "running"}},
				{Time: at(1), Component: &ComponentEvent{Name: "x", State: "running"}},
				{Time: at(3), Component: &ComponentEvent{Name: "x", State: "exited", Message: "killed"}}},
			content{Components: map[string]ComponentStatus{"broker": {
				ComponentEvent{Name: "broker", State: ComponentRunning}, at(1)},
				"x": {ComponentEvent{Name: "x", State: ComponentExited, Message: "killed"}, at(3)}}}},
		"faults": {
			[]Event{{Time: at(1), Fault: &FaultEvent{Base: "a", ID: "f1", Kind: "silent", Change: "set"}},
				{Time: at(1), Fault: &FaultEvent{Base: "b", ID: "f1", Kind: "deaf", Change: "set"}},
				{Time: at(2), Fault: &FaultEvent{Base: "a", ID: "f1", Change: "fired"}},
				{Time: at(3), Fault: &FaultEvent{Base: "b", ID: "f1", Change: "cleared"}}},
			content{Faults: map[string]FaultStatus{
				"a/f1": {FaultEvent{Base: "a", ID: "f1", Kind: "silent", Change: FaultSet}, at(1), 1}}}},
		"lost requests": {
			[]Event{{Request: &RequestEvent{Stream: "s", Result: "notFound"}},
				{Request: &RequestEvent{Stream: "s", Result: "refused"}},
				{Request: &RequestEvent{Stream: "s", Result: "notFound"}}},
			content{Streams: map[string]StreamStatus{
				"s": {Name: "s", Lost: map[RequestResult]int{"notFound": 2, "refused": 1}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, e := range tc.events {
				s.Apply(e)
			}
			if diff := cmp.Diff(tc.want, contentOf(&s), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeftovers(t *testing.T) {
	named := func(version string) func(*PodState) {
		return func(p *PodState) { p.Modules = []ModuleRef{{Name: "biz", Version: version}} }
	}
	installed := []Event{base(BaseReady, ""), module(1, "1", ModuleActivated), module(2, "2", ModuleDeactivated)}
	for name, tc := range map[string]struct {
		events []Event
		want   []string
	}{
		"no Pods":                  {nil, []string{"a biz:1 ACTIVATED", "a biz:2 DEACTIVATED"}},
		"one version is requested": {[]Event{pod(3, "p", "a", named("1"))}, []string{"a biz:2 DEACTIVATED"}},
		"Pod is being deleted":     {[]Event{pod(3, "p", "a", terminating)}, []string{"a biz:2 DEACTIVATED"}},
		"Pod was deleted": {[]Event{pod(3, "p", "a", nothing), pod(4, "p", "a", gone)},
			[]string{"a biz:1 ACTIVATED", "a biz:2 DEACTIVATED"}},
		"requested on another base": {[]Event{pod(3, "p", "b", nothing)},
			[]string{"a biz:1 ACTIVATED", "a biz:2 DEACTIVATED"}},
		"Pod without a version": {[]Event{pod(3, "p", "a", named(""))},
			[]string{"a biz:1 ACTIVATED", "a biz:2 DEACTIVATED"}},
		"changed in place, new version not active": {[]Event{pod(3, "p", "a", named("1")),
			pod(4, "p", "a", named("3"))},
			[]string{"a biz:2 DEACTIVATED"}},
		"changed in place, without a version": {[]Event{pod(3, "p", "a", named("1")), pod(4, "p", "a", named(""))},
			[]string{"a biz:2 DEACTIVATED"}},
		"changed in place, then deleted": {
			[]Event{pod(3, "p", "a", named("1")), pod(4, "p", "a", named("")), pod(5, "p", "a", gone)},
			[]string{"a biz:1 ACTIVATED", "a biz:2 DEACTIVATED"}},
		"changed in place and back": {[]Event{pod(3, "p", "a", named("2")), pod(4, "p", "a", named("1"))},
			[]string{"a biz:2 DEACTIVATED"}},
		"base is down":              {[]Event{base(BaseDown, "")}, nil},
		"modules before the stream": {[]Event{{Synced: true}}, nil},
		"preinstalled module of another base": {
			[]Event{{Base: &BaseEvent{Base: "b", Change: "up"}},
				{Module: &ModuleEvent{Base: "b", ModuleRef: ModuleRef{Name: "own", Version: "1"}, State: "ACTIVATED"}}},
			[]string{"a biz:1 ACTIVATED", "a biz:2 DEACTIVATED"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, e := range append(slices.Clone(installed), tc.events...) {
				s.Apply(e)
			}
			var got []string
			for _, l := range s.Leftovers(nil) {
				got = append(got, fmt.Sprintf("%s %s %s", l.Base, l.ModuleRef, l.State))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestValuesDoNotChange checks that values returned by a State do not change when later events are applied.
func TestValuesDoNotChange(t *testing.T) {
	var s State
	for _, e := range []Event{base(BaseReady, "1"), module(1, "1", ModuleActivated), pod(1, "p", "a", nothing),
		{Request: &RequestEvent{Stream: "s", Result: "refused"}}} {
		s.Apply(e)
	}
	b, p, lost := s.Bases.Get("a"), s.Pods.Get("uid-p"), s.Streams.Get("s")
	for _, e := range []Event{module(2, "1", ModuleDeactivated), module(2, "0", ModuleActivated), {Synced: true},
		pod(2, "p", "a", ready), {Request: &RequestEvent{Stream: "s", Result: "refused"}}} {
		s.Apply(e)
	}
	got := fmt.Sprint(b.Modules[0].State, len(b.Modules), b.Modules[0].Preinstalled, p.Ready, lost.Lost)
	if want := "ACTIVATED1 false false map[refused:1]"; strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want,
		" ", "") {
		t.Errorf("state = %s, want %s", got, want)
	}
}
