package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// activeCheck looks for times in which a base that served a module has no active version of it.
//
// Such a gap begins when the last active version goes. It is a violation
//   - if, at any time in it, a Pod on the base wants the module: one that exists, is
//     not being deleted and has not ended. The gap counts as a whole then. One that got its Node
//     after another was deleted, when the controller that emptied the base could not know it yet, does not
//     want it: within decidedWithin of the gap, or since its view of the API was disturbed;
//   - and also if nobody wants the module at first and the Pod that comes is the
//     replacement of the one that was deleted, within replacedWithin: it has the
//     same DaemonSet or StatefulSet as owner; or it has another version, and the module
//     had no Ready Pod anywhere when the base lost it (delete first, install after).
//
// It is none if nobody wants the module: the last Pod was deleted or scaled away. What comes there
// later is a first installation.
//
// If the base's process ended, the time in windows of outages is allowed, and truthWithin beyond: until the next list
// after its return, and during installations. Until a Pod bound to a new process wants the module, nobody does. No other
// fault takes a module away by itself: what an error or a delay makes of a rollout counts.
type activeCheck struct {
	tracks map[string]map[string]*served // by base and module
	ever   map[track]struct{}            // that have been looked at
	found  []*gap
	// overlaps are the times in which the old and the new version were both active.
	overlaps []time.Duration
}

type track struct{ base, module string }

// served is a module, whatever its version, on a base where it has been active.
type served struct {
	active map[string]time.Time // versions, since when
	gap    *gap                 // open
	ended  *gap                 // the last one in which nobody wanted the module
	last   *events.PodStatus    // the Pod that was deleted last
}

type gap struct {
	track
	from, to time.Time
	ended    bool // the base's process has ended
	free     bool // nobody has wanted the module so far
	alone    bool // it had no Ready Pod anywhere at the beginning
}

func (c *activeCheck) note(w *world, e change) {
	if c.tracks == nil {
		c.tracks, c.ever = map[string]map[string]*served{}, map[track]struct{}{}
	}
	switch {
	case e.Base != nil:
		base := e.Base.Base
		switch e.Base.Change {
		case events.BaseDown, events.BaseUp:
			for module, s := range c.tracks[base] {
				clear(s.active)
				c.look(w, track{base, module}, e, true)
			}
		case events.BaseReady:
			for module := range c.tracks[base] {
				c.look(w, track{base, module}, e, false)
			}
		}
	case e.Module != nil:
		c.module(w, e)
	case e.Pod != nil:
		if e.pod.Base == "" {
			return
		}
		for _, m := range e.pod.Modules {
			t := track{e.pod.Base, m.Name}
			s := c.tracks[t.base][t.module]
			if s == nil {
				continue
			}
			if e.stayed && (e.pod.Deleting || e.pod.Gone) {
				s.last = e.pod
			}
			c.look(w, t, e, false)
			c.lookBack(w, s, e.pod, m.Name, e.Time)
		}
	}
}

// lookBack evaluates a closed gap again when the Pod event that ended it arrives.
func (c *activeCheck) lookBack(w *world, s *served, came *events.PodStatus, module string, now time.Time) {
	g := s.ended
	if g == nil || !came.Requires(module) {
		return
	}
	s.ended = nil
	if now.Sub(g.to) <= toldWithin && s.replacedBy(w, came, g, g.to) {
		g.free = false
		c.found = append(c.found, g)
	}
}

func (c *activeCheck) module(w *world, e change) {
	m := e.Module
	t := track{m.Base, m.Name}
	s := c.tracks[t.base][t.module]
	if m.State == events.ModuleActivated {
		if s == nil {
			s = (&served{active: map[string]time.Time{}})
			if c.tracks[t.base] == nil {
				c.tracks[t.base] = map[string]*served{}
			}
			c.tracks[t.base][t.module], c.ever[t] = s, struct{}{}
		}
		if _, ok := s.active[m.Version]; !ok {
			s.active[m.Version] = e.Time
		}
	} else {
		if s == nil {
			return
		}
		began, was := s.active[m.Version]
		delete(s.active, m.Version)
		for _, other := range s.active {
			if was && other.After(began) {
				c.overlaps = append(c.overlaps, e.Time.Sub(other))
			}
		}
	}
	c.look(w, t, e, false)
}

// look opens, closes and judges the gap of a track.
func (c *activeCheck) look(w *world, t track, e change, ended bool) {
	s, now := c.tracks[t.base][t.module], e.Time
	wanted := w.wanted(t.base, t.module)
	if len(s.active) > 0 {
		if g := s.gap; g != nil && now.Equal(g.from) && !g.ended {
			c.overlaps = append(c.overlaps, 0) // a switch, told as two events of one moment
		} else {
			c.close(g, now)
			if g != nil && g.free && !g.ended {
				g.to, s.ended = now, g
			}
		}
		s.gap = nil
		return
	}
	switch g := s.gap; {
	case g == nil:
		s.gap = &gap{track: t, from: now, ended: ended, alone: !w.serves(t.module)}
		s.gap.free = !wanted || s.justBound(w, s.gap)
	case ended:
		g.ended = true
	case g.free && wanted && g.ended:
		s.gap = &gap{track: t, from: now, ended: true}
	case g.free && wanted && e.pod != nil && s.replacedBy(w, e.pod, g, now):
		g.free = false
	case g.free && wanted:
		delete(c.tracks[t.base], t.module) // a first installation begins
	case !g.free && !wanted:
		c.close(g, now)
		s.gap = &gap{track: t, from: now, ended: g.ended, free: true, alone: g.alone}
	}
}

// close keeps a gap in which a Pod requested the module.
func (c *activeCheck) close(g *gap, now time.Time) {
	if g == nil || g.free || now.Equal(g.from) {
		return
	}
	g.to = now
	c.found = append(c.found, g)
}

// justBound reports whether the Pods that request the module of a deleted Pod were bound after the controller had decided, and
// none of them is its replacement.
func (s *served) justBound(w *world, g *gap) bool {
	if s.last == nil {
		return false
	}
	deleted := w.ending[s.last.PodKey()]
	for p := range w.PodsOn(g.base) {
		if !p.Requires(g.module) {
			continue
		}
		bound := w.bound[p.PodKey()]
		if deleted.IsZero() || !deleted.Before(bound) || bound.Before(w.knownAt(g.from)) ||
			s.replacedBy(w, p, g, g.from) {
			return false
		}
	}
	return true
}

// replacedBy reports whether a Pod that requests the module since now replaces the Pod whose deletion began the gap. A Pod of a
// DaemonSet or a StatefulSet that was deleted while its base was unavailable is replaced when the base recovers.
func (s *served) replacedBy(w *world, p *events.PodStatus, g *gap, now time.Time) bool {
	if s.last == nil || now.Sub(g.from) > replacedWithin {
		return false
	}
	if strings.HasPrefix(p.Owner, daemonSet) || strings.HasPrefix(p.Owner, statefulSet) {
		return p.Owner == s.last.Owner && !w.outages.away(g.base, w.ending[s.last.PodKey()], g.from)
	}
	return g.alone && s.last.Version(g.module) != p.Version(g.module)
}

// find returns the gaps until end: those that are violations, and the rest as excused.
func (c *activeCheck) find(w *world, end time.Time) Result {
	r := Result{Name: ActiveVersion, Compared: len(c.ever), Handovers: len(c.overlaps)}
	if len(c.overlaps) > 0 {
		r.ShortestOverlap = slices.Min(c.overlaps)
	}
	add := func(g gap, open bool) {
		f := Finding{
			Kind: NoActiveVersion, Time: g.from, Length: g.to.Sub(g.from), Base: g.base,
			Modules: []events.ModuleRef{{Name: g.module}},
			Open:    open, ProcessEnded: g.ended,
		}
		counted := w.outages.countable(g.base, g.from, g.to, func(o *outage) bool {
			return o.hides || o.what == down ||
				o.installs && !o.from.Before(g.from) && (o.module == "" || o.module == g.module)
		})
		if g.ended {
			f.Allowed = f.Length - counted
		}
		if g.ended && counted <= truthWithin {
			r.Excused = append(r.Excused, f)
		} else {
			r.Violations = append(r.Violations, f)
		}
	}
	for _, g := range c.found {
		add(*g, false)
	}
	for _, modules := range c.tracks {
		for _, s := range modules {
			if g := s.gap; g != nil && !g.free {
				last := *g
				last.to = end
				add(last, true)
			}
		}
	}
	r.Violations, r.Excused = sorted(r.Violations), sorted(r.Excused)
	return r
}
