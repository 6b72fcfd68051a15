package judge

import (
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// activeCheck looks for times in which a base that served a module has no active version of it.
//
// Such a gap begins when the last active version goes. It is a violation
//   - if, at any time in it, a Pod on the base wants the module: one that exists, is
//     not being deleted and has not ended. The gap counts as a whole then;
//   - and also if nobody wants the module at first and the Pod that comes is the
//     replacement of the one that was deleted, within Options.ReplacedWithin: it has the
//     same DaemonSet or StatefulSet as owner; or it has another version, and the module
//     had no Ready Pod anywhere when the base lost it (delete first, install after).
//
// It is none if nobody wants the module: the last Pod was deleted or scaled away. What comes there
// later is a first installation. It is excused if the base's process ended; until the module is
// active again, or nobody wants it any more. No other fault takes a module away by itself: what an
// error or a delay makes of a rollout counts.
type activeCheck struct {
	tracks map[track]*served
	ever   map[track]struct{} // that have been looked at
	found  []gap
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
	free     bool // nobody has wanted the module so far
	alone    bool // it had no Ready Pod anywhere at the beginning
}

func (c *activeCheck) note(w *world, e change, o *Options) {
	if c.tracks == nil {
		c.tracks, c.ever = map[track]*served{}, map[track]struct{}{}
	}
	switch e.Kind {
	case timeline.Base:
		if change := timeline.BaseChange(e.State); change != timeline.BaseDown && change != timeline.BaseUp {
			return
		}
		for t, s := range c.tracks {
			if t.base == e.Base {
				clear(s.active)
				c.look(w, t, e.Time, o, true, nil)
			}
		}
	case timeline.Module:
		c.module(w, e, o)
	case timeline.Pod:
		if e.pod == nil || e.pod.Base == "" {
			return
		}
		for _, m := range e.pod.Modules {
			t := track{e.pod.Base, m.Name}
			s := c.tracks[t]
			if s == nil {
				continue
			}
			if e.stayed && (e.pod.Deleting || e.pod.Gone) {
				s.last = e.pod
			}
			c.look(w, t, e.Time, o, false, e.pod)
			c.lookBack(s, e.pod, m.Name, e.Time, o)
		}
	}
}

// lookBack judges a gap again that was over before the watch told of the Pod that ended it.
func (c *activeCheck) lookBack(s *served, came *timeline.PodStatus, module string, now time.Time, o *Options) {
	g := s.ended
	if g == nil || !came.Wants(module) {
		return
	}
	s.ended = nil
	if now.Sub(g.to) <= o.Window && s.replacedBy(came, g, o, g.to) {
		g.free = false
		c.found = append(c.found, *g)
	}
}

func (c *activeCheck) module(w *world, e change, o *Options) {
	t := track{e.Base, e.Module}
	s := c.tracks[t]
	if timeline.ModuleState(e.State) == timeline.ModuleActivated {
		if s == nil {
			s = &served{active: map[string]time.Time{}}
			c.tracks[t], c.ever[t] = s, struct{}{}
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
	c.look(w, t, e.Time, o, false, nil)
}

// look opens, closes and judges the gap of a track. came is the Pod that has changed, if one has.
func (c *activeCheck) look(w *world, t track, now time.Time, o *Options, ended bool, came *timeline.PodStatus) {
	s := c.tracks[t]
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
		s.gap = &gap{track: t, from: now, excused: ended, free: !wanted, alone: !w.serves(t.module)}
	case ended:
		g.excused = true
	case g.free && wanted && came != nil && s.replacedBy(came, g, o, now):
		g.free = false
	case g.free && wanted:
		delete(c.tracks, t) // a first installation begins
	case !g.free && !wanted:
		c.close(g, now)
		s.gap = &gap{track: t, from: now, excused: g.excused, free: true, alone: g.alone}
	}
}

// close keeps a gap in which somebody wanted the module.
func (c *activeCheck) close(g *gap, now time.Time) {
	if g == nil || g.free {
		return
	}
	g.to = now
	c.found = append(c.found, *g)
}

// replacedBy tells whether a Pod that wants the module since now is the replacement of the one
// whose deletion began the gap.
func (s *served) replacedBy(p *timeline.PodStatus, g *gap, o *Options, now time.Time) bool {
	if s.last == nil || now.Sub(g.from) > o.ReplacedWithin {
		return false
	}
	if strings.HasPrefix(p.Owner, daemonSet) || strings.HasPrefix(p.Owner, statefulSet) {
		return p.Owner == s.last.Owner
	}
	return g.alone && s.last.Version(g.module) != p.Version(g.module)
}

func (c *activeCheck) result(end time.Time) Result {
	r := Result{Name: ActiveVersion, Compared: len(c.ever), Figures: map[string]float64{}}
	var longest, longestExcused time.Duration
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
			r.Excused = append(r.Excused, v)
			longestExcused = max(longestExcused, v.Length)
			return
		}
		r.Violations = append(r.Violations, v)
		longest = max(longest, v.Length)
	}
	for _, g := range c.found {
		add(g, false)
	}
	for _, s := range c.tracks {
		if g := s.gap; g != nil && !g.free {
			last := *g
			last.to = end
			add(last, true)
		}
	}
	r.Violations, r.Excused = sorted(r.Violations), sorted(r.Excused)
	r.Summary = many(r.Compared, "module") + " on bases"
	r.Figures["handovers"] = float64(len(c.overlaps))
	if len(c.overlaps) > 0 {
		shortest := c.overlaps[0]
		for _, o := range c.overlaps {
			shortest = min(shortest, o)
		}
		r.Figures["shortestOverlap"] = milliseconds(shortest)
		r.Summary += fmt.Sprintf(", %s, shortest overlap %v", many(len(c.overlaps), "handover"), brief(shortest))
	}
	r.Figures["longestGap"] = milliseconds(longest)
	if len(r.Violations) == 0 {
		r.Summary += ", no gap"
	} else {
		r.Summary += fmt.Sprintf(", %s, the longest %v", many(len(r.Violations), "gap"), brief(longest))
	}
	if len(r.Excused) > 0 {
		r.Summary += fmt.Sprintf("; %d more where a process ended, the longest %v", len(r.Excused), brief(longestExcused))
	}
	return r
}
