package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// activeCheck looks for times in which a base that served a module has no active version of it.
//
// Such a gap begins when the last active version goes. It is a violation
//   - if, at any time in it, a Pod on the base wants the module: one that exists, is
//     not being deleted and has not ended. The gap counts as a whole then. One that got its Node
//     after another was deleted, when the controller that emptied the base could not know it yet, does not
//     want it: within Options.DecidedWithin of the gap, or since its view of the API was disturbed;
//   - and also if nobody wants the module at first and the Pod that comes is the
//     replacement of the one that was deleted, within Options.ReplacedWithin: it has the
//     same DaemonSet or StatefulSet as owner; or it has another version, and the module
//     had no Ready Pod anywhere when the base lost it (delete first, install after).
//
// It is none if nobody wants the module: the last Pod was deleted or scaled away. What comes there
// later is a first installation.
//
// It is excused if the base's process ended: what does not run has nothing. Of a base that is back,
// while a Pod bound to its process wants the module, the excuse ends within Options.listed of its
// first word and Options.TruthWithin, 18.5 s by the defaults, unless an installation has begun by
// then, or a fault has struck one; and Options.InstallWithin after each, 5 min, within which a
// command has an answer or is given up. No other fault takes a module away by itself: what an error
// or a delay makes of a rollout counts.
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
	last   *timeline.PodStatus  // the Pod that was deleted last
}

type gap struct {
	track
	from, to time.Time
	excused  bool // the base's process has ended
	// since is when the base was back, or the last installation began, and within is how long the
	// next may be in coming; zero = the base is not back.
	since  time.Time
	within time.Duration
	bound  bool // a Pod that is bound to the base's process wants the module
	idle   bool // none has begun within the time
	free   bool // nobody has wanted the module so far
	alone  bool // it had no Ready Pod anywhere at the beginning
}

func (c *activeCheck) note(w *world, e change, o *Options) {
	if c.tracks == nil {
		c.tracks, c.ever = map[string]map[string]*served{}, map[track]struct{}{}
	}
	c.overdue(w, cmp.Or(e.Base, baseOf(e.pod)), e.Time)
	defer c.bind(w, e, o)
	switch e.Kind {
	case timeline.Fault:
		if timeline.FaultChange(e.State) == timeline.FaultFired {
			c.began(track{base: e.Base}, e.Time, o)
		}
	case timeline.Command:
		if e.Name == timeline.CommandInstall {
			c.began(track{e.Base, e.Module}, e.Time, o)
		}
	case timeline.Base:
		switch timeline.BaseChange(e.State) {
		case timeline.BaseReady, timeline.BaseConnected:
			c.back(e, o)
			return
		case timeline.BaseDown, timeline.BaseUp:
		default:
			return
		}
		for module, s := range c.tracks[e.Base] {
			clear(s.active)
			c.look(w, track{e.Base, module}, e, o, true)
		}
	case timeline.Module:
		c.module(w, e, o)
	case timeline.Pod:
		if e.pod == nil || e.pod.Base == "" {
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
			c.look(w, t, e, o, false)
			c.lookBack(w, s, e.pod, m.Name, e.Time, o)
		}
	}
}

// back notes that a base whose process had ended speaks again.
func (c *activeCheck) back(e change, o *Options) {
	for _, s := range c.tracks[e.Base] {
		if g := s.gap; g != nil && g.excused && g.since.IsZero() {
			g.since, g.within = e.Time, o.TruthWithin // the outage lasts until the next list
		}
	}
}

// bind notes whether a Pod of the base's process wants a module that the base is without.
func (c *activeCheck) bind(w *world, e change, o *Options) {
	if e.Kind != timeline.Pod && e.Kind != timeline.Base {
		return
	}
	base := cmp.Or(e.Base, baseOf(e.pod))
	for module, s := range c.tracks[base] {
		g := s.gap
		if g == nil || !g.excused {
			continue
		}
		is := w.wantedNow(base, module)
		if is && !g.bound && !g.since.IsZero() && !g.idle {
			g.since, g.within = e.Time, o.listed()+o.TruthWithin
		}
		g.bound = is
	}
}

func baseOf(p *timeline.PodStatus) string {
	if p == nil {
		return ""
	}
	return p.Base
}

// began notes that an installation has begun, or, without a module, that a fault has struck.
func (c *activeCheck) began(on track, now time.Time, o *Options) {
	for module, s := range c.tracks[on.base] {
		if g := s.gap; (on.module == "" || module == on.module) && g != nil && !g.since.IsZero() {
			g.since, g.within = now, o.InstallWithin
		}
	}
}

// overdue notes where on a base no installation has begun in time.
func (c *activeCheck) overdue(w *world, base string, now time.Time) {
	for _, s := range c.tracks[base] {
		if g := s.gap; g != nil && g.excused && g.bound && !g.since.IsZero() && w.outages.countable(base, g.since, now) > g.within {
			g.idle = true
		}
	}
}

// lookBack judges a gap again that was over before the watch told of the Pod that ended it.
func (c *activeCheck) lookBack(w *world, s *served, came *timeline.PodStatus, module string, now time.Time, o *Options) {
	g := s.ended
	if g == nil || !came.Wants(module) {
		return
	}
	s.ended = nil
	if now.Sub(g.to) <= o.ToldWithin && s.replacedBy(w, came, g, o, g.to) {
		g.free = false
		c.found = append(c.found, g)
	}
}

func (c *activeCheck) module(w *world, e change, o *Options) {
	t := track{e.Base, e.Module}
	s := c.tracks[t.base][t.module]
	if timeline.ModuleState(e.State) == timeline.ModuleResolved {
		c.began(t, e.Time, o)
	}
	if timeline.ModuleState(e.State) == timeline.ModuleActivated {
		if s == nil {
			if s = (&served{active: map[string]time.Time{}}); c.tracks[t.base] == nil {
				c.tracks[t.base] = map[string]*served{}
			}
			c.tracks[t.base][t.module], c.ever[t] = s, struct{}{}
		}
		if _, ok := s.active[e.Version]; !ok {
			s.active[e.Version] = e.Time
		}
	} else {
		if s == nil {
			return
		}
		began, was := s.active[e.Version]
		delete(s.active, e.Version)
		for _, other := range s.active {
			if was && other.After(began) {
				c.overlaps = append(c.overlaps, e.Time.Sub(other))
			}
		}
	}
	c.look(w, t, e, o, false)
}

// look opens, closes and judges the gap of a track.
func (c *activeCheck) look(w *world, t track, e change, o *Options, ended bool) {
	s, now := c.tracks[t.base][t.module], e.Time
	wanted := w.wanted(t.base, t.module)
	if len(s.active) > 0 {
		if g := s.gap; g != nil && now.Equal(g.from) && !g.excused {
			c.overlaps = append(c.overlaps, 0) // a switch, told as two events of one moment
		} else {
			c.close(g, now)
			if g != nil && g.free && !g.excused {
				g.to, s.ended = now, g
			}
		}
		s.gap = nil
		return
	}
	switch g := s.gap; {
	case g == nil:
		s.gap = &gap{track: t, from: now, excused: ended, alone: !w.serves(t.module)}
		s.gap.free = !wanted || s.justBound(w, s.gap, o)
	case ended:
		g.excused, g.since = true, time.Time{}
	case g.free && wanted && e.pod != nil && s.replacedBy(w, e.pod, g, o, now):
		g.free = false
	case g.free && wanted:
		delete(c.tracks[t.base], t.module) // a first installation begins
	case !g.free && !wanted:
		c.close(g, now)
		s.gap = &gap{track: t, from: now, excused: g.excused, free: true, alone: g.alone}
	}
}

// close keeps a gap in which somebody wanted the module.
func (c *activeCheck) close(g *gap, now time.Time) {
	if g == nil || g.free || now.Equal(g.from) {
		return
	}
	g.to = now
	c.found = append(c.found, g)
}

// justBound tells whether those who want the module of a deleted Pod have their Node for so short a
// time that the controller had decided before, and none of them is the replacement of that one.
func (s *served) justBound(w *world, g *gap, o *Options) bool {
	if s.last == nil {
		return false
	}
	deleted := w.ending[s.last.PodKey()]
	for p := range w.PodsOn(g.base) {
		if !p.Wants(g.module) {
			continue
		}
		bound := w.bound[p.PodKey()]
		if deleted.IsZero() || !deleted.Before(bound) || bound.Before(w.knownAt(g.from, o)) || s.replacedBy(w, p, g, o, g.from) {
			return false
		}
	}
	return true
}

// replacedBy tells whether a Pod that wants the module since now is the replacement of the one
// whose deletion began the gap. What a DaemonSet or a StatefulSet deleted while its base was away goes when
// that is back, and they may be later.
func (s *served) replacedBy(w *world, p *timeline.PodStatus, g *gap, o *Options, now time.Time) bool {
	if s.last == nil || now.Sub(g.from) > o.ReplacedWithin {
		return false
	}
	if strings.HasPrefix(p.Owner, daemonSet) || strings.HasPrefix(p.Owner, statefulSet) {
		return p.Owner == s.last.Owner && !w.outages.away(g.base, w.ending[s.last.PodKey()], g.from)
	}
	return g.alone && s.last.Version(g.module) != p.Version(g.module)
}

// find returns the gaps until end: those that are violations, and the rest as excused.
func (c *activeCheck) find(w *world, end time.Time, o *Options) Result {
	r := Result{Name: ActiveVersion, Compared: len(c.ever), Figures: map[string]float64{}}
	add := func(g gap, open bool) {
		v := Violation{
			Time: g.from, Length: g.to.Sub(g.from), Base: g.base,
			Message: fmt.Sprintf("%s has no active version of %s for %v", g.base, g.module, brief(g.to.Sub(g.from))),
		}
		if open {
			v.Message += ", until the end"
		}
		if g.excused {
			v.Message += ", since its process ended"
		}
		if g.idle {
			v.Message += fmt.Sprintf(", and no installation began within %v of its return", brief(o.listed()+o.TruthWithin))
		}
		if g.excused && !g.idle {
			r.Excused = append(r.Excused, v)
		} else {
			r.Violations = append(r.Violations, v)
		}
	}
	for _, g := range c.found {
		add(*g, false)
	}
	for base, modules := range c.tracks {
		c.overdue(w, base, end)
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

func (c *activeCheck) summarize(r *Result) {
	r.Summary = many(r.Compared, "module") + " on bases"
	r.Figures["handovers"] = float64(len(c.overlaps))
	if len(c.overlaps) > 0 {
		shortest := slices.Min(c.overlaps)
		r.Figures["shortestOverlap"] = milliseconds(shortest)
		r.Summary += fmt.Sprintf(", %s, shortest overlap %v", many(len(c.overlaps), "handover"), brief(shortest))
	}
	r.Figures["longestGap"] = milliseconds(longest(r.Violations))
	if len(r.Violations) == 0 {
		r.Summary += ", no gap"
	} else {
		r.Summary += fmt.Sprintf(", %s, the longest %v", many(len(r.Violations), "gap"), brief(longest(r.Violations)))
	}
	if len(r.Excused) > 0 {
		r.Summary += fmt.Sprintf("; %d more where a process ended, the longest %v", len(r.Excused), brief(longest(r.Excused)))
	}
}
