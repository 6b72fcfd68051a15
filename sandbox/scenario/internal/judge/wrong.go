package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// taking is the longest time between the removal of the earlier version by an install and its response.
const taking = 50 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// knownAt returns when the controller could know of a mismatch at the latest, without outages.
func (c *truthCheck) knownAt(l *mismatch, o *Options) time.Time {
	if l.vanished.IsZero() {
		return l.from
	}
	known := l.vanished.Add(o.listed())
	for _, module := range l.modules {
		for _, x := range c.told[track{l.base, module}] {
			if x.from.After(l.vanished) || x.to.Before(l.vanished) {
				continue
			}
			at := l.from
			if x.install && x.to.Sub(l.vanished) > taking {
				at = x.to // it has not taken the module away, but its answer tells what is there
			}
			known = earlier(known, at)
		}
	}
	if known.Before(l.from) {
		return l.from
	}
	return known
}

// long reports whether a mismatch took too long.
func (l *mismatch) long(w *world, known time.Time, o *Options) bool {
	counted := w.outages.countable(l.base, known, l.to, hides)
	overtaken := min(l.overtaken.within(known, l.to), o.of(api.SwitchedReady))
	return counted > switchWithin+overtaken || counted > truthWithin && l.bare.within(known, l.to) > truthWithin
}

// harmful reports whether requests failed because of the mismatch, outside the windows of outages. If the controller had to
// detect the mismatch itself, an endpoint counts no longer than its Pod.
func (c *truthCheck) harmful(w *world, l *mismatch, known time.Time) bool {
	to := l.to
	if l.service != "" && (known.After(l.from) || w.outages.allowed(l.base, l.from)) {
		to = earlier(to, c.podUntil(l))
	}
	return slices.ContainsFunc(c.lostIn(l, known, to), func(q span) bool {
		return !w.outages.allowed(l.base, q.from) && !w.outages.allowed(l.base, q.to)
	})
}

// podUntil returns when the mismatch of the endpoint's Pod ended.
func (c *truthCheck) podUntil(l *mismatch) time.Time {
	own := claim{"", l.pod, l.uid, l.base}
	if c.open[own] != nil {
		return l.to
	}
	until := l.from
	for _, m := range c.closed[own] {
		if m.from.Before(l.to) && m.to.After(until) {
			until = m.to
		}
	}
	return until
}

// lostIn returns the requests for the missing modules that failed on the base within a time.
func (c *truthCheck) lostIn(l *mismatch, from, to time.Time) (lost []span) {
	for _, module := range l.modules {
		for _, q := range c.lost[track{l.base, module}] {
			if !q.from.After(to) && !q.to.Before(from) && !to.Before(from) {
				lost = append(lost, q)
			}
		}
	}
	return lost
}

// find returns the mismatches until end. Those that are not violations are excused.
func (c *truthCheck) find(w *world, end time.Time, o *Options) Result {
	r := Result{Name: Truth, Compared: c.compared}
	mismatches := slices.Clone(c.mismatches)
	for _, l := range c.open {
		last := *l
		last.to = end
		last.end(end)
		mismatches = append(mismatches, last)
	}
	for i := range mismatches {
		l := &mismatches[i]
		if l.to.Equal(l.from) {
			continue // told in one moment
		}
		known := c.knownAt(l, o)
		if v := c.violation(w, l, known); l.long(w, known, o) || c.harmful(w, l, known) {
			r.Violations = append(r.Violations, v)
		} else {
			r.Excused = append(r.Excused, v)
		}
	}
	r.Violations, r.Excused = sorted(r.Violations), sorted(r.Excused)
	return r
}

func (c *truthCheck) summarize(r *Result, w *world) {
	mismatched := slices.Concat(r.Violations, r.Doubtful, r.Excused)
	r.Summary = plain.Count(c.compared, "time") + " something became Ready"
	if len(mismatched) == 0 {
		r.Summary += ", always with its module"
	} else {
		r.Summary += fmt.Sprintf("; Ready without its module %s, the longest %v (allowed: %v once the controller can know, %v beside another version)",
			plain.Count(len(mismatched), "time"), brief(longest(mismatched)), brief(truthWithin), brief(switchWithin))
	}
	if services := slices.Sorted(maps.Keys(w.published)); len(services) > 0 {
		r.Summary += "; endpoints of Pods that are not Ready are ignored, because publishNotReadyAddresses is set in Service " + strings.Join(services, ", ")
	}
}

func (c *truthCheck) violation(w *world, l *mismatch, known time.Time) Violation {
	length := l.to.Sub(l.from)
	what := "Pod " + l.pod + " is Ready"
	if l.service != "" {
		what = "the endpoint of Pod " + l.pod + " in Service " + l.service + " is ready"
	}
	v := Violation{
		Time: l.from, Length: length, Base: l.base, Pod: l.pod,
		Message: fmt.Sprintf("%s, and %s has no active %s for %v", what, l.base, l.missing, brief(length)),
	}
	if l.bare.within(l.from, l.to) == 0 {
		v.Message += ", where another version serves"
	}
	if lost := len(c.lostIn(l, l.from, l.to)); lost > 0 {
		v.Message += fmt.Sprintf(", in which %s failed", plain.Count(lost, "request"))
	}
	if late := known.Sub(l.from); late > 0 {
		v.Message += fmt.Sprintf(" (the controller could know within %v)", brief(late))
	}
	if counted := w.outages.countable(l.base, l.from, l.to, hides); counted < length {
		v.Message += fmt.Sprintf(", %v of it during an outage", brief(length-counted))
	}
	return v
}
