package main

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// lag is how long a Pod may still say what was so before: a base switches by itself, and nobody can
// know before it says so. The times of the API are whole seconds.
const lag = time.Second

// replay holds, at every change of a base and of a Pod, what Pods say against what their bases
// serve. The time of a base's change is when it was made, that of a Pod's when the watch told it:
// what is held against a Pod lasted a little shorter in truth.
type replay struct {
	module string
	state  timeline.State
	served map[string]bool       // BASE:VERSION that has been active, and BASE of any
	early  map[string]bool       // Pods that turned Ready before their version was active, by UID
	open   map[episode]time.Time // since when

	gaps  []span // of a base without any active version
	wrong []span // of a Pod that was Ready without its version being active
	left  []span // of a Pod that said Ready after its module was gone
	apart []span // of a Pod whose readiness was not what its base served
}

// episode is something that is so of a base or a Pod.
type episode struct {
	of   string
	into *[]span
}

// span is how long something was so, of a base or a Pod.
type span struct {
	of       string
	from, to time.Time
}

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// play replays the events of a module up to a moment, at which everything ends that is still so.
func play(events []timeline.Event, module string, end time.Time) *replay {
	r := &replay{module: module, served: map[string]bool{}, early: map[string]bool{}, open: map[episode]time.Time{}}
	events = slices.DeleteFunc(slices.Clone(events), func(e timeline.Event) bool { return e.Time.After(end) })
	slices.SortStableFunc(events, func(a, b timeline.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range events {
		r.apply(e)
	}
	for e := range r.open {
		r.hold(e.into, e.of, false, end)
	}
	return r
}

func (r *replay) apply(e timeline.Event) {
	var before *timeline.PodStatus
	if e.Kind == timeline.Pod {
		before = r.state.Pods.Get(e.Pod.PodKey())
	}
	r.state.Apply(e)
	switch e.Kind {
	case timeline.Module:
		if e.Module == r.module && timeline.ModuleState(e.State) == timeline.ModuleActivated {
			r.served[e.Base], r.served[e.Base+":"+e.Version] = true, true
		}
		r.hold(&r.gaps, e.Base, r.served[e.Base] && !r.state.Bases.Get(e.Base).Active(r.module, ""), e.Time)
		for p := range r.state.Pods.All() {
			if p.Base == e.Base {
				r.judge(p, e.Time)
			}
		}
	case timeline.Pod:
		p := r.state.Pods.Get(e.Pod.PodKey())
		if p == nil {
			p = &timeline.PodStatus{PodState: *e.Pod}
		} else if p.Ready && (before == nil || !before.Ready) && !r.served[p.Base+":"+p.Version(r.module)] {
			r.early[p.UID] = true
		}
		r.judge(p, e.Time)
	}
}

// judge holds a Pod against its base.
func (r *replay) judge(p *timeline.PodStatus, now time.Time) {
	ref := timeline.ModuleRef{Name: r.module, Version: p.Version(r.module)}
	base := r.state.Bases.Get(p.Base)
	active, stays := base.Active(ref.Name, ref.Version), !p.Deleting && !p.Gone
	r.hold(&r.wrong, p.UID, p.Serves() && !active, now)
	r.hold(&r.left, p.UID, p.Ready && !p.Gone && base.Module(ref) == nil, now)
	r.hold(&r.apart, p.UID, stays && p.Base != "" && p.Ready != active, now)
}

// hold takes whether something is so. What was so for no time at all, because changes of one moment
// come one after the other, was not.
func (r *replay) hold(into *[]span, of string, is bool, now time.Time) {
	e := episode{of, into}
	since, open := r.open[e]
	switch {
	case is && !open:
		r.open[e] = now
	case !is && open:
		delete(r.open, e)
		if now.After(since) {
			*into = append(*into, span{of, since, now})
		}
	}
}

// without is how many bases have no active version of the module that they had.
func (r *replay) without() float64 {
	n := 0.0
	for b := range r.state.Bases.All() {
		if r.served[b.Name] && !b.Active(r.module, "") {
			n++
		}
	}
	return n
}

// longest is the longest span in seconds.
func longest(spans []span) float64 {
	most := 0.0
	for _, s := range spans {
		most = max(most, s.length().Seconds())
	}
	return most
}

// longer is how many spans are longer than d.
func longer(spans []span, d time.Duration) float64 {
	n := 0.0
	for _, s := range spans {
		if s.length() > d {
			n++
		}
	}
	return n
}

// subjects is how many bases or Pods the spans are of.
func subjects(spans []span) float64 {
	seen := map[string]bool{}
	for _, s := range spans {
		seen[s.of] = true
	}
	return float64(len(seen))
}
