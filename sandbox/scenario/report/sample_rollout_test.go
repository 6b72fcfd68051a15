package report_test

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

const module = "stock"

// rollout tells a rollout of one module; times are milliseconds from its start.
type rollout struct {
	start  time.Time
	set    string
	events []timeline.Event
	steps  []*scenario.Step
	ready  map[int]timeline.Endpoint // by base
}

func newRollout(start time.Time, set string, bases int) *rollout {
	r := &rollout{start: start, set: set, ready: map[int]timeline.Endpoint{}}
	for n := range bases {
		for i, state := range []string{"up", "ready", "connected"} {
			r.add(timeline.Event{Kind: timeline.Base, Base: r.base(n), Identity: identity(n), State: state, Time: r.at(i)})
		}
		r.add(timeline.Event{Kind: timeline.Node, Base: r.base(n), Name: "vnode." + identity(n), State: "Ready", Time: r.at(30 + n)})
	}
	return r
}

func identity(n int) string { return fmt.Sprintf("c9a1f0e2-%04d", n+1) }

func (r *rollout) at(ms int) time.Time { return r.start.Add(time.Duration(ms) * time.Millisecond) }

func (r *rollout) base(n int) string { return fmt.Sprintf("%s-%d", r.set, n+1) }

func (r *rollout) add(e timeline.Event) { r.events = append(r.events, e) }

func (r *rollout) child(action, name string, from, to int) *scenario.Step {
	return &scenario.Step{Name: name, Action: action, Line: 20 + len(r.steps), Verdict: scenario.Passed, Started: r.at(from),
		Elapsed: time.Duration(to-from) * time.Millisecond}
}

func (r *rollout) step(action, name string, from, to int, children ...*scenario.Step) *scenario.Step {
	s := r.child(action, name, from, to)
	s.Steps = children
	r.steps = append(r.steps, s)
	r.add(timeline.Event{Kind: timeline.Step, Name: name, State: "began", Time: s.Started})
	r.add(timeline.Event{Kind: timeline.Step, Name: name, State: "passed", Time: r.at(to)})
	return s
}

func (r *rollout) component(name, state, message string, ms int) {
	r.add(timeline.Event{Kind: timeline.Component, Name: name, State: state, Message: message, Time: r.at(ms)})
}

func (r *rollout) fault(n int, name, state, message string, ms int) {
	r.add(timeline.Event{Kind: timeline.Fault, Base: r.base(n), Name: name, State: state, Message: message, Time: r.at(ms)})
}

func (r *rollout) module(n, ms int, version string, states ...string) {
	from := ""
	for i, state := range states {
		r.add(timeline.Event{Kind: timeline.Module, Base: r.base(n), Identity: identity(n), Module: module, Version: version, State: state, From: from, Time: r.at(ms + i)})
		from = state
	}
}

func (r *rollout) command(n, ms, took int, name, version string) {
	r.add(timeline.Event{Kind: timeline.Command, Base: r.base(n), Name: name, Module: module, Version: version, Message: "ok",
		Elapsed: time.Duration(took) * time.Millisecond, Time: r.at(ms + took)})
}

func (r *rollout) pod(n, ms int, name, version string, change func(*timeline.PodState)) {
	p := &timeline.PodState{Name: name, UID: "uid-" + name, Owner: "ReplicaSet/stock", Phase: "Pending", Modules: []timeline.ModuleRef{{Name: module, Version: version}},
		Labels: map[string]string{"app": module}, Created: r.at(ms).Truncate(time.Second)}
	change(p)
	base := ""
	if p.Node != "" {
		base = r.base(n)
	}
	r.add(timeline.Event{Kind: timeline.Pod, Base: base, Pod: p, Time: r.at(ms)})
}

func (r *rollout) endpoint(n, ms int, pod string, ready bool) {
	r.ready[n] = timeline.Endpoint{IP: fmt.Sprintf("198.18.0.%d", n+1), Pod: pod, Base: r.base(n), Ready: ready, Serving: ready}
	var all []timeline.Endpoint
	for i := range 64 {
		if e, ok := r.ready[i]; ok {
			all = append(all, e)
		}
	}
	r.add(timeline.Event{Kind: timeline.Endpoints, Name: module, Endpoints: all, Time: r.at(ms)})
}

func bound(n int, ready bool, reason string) func(*timeline.PodState) {
	return func(p *timeline.PodState) {
		p.Node, p.Phase, p.Ready, p.Reason, p.Writes = "vnode."+identity(n), "Running", ready, reason, 3
	}
}

// install puts a version on a base that has none.
func (r *rollout) install(n, ms int, version, pod string) {
	r.pod(n, ms, pod, version, func(*timeline.PodState) {})
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
	r.pod(n, ms, pod, version, func(*timeline.PodState) {})
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
	deleting := func(p *timeline.PodState) {
		bound(n, false, "BizDeactivate")(p)
		p.Deleting = true
	}
	r.pod(n, ms, pod, version, deleting)
	r.command(n, ms+drain, 20, "uninstallBiz", version)
	r.module(n, ms+drain+19, version, "")
	r.pod(n, ms+drain+30, pod, version, func(p *timeline.PodState) {
		deleting(p)
		p.Gone = true
	})
}

// replace removes the old Pod before the new one is there, as a DaemonSet does.
func (r *rollout) replace(n, ms int, old, version, oldPod, pod string) {
	r.endpoint(n, ms+10, oldPod, false)
	r.remove(n, ms, 180, old, oldPod)
	r.pod(n, ms+215, pod, version, func(*timeline.PodState) {})
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
