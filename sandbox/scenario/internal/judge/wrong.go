package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// taking is how long before its answer an install takes the version before away, at most.
const taking = 50 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// knownAt is when the controller could know of a mismatch at the latest.
func (c *truthCheck) knownAt(l *mismatch, o *Options) time.Time {
	known := l.from
	switch {
	case l.ended:
		known = l.known
	case !l.vanished.IsZero():
		known = l.vanished.Add(o.listed())
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
	}
	if known.Before(l.from) {
		return l.from
	}
	return known
}

// long tells whether a mismatch that ended then took too long, with the outages out of account.
func (c *truthCheck) long(w *world, l *mismatch, known, to time.Time, o *Options) bool {
	counted := w.outages.countable(l.base, known, to)
	overtaken := min(l.overtaken.within(known, to), o.of(overtakenFor))
	return counted > o.SwitchWithin+overtaken || counted > o.TruthWithin && l.bare.within(known, to) > o.TruthWithin
}

// harmful tells whether requests were lost by it, and no outage. Where a controller had to find out by itself, an
// endpoint counts no longer than its Pod.
func (c *truthCheck) harmful(w *world, l *mismatch, known, to time.Time) bool {
	if l.service != "" && known.After(l.from) {
		to = earlier(to, c.podUntil(l))
	}
	return c.lostIn(l, known, to) > 0 && w.outages.countable(l.base, known, to) == to.Sub(known)
}

// podUntil is until when the Pod of an endpoint said the same as that.
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

// lostIn counts the requests for what is missing that were lost on the base within a time.
func (c *truthCheck) lostIn(l *mismatch, from, to time.Time) int {
	n := 0
	for _, module := range l.modules {
		for _, q := range c.lost[track{l.base, module}] {
			if !q.from.After(to) && !q.to.Before(from) && !to.Before(from) {
				n++
			}
		}
	}
	return n
}

func (c *truthCheck) result(w *world, end time.Time, o *Options) Result {
	r := Result{Name: Truth, Compared: c.compared, Figures: map[string]float64{}}
	mismatches := slices.Clone(c.mismatches)
	for _, l := range c.open {
		last := *l
		last.to = end
		last.end(end)
		mismatches = append(mismatches, last)
	}
	var longest, longestEnded time.Duration
	mismatched := 0
	for i := range mismatches {
		l := &mismatches[i]
		if l.to.Equal(l.from) {
			continue // told in one moment
		}
		known := c.knownAt(l, o)
		v := c.violation(w, l, known)
		if l.ended {
			longestEnded = max(longestEnded, v.Length)
		} else {
			mismatched++
			longest = max(longest, v.Length)
		}
		switch earliest := l.to.Add(-l.late); {
		case c.long(w, l, known, earliest, o) || c.harmful(w, l, known, earliest):
			r.Violations = append(r.Violations, v)
		case c.long(w, l, known, l.to, o) || l.late > o.TruthWithin && c.harmful(w, l, known, l.to):
			v.Message += fmt.Sprintf("; it may have ended %v earlier, for the watch was late", brief(l.late))
			r.Doubtful = append(r.Doubtful, v)
		default:
			r.Excused = append(r.Excused, v)
		}
	}
	r.Violations, r.Doubtful, r.Excused = sorted(r.Violations), sorted(r.Doubtful), sorted(r.Excused)
	r.Figures["disagreements"], r.Figures["longest"] = float64(mismatched), milliseconds(longest)
	r.Summary = many(c.compared, "time") + " something became Ready"
	if mismatched == 0 {
		r.Summary += ", always with its module"
	} else {
		r.Summary += fmt.Sprintf("; Ready without its module %s, the longest %v (allowed: %v once the controller can know, %v beside another version)",
			many(mismatched, "time"), brief(longest), brief(o.TruthWithin), brief(o.SwitchWithin))
	}
	if longestEnded > 0 {
		r.Summary += fmt.Sprintf("; where a process ended, up to %v (allowed: %v, or %v once it is back)",
			brief(longestEnded), brief(o.silent()+o.TruthWithin), brief(o.listed()+o.TruthWithin))
	}
	if services := slices.Sorted(maps.Keys(w.published)); len(services) > 0 {
		r.Summary += "; endpoints of Pods that are not Ready are ignored, because publishNotReadyAddresses is set in Service " + strings.Join(services, ", ")
	}
	return r
}

// violation tells of a mismatch.
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
	if lost := c.lostIn(l, l.from, l.to); lost > 0 {
		v.Message += fmt.Sprintf(", in which %s lost", many(lost, "request")+was(lost))
	}
	if l.ended {
		v.Message += ", since its process ended"
	}
	if late := known.Sub(l.from); late > 0 {
		v.Message += fmt.Sprintf(" (the controller could know within %v)", brief(late))
	}
	if counted := w.outages.countable(l.base, l.from, l.to); counted < length {
		v.Message += fmt.Sprintf(", %v of it while something was away", brief(length-counted))
	}
	return v
}

func was(n int) string {
	if n == 1 {
		return " was"
	}
	return " were"
}
