package judge

import (
	"maps"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
)

// installResponseDelay is the longest time between two effects of an install command: the removal of the earlier
// version, and the response to the command.
const installResponseDelay = 50 * time.Millisecond

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// knownAt returns the latest time at which the controller detects a mismatch, provided that there is no outage.
func (c *truthCheck) knownAt(l *mismatch, o *Options) time.Time {
	if l.vanished.IsZero() {
		return l.from
	}
	known := l.vanished.Add(o.listDelay())
	for _, module := range l.missing {
		for _, x := range c.commands[moduleOnBase{l.base, module.Name}] {
			if x.from.After(l.vanished) || x.to.Before(l.vanished) {
				continue
			}
			at := l.from
			if x.install && x.to.Sub(l.vanished) > installResponseDelay {
				at = x.to // this install did not remove the module, but its response lists the modules
			}
			known = earlier(known, at)
		}
	}
	if known.Before(l.from) {
		return l.from
	}
	return known
}

// tooLong reports whether a mismatch lasted longer than the tolerance that applies to it.
func (l *mismatch) tooLong(w *history, known time.Time, o *Options) bool {
	counted := w.outages.outsideWindows(l.base, known, l.to, isUnobservable)
	overtaken := min(l.superseded.within(known, l.to), o.scaled(api.SwitchedReady))
	return counted > switchTolerance+overtaken ||
		counted > readyTolerance && l.noVersion.within(known, l.to) > readyTolerance
}

// isHarmful reports whether the mismatch caused failed requests outside the tolerance windows of outages. If the
// controller detects a mismatch late, the mismatch of an endpoint is assumed to end together with the mismatch of its
// Pod.
func (c *truthCheck) isHarmful(w *history, l *mismatch, known time.Time) bool {
	to := l.to
	if l.service != "" && (known.After(l.from) || w.outages.unobservableAt(l.base, l.from)) {
		to = earlier(to, c.podMismatchEnd(l))
	}
	return slices.ContainsFunc(c.failedDuring(l, known, to), func(q span) bool {
		return !w.outages.unobservableAt(l.base, q.from) && !w.outages.unobservableAt(l.base, q.to)
	})
}

// podMismatchEnd returns the time at which the mismatch of the endpoint's Pod ended.
func (c *truthCheck) podMismatchEnd(l *mismatch) time.Time {
	own := readyClaim{"", l.pod, l.uid, l.base}
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

// failedDuring returns the requests for the missing modules that failed on the base within a period.
func (c *truthCheck) failedDuring(l *mismatch, from, to time.Time) (lost []span) {
	for _, module := range l.missing {
		for _, q := range c.failedRequests[moduleOnBase{l.base, module.Name}] {
			if !q.from.After(to) && !q.to.Before(from) && !to.Before(from) {
				lost = append(lost, q)
			}
		}
	}
	return lost
}

// find classifies all mismatches up to end as violations or as excused. It ignores mismatches of zero length.
func (c *truthCheck) find(w *history, end time.Time, o *Options) Result {
	r := Result{Name: Truth, Compared: c.compared, Published: slices.Sorted(maps.Keys(w.published))}
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
			continue // both events have the same time
		}
		known := c.knownAt(l, o)
		if v := c.finding(w, l, known); l.tooLong(w, known, o) || c.isHarmful(w, l, known) {
			r.Violations = append(r.Violations, v)
		} else {
			r.Excused = append(r.Excused, v)
		}
	}
	r.Violations, r.Excused = sorted(r.Violations), sorted(r.Excused)
	return r
}

func (c *truthCheck) finding(w *history, l *mismatch, known time.Time) Finding {
	f := Finding{
		Kind: PodWithoutModule, Time: l.from, Length: l.to.Sub(l.from), Base: l.base, Pod: l.pod, Service: l.service,
		Modules:        l.missing,
		Replaced:       l.noVersion.within(l.from, l.to) == 0,
		FailedRequests: len(c.failedDuring(l, l.from, l.to)),
		KnownWithin:    known.Sub(l.from),
	}
	if l.service != "" {
		f.Kind = EndpointWithoutModule
	}
	f.Allowed = f.Length - w.outages.outsideWindows(l.base, l.from, l.to, isUnobservable)
	return f
}
