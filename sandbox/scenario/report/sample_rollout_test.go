package report_test

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

const module = "stock"

// rollout tells a rollout of one module; times are milliseconds from its start.
type rollout struct {
	start  time.Time
	set    string
	events []events.Event
	steps  []*scenario.Step
	ready  map[int]events.Endpoint // by base
}

func newRollout(start time.Time, set string, bases int) *rollout {
	r := &rollout{start: start, set: set, ready: map[int]events.Endpoint{}}
	for n := range bases {
		for i, change := range []events.BaseChange{events.BaseUp, events.BaseReady, events.BaseConnected} {
			r.add(events.Event{Time: r.at(i), Base: &events.BaseEvent{Base: r.base(n), Identity: identity(n), Change: change}})
		}
		r.add(events.Event{Time: r.at(30 + n), Node: &events.NodeEvent{Name: "vnode." + identity(n), Base: r.base(n), State: "Ready"}})
	}
	return r
}

func identity(n int) string { return fmt.Sprintf("c9a1f0e2-%04d", n+1) }

func (r *rollout) at(ms int) time.Time { return r.start.Add(time.Duration(ms) * time.Millisecond) }

func (r *rollout) base(n int) string { return fmt.Sprintf("%s-%d", r.set, n+1) }

func (r *rollout) add(e events.Event) { r.events = append(r.events, e) }

func (r *rollout) child(action, name string, from, to int) *scenario.Step {
	return &scenario.Step{Name: name, Action: action, Line: 20 + len(r.steps), Verdict: scenario.Passed, Started: r.at(from),
		Elapsed: time.Duration(to-from) * time.Millisecond}
}

func (r *rollout) step(action, name string, from, to int, children ...*scenario.Step) *scenario.Step {
	s := r.child(action, name, from, to)
	s.Steps = children
	r.steps = append(r.steps, s)
	r.add(events.Event{Time: s.Started, Step: &events.StepEvent{Name: name, State: "began"}})
	r.add(events.Event{Time: r.at(to), Step: &events.StepEvent{Name: name, State: "passed"}})
	return s
}

func (r *rollout) component(name string, state events.ComponentState, message string, ms int) {
	r.add(events.Event{Time: r.at(ms), Component: &events.ComponentEvent{Name: name, State: state, Message: message}})
}

func (r *rollout) fault(n int, name string, change events.FaultChange, message string, ms int) {
	r.add(events.Event{Time: r.at(ms), Fault: &events.FaultEvent{Base: r.base(n), ID: name, Change: change, Message: message}})
}

func (r *rollout) module(n, ms int, version string, states ...events.ModuleState) {
	from := events.ModuleState("")
	for i, state := range states {
		r.add(events.Event{Time: r.at(ms + i), Module: &events.ModuleEvent{Base: r.base(n), Identity: identity(n), ModuleRef: events.ModuleRef{Name: module, Version: version}, From: from, State: state}})
		from = state
	}
}

func (r *rollout) command(n, ms, took int, name, version string) {
	r.add(events.Event{Time: r.at(ms + took), Command: &events.CommandEvent{Base: r.base(n), Name: name, Module: events.ModuleRef{Name: module, Version: version}, Message: "ok", Elapsed: time.Duration(took) * time.Millisecond}})
}

func (r *rollout) pod(n, ms int, name, version string, change func(*events.PodState)) {
	p := &events.PodState{Name: name, UID: "uid-" + name, Owner: "ReplicaSet/stock", Phase: "Pending", Modules: []events.ModuleRef{{Name: module, Version: version}},
		Labels: map[string]string{"app": module}, Created: r.at(ms).Truncate(time.Second)}
	change(p)
	base := ""
	if p.Node != "" {
		base = r.base(n)
	}
	r.add(events.Event{Time: r.at(ms), Pod: &events.PodEvent{Base: base, PodState: *p}})
}

func (r *rollout) endpoint(n, ms int, pod string, ready bool) {
	r.ready[n] = events.Endpoint{IP: fmt.Sprintf("198.18.0.%d", n+1), Pod: pod, Base: r.base(n), Ready: ready, Serving: ready}
	var all []events.Endpoint
	for i := range 64 {
		if e, ok := r.ready[i]; ok {
			all = append(all, e)
		}
	}
	r.add(events.Event{Time: r.at(ms), Endpoints: &events.EndpointsEvent{Service: module, Endpoints: all}})
}

func bound(n int, ready bool, reason string) func(*events.PodState) {
	return func(p *events.PodState) {
		p.Node, p.Phase, p.Ready, p.Reason, p.Writes = "vnode."+identity(n), "Running", ready, reason, 3
	}
}

// install puts a version on a base that has none.
func (r *rollout) install(n, ms int, version, pod string) {
	r.pod(n, ms, pod, version, func(*events.PodState) {})
	r.pod(n, ms+30, pod, version, bound(n, false, "Installing"))
	r.command(n, ms+35, 200, "installBiz", version)
	r.module(n, ms+36, version, "RESOLVED")
	r.module(n, ms+234, version, "ACTIVATED")
	r.pod(n, ms+241, pod, version, bound(n, true, ""))
	r.endpoint(n, ms+250, pod, true)
}

// update installs a version beside the one that serves, as a Deployment does.
func (r *rollout) update(n, ms int, old, version, pod string) {
	oldPod := fmt.Sprintf("stock-6b8f7c9d5-%c%c7x2", 'a'+n, 'k'+n)
	r.pod(n, ms, pod, version, func(*events.PodState) {})
	r.pod(n, ms+25, pod, version, bound(n, false, "Installing"))
	r.command(n, ms+30, 201, "installBiz", version)
	r.module(n, ms+31, version, "RESOLVED")
	r.module(n, ms+229, version, "ACTIVATED")
	r.module(n, ms+229, old, "DEACTIVATED")
	r.pod(n, ms+240, oldPod, old, bound(n, false, "BizDeactivate"))
	r.pod(n, ms+246, pod, version, bound(n, true, ""))
	r.endpoint(n, ms+252, pod, true)
	r.remove(n, ms+270, 1900, old, oldPod)
}

// remove takes a version from a base, drain milliseconds after its Pod is deleted.
func (r *rollout) remove(n, ms, drain int, version, pod string) {
	deleting := func(p *events.PodState) {
		bound(n, false, "BizDeactivate")(p)
		p.Deleting = true
	}
	r.pod(n, ms, pod, version, deleting)
	r.command(n, ms+drain, 20, "uninstallBiz", version)
	r.module(n, ms+drain+19, version, "")
	r.pod(n, ms+drain+30, pod, version, func(p *events.PodState) {
		deleting(p)
		p.Gone = true
	})
}

// replace removes the old Pod before the new one is there, as a DaemonSet does.
func (r *rollout) replace(n, ms int, old, version, oldPod, pod string) {
	r.endpoint(n, ms+10, oldPod, false)
	r.remove(n, ms, 180, old, oldPod)
	r.pod(n, ms+215, pod, version, func(*events.PodState) {})
	r.pod(n, ms+220, pod, version, bound(n, false, "Installing"))
	r.command(n, ms+203, 798, "installBiz", version)
	r.module(n, ms+205, version, "RESOLVED")
	r.module(n, ms+1000, version, "ACTIVATED")
	r.pod(n, ms+1008, pod, version, bound(n, true, ""))
	r.endpoint(n, ms+1016, pod, true)
}

// traffic makes up what a stream had sent; the version changes at change.
func (r *rollout) traffic(name, route string, from, to, rate int, lost []traffic.Record, change int, before, after string) scenario.Traffic {
	t := scenario.Traffic{Judge: "lost == 0", Verdict: scenario.Passed, Lost: lost}
	t.Summary = traffic.Summary{Name: name, Route: route, Results: map[traffic.Result]int{}, Versions: map[string]int{}, Lost: len(lost),
		P50: 410 * time.Microsecond, P99: 2300 * time.Microsecond, Max: 9 * time.Millisecond, Late: 700 * time.Microsecond, Started: r.at(from), Ended: r.at(to)}
	if len(lost) > 0 {
		t.Verdict = scenario.Failed
		t.Results[traffic.NotFound] = len(lost)
	}
	for ms := 0; ms < to; ms += 1000 {
		s := traffic.Second{Start: r.at(ms), Versions: map[string]int{}}
		for i := max(ms, from); i < min(ms+1000, to); i += 1000 / rate {
			s.Sent++
			if i < change {
				s.Versions[before]++
			} else {
				s.Versions[after]++
			}
		}
		for _, l := range lost {
			if !l.Due.Before(s.Start) && l.Due.Before(s.Start.Add(time.Second)) {
				s.Lost++
				s.Versions[before]--
			}
		}
		if s.Sent == 0 {
			continue
		}
		for v, n := range s.Versions {
			if t.Versions[v] += n; n == 0 {
				delete(s.Versions, v)
			}
		}
		t.Sent += s.Sent
		t.Seconds = append(t.Seconds, s)
	}
	t.Results[traffic.OK] = t.Sent - t.Summary.Lost
	return t
}

func (r *rollout) run(ms int) *scenario.Run {
	sortEvents(r.events)
	return &scenario.Run{Attempt: 1, Verdict: scenario.Passed, Started: r.start, Elapsed: time.Duration(ms) * time.Millisecond, Steps: r.steps, Timeline: r.events}
}
