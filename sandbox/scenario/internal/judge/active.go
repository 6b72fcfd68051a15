package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// activeCheck finds gaps. A gap is a period in which a base has no active version of a module that was active there
// before.
//
// A gap starts when the last active version is deactivated. The gap is a violation in two cases:
//   - A Pod on the base requests the module at any time during the gap. The Pod exists, is not being deleted and has
//     not ended. In this case the whole gap is a violation. A Pod that was bound after the deletion of another Pod is
//     ignored if the controller could not know of the new Pod when it uninstalled the module: the new Pod was bound
//     within decisionDelay of the gap, or after a fault of the API connection began.
//   - No Pod requests the module at first, but a replacement of the deleted Pod appears within replacementTimeout. A
//     replacement has the same DaemonSet or StatefulSet as owner. A Pod with another version is also a replacement if
//     the module had no Ready Pod on any base when the gap started, because then the workload deletes Pods before it
//     creates new ones.
//
// A gap is not a violation if no Pod requests the module, because the last Pod was deleted or the workload was scaled
// down. If the module is installed later, this is treated as a first installation.
//
// If the process of the base ended, the check tolerates gaps within the windows of outages plus readyTolerance: until
// the next module list after the restart, and during installations. The module is not treated as requested until a
// Pod that is bound to the new process requests it. Other faults do not remove modules, so their effects on a rollout
// are not tolerated.
type activeCheck struct {
	modules map[string]map[string]*moduleHistory // module histories by base and module
	seen    map[moduleOnBase]struct{}            // modules that have been active on a base
	found   []*gap
	// overlaps lists, for each handover, how long the old and the new version were both active.
	overlaps []time.Duration
}

type moduleOnBase struct{ base, module string }

// moduleHistory describes all versions of one module on one base. It exists only if the module has been active on the
// base.
type moduleHistory struct {
	active      map[string]time.Time // activation times of the active versions, by version
	gap         *gap                 // current gap; nil while a version is active
	unwantedGap *gap                 // last closed gap, if no Pod requested the module during the gap
	lastDeleted *events.PodStatus    // last deleted Pod that requested the module
}

type gap struct {
	moduleOnBase
	from, to     time.Time
	processEnded bool // the process of the base ended during the gap
	unwanted     bool // no Pod has requested the module since the start of the gap
	noReadyPod   bool // the module had no Ready Pod on any base at the start of the gap
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

// reconsiderGap evaluates unwantedGap again after an event showed that a Pod requests the module. Such an event may
// arrive up to watchDelay after the end of the gap.
func (c *activeCheck) reconsiderGap(w *history, s *moduleHistory, p *events.PodStatus, module string,
	now time.Time) {
	g := s.unwantedGap
	if g == nil || !p.Requires(module) {
		return
	}
	s.unwantedGap = nil
	if now.Sub(g.to) <= watchDelay && s.replacedBy(w, p, g, g.to) {
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
			s = &moduleHistory{active: map[string]time.Time{}}
			for p := range w.PodsOn(t.base) {
				if p.Deleting && p.Version(t.module) != "" { // deleted before the module was active
					s.lastDeleted = p
				}
			}
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

// updateGap opens, closes and classifies the gap of a module on a base.
func (c *activeCheck) updateGap(w *history, t moduleOnBase, e appliedEvent, ended bool) {
	s, now := c.modules[t.base][t.module], e.Time
	wanted := w.wanted(t.base, t.module)
	if len(s.active) > 0 {
		if g := s.gap; g != nil && now.Equal(g.from) && !g.processEnded {
			c.overlaps = append(c.overlaps, 0) // the base reports a switch as two events with the same time
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

// close ends the current gap. It keeps the gap as a finding if a Pod requested the module during the gap, and the gap
// is longer than 0.
func (c *activeCheck) close(g *gap, now time.Time) {
	if g == nil || g.unwanted || now.Equal(g.from) {
		return
	}
	g.to = now
	c.found = append(c.found, g)
}

// boundTooLate considers the Pods that request the module after another Pod of the module was deleted. It reports
// whether all of them were bound after the controller had decided to uninstall the module, and none of them replaces
// the deleted Pod.
func (s *moduleHistory) boundTooLate(w *history, g *gap) bool {
	if s.lastDeleted == nil {
		return false
	}
	deleted := w.deletedAt[s.lastDeleted.PodKey()]
	for p := range w.PodsOn(g.base) {
		if !p.Requires(g.module) {
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

// replacedBy reports whether the Pod p, which requests the module from now on, replaces the Pod whose deletion
// started the gap. A Pod of a DaemonSet or StatefulSet is not a replacement if the base was unavailable when the
// earlier Pod was deleted.
func (s *moduleHistory) replacedBy(w *history, p *events.PodStatus, g *gap, now time.Time) bool {
	if s.lastDeleted == nil || now.Sub(g.from) > replacementTimeout {
		return false
	}
	if strings.HasPrefix(p.Owner, daemonSet) || strings.HasPrefix(p.Owner, statefulSet) {
		return p.Owner == s.lastDeleted.Owner &&
			!w.outages.unobservableDuring(g.base, w.deletedAt[s.lastDeleted.PodKey()], g.from)
	}
	return g.noReadyPod && s.lastDeleted.Version(g.module) != p.Version(g.module)
}

// find returns the gaps until end in which a Pod requested the module, as violations or as excused findings.
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
