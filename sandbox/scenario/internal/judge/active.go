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
	modules map[string]map[string]*moduleHistory // by base and module
	seen    map[moduleOnBase]struct{}            // that have been looked at
	found   []*gap
	// overlaps are the times in which the old and the new version were both active.
	overlaps []time.Duration
}

type moduleOnBase struct{ base, module string }

// moduleHistory is a module, whatever its version, on a base where it has been active.
type moduleHistory struct {
	active      map[string]time.Time // versions, since when
	gap         *gap                 // open
	unwantedGap *gap                 // the last one in which nobody wanted the module
	lastDeleted *events.PodStatus    // the Pod that was deleted last
}

type gap struct {
	moduleOnBase
	from, to     time.Time
	processEnded bool // the base's process has ended
	unwanted     bool // nobody has wanted the module so far
	noReadyPod   bool // it had no Ready Pod anywhere at the beginning
}

func (c *activeCheck) observe(w *history, e appliedEvent) {
	if c.modules == nil {
		c.modules, c.seen = map[string]map[string]*moduleHistory{}, map[moduleOnBase]struct{}{}
	}
	switch {
	case e.Base != nil:
		base := e.Base.Base
		switch e.Base.Change {
		case events.BaseDown, events.BaseUp:
			for module, s := range c.modules[base] {
				clear(s.active)
				c.updateGap(w, moduleOnBase{base, module}, e, true)
			}
		case events.BaseReady:
			for module := range c.modules[base] {
				c.updateGap(w, moduleOnBase{base, module}, e, false)
			}
		}
	case e.Module != nil:
		c.module(w, e)
	case e.Pod != nil:
		if e.pod.Base == "" {
			return
		}
		for _, m := range e.pod.Modules {
			t := moduleOnBase{e.pod.Base, m.Name}
			s := c.modules[t.base][t.module]
			if s == nil {
				continue
			}
			if e.stayed && (e.pod.Deleting || e.pod.Gone) {
				s.lastDeleted = e.pod
			}
			c.updateGap(w, t, e, false)
			c.reconsiderGap(w, s, e.pod, m.Name, e.Time)
		}
	}
}

// reconsiderGap evaluates a closed gap again when the Pod event that ended it arrives.
func (c *activeCheck) reconsiderGap(w *history, s *moduleHistory, came *events.PodStatus, module string, now time.Time) {
	g := s.unwantedGap
	if g == nil || !came.Wants(module) {
		return
	}
	s.unwantedGap = nil
	if now.Sub(g.to) <= watchDelay && s.replacedBy(w, came, g, g.to) {
		g.unwanted = false
		c.found = append(c.found, g)
	}
}

func (c *activeCheck) module(w *history, e appliedEvent) {
	m := e.Module
	t := moduleOnBase{m.Base, m.Name}
	s := c.modules[t.base][t.module]
	if m.State == events.ModuleActivated {
		if s == nil {
			s = (&moduleHistory{active: map[string]time.Time{}})
			if c.modules[t.base] == nil {
				c.modules[t.base] = map[string]*moduleHistory{}
			}
			c.modules[t.base][t.module], c.seen[t] = s, struct{}{}
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
	c.updateGap(w, t, e, false)
}

// updateGap opens, closes and judges the gap of a track.
func (c *activeCheck) updateGap(w *history, t moduleOnBase, e appliedEvent, ended bool) {
	s, now := c.modules[t.base][t.module], e.Time
	wanted := w.wanted(t.base, t.module)
	if len(s.active) > 0 {
		if g := s.gap; g != nil && now.Equal(g.from) && !g.processEnded {
			c.overlaps = append(c.overlaps, 0) // a switch, told as two events of one moment
		} else {
			c.close(g, now)
			if g != nil && g.unwanted && !g.processEnded {
				g.to, s.unwantedGap = now, g
			}
		}
		s.gap = nil
		return
	}
	switch g := s.gap; {
	case g == nil:
		s.gap = &gap{moduleOnBase: t, from: now, processEnded: ended, noReadyPod: !w.hasReadyPod(t.module)}
		s.gap.unwanted = !wanted || s.boundTooLate(w, s.gap)
	case ended:
		g.processEnded = true
	case g.unwanted && wanted && g.processEnded:
		s.gap = &gap{moduleOnBase: t, from: now, processEnded: true}
	case g.unwanted && wanted && e.pod != nil && s.replacedBy(w, e.pod, g, now):
		g.unwanted = false
	case g.unwanted && wanted:
		delete(c.modules[t.base], t.module) // a first installation begins
	case !g.unwanted && !wanted:
		c.close(g, now)
		s.gap = &gap{moduleOnBase: t, from: now, processEnded: g.processEnded, unwanted: true, noReadyPod: g.noReadyPod}
	}
}

// close keeps a gap in which a Pod requested the module.
func (c *activeCheck) close(g *gap, now time.Time) {
	if g == nil || g.unwanted || now.Equal(g.from) {
		return
	}
	g.to = now
	c.found = append(c.found, g)
}

// boundTooLate reports whether the Pods that request the module of a deleted Pod were bound after the controller had decided, and
// none of them is its replacement.
func (s *moduleHistory) boundTooLate(w *history, g *gap) bool {
	if s.lastDeleted == nil {
		return false
	}
	deleted := w.deletedAt[s.lastDeleted.PodKey()]
	for p := range w.PodsOn(g.base) {
		if !p.Wants(g.module) {
			continue
		}
		bound := w.boundAt[p.PodKey()]
		if deleted.IsZero() || !deleted.Before(bound) || bound.Before(w.knownAt(g.from)) ||
			s.replacedBy(w, p, g, g.from) {
			return false
		}
	}
	return true
}

// replacedBy reports whether a Pod that requests the module since now replaces the Pod whose deletion began the gap. A Pod of a
// DaemonSet or a StatefulSet that was deleted while its base was unavailable is replaced when the base recovers.
func (s *moduleHistory) replacedBy(w *history, p *events.PodStatus, g *gap, now time.Time) bool {
	if s.lastDeleted == nil || now.Sub(g.from) > replacementTimeout {
		return false
	}
	if strings.HasPrefix(p.Owner, daemonSet) || strings.HasPrefix(p.Owner, statefulSet) {
		return p.Owner == s.lastDeleted.Owner && !w.outages.unobservableDuring(g.base, w.deletedAt[s.lastDeleted.PodKey()], g.from)
	}
	return g.noReadyPod && s.lastDeleted.Version(g.module) != p.Version(g.module)
}

// find returns the gaps until end: those that are violations, and the rest as excused.
func (c *activeCheck) find(w *history, end time.Time) Result {
	r := Result{Name: ActiveVersion, Compared: len(c.seen), Handovers: len(c.overlaps)}
	if len(c.overlaps) > 0 {
		r.ShortestOverlap = slices.Min(c.overlaps)
	}
	add := func(g gap, open bool) {
		f := Finding{
			Kind: NoActiveVersion, Time: g.from, Length: g.to.Sub(g.from), Base: g.base,
			Modules: []events.ModuleRef{{Name: g.module}},
			Open:    open, ProcessEnded: g.processEnded,
		}
		counted := w.outages.outsideWindows(g.base, g.from, g.to, func(o *outage) bool {
			return o.unobservable || o.id == down ||
				o.installing && !o.from.Before(g.from) && (o.module == "" || o.module == g.module)
		})
		if g.processEnded {
			f.Allowed = f.Length - counted
		}
		if g.processEnded && counted <= readyTolerance {
			r.Excused = append(r.Excused, f)
		} else {
			r.Violations = append(r.Violations, f)
		}
	}
	for _, g := range c.found {
		add(*g, false)
	}
	for _, modules := range c.modules {
		for _, s := range modules {
			if g := s.gap; g != nil && !g.unwanted {
				last := *g
				last.to = end
				add(last, true)
			}
		}
	}
	r.Violations, r.Excused = sorted(r.Violations), sorted(r.Excused)
	return r
}
