package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// truthCheck compares what Kubernetes shows with what bases serve: a Pod that is Ready and stays,
// and an endpoint that is ready, must have each of its modules active, in its version.
//
// Each disagreement is reported with its length. It is a violation if it is longer than
// Options.TruthWithin, or, as long as another version serves, than Options.SwitchWithin; or if a
// request to this base was lost in it. It is excused if the base's process ended: see the package.
// Time does not count in which a component was away, or the base disconnected, and until it can
// have caught up: nobody could know, or write, what has changed.
type truthCheck struct {
	open  map[claim]*mismatch
	known map[claim]struct{} // claims that hold at present
	// compared counts how often something became Ready.
	compared   int
	mismatches []mismatch
	lost       []loss
	outages    outages
}

// claim is a Pod that says it is Ready, or an endpoint of a Service for it.
type claim struct{ service, pod, uid, base string }

type mismatch struct {
	claim
	from, to time.Time
	missing  string
	excused  bool
	// bare is how long no version at all served, since when if it lasts.
	bare      time.Duration
	bareSince time.Time
}

// serve notes whether some version of each module serves.
func (l *mismatch) serve(serves bool, now time.Time) {
	switch {
	case !serves && l.bareSince.IsZero():
		l.bareSince = now
	case serves && !l.bareSince.IsZero():
		l.bare, l.bareSince = l.bare+now.Sub(l.bareSince), time.Time{}
	}
}

// loss is a request that was lost on a base.
type loss struct {
	base     string
	from, to time.Time
}

func (c *truthCheck) note(w *world, e change) {
	if c.open == nil {
		c.open, c.known = map[claim]*mismatch{}, map[claim]struct{}{}
	}
	switch e.Kind {
	case timeline.Request:
		if e.Base != "" {
			c.lost = append(c.lost, loss{e.Base, e.Time.Add(-e.Elapsed), e.Time})
		}
	case timeline.Component:
		c.outages.note(e.Name, "", timeline.ComponentState(e.State) != timeline.ComponentRunning, e.Time)
	case timeline.Base, timeline.Module:
		if change := timeline.BaseChange(e.State); change == timeline.BaseDisconnected || change == timeline.BaseConnected {
			c.outages.note("", e.Base, change == timeline.BaseDisconnected, e.Time)
		}
		c.compare(w, e.Time, func(k claim) bool { return k.base == e.Base })
	case timeline.Pod:
		if e.pod != nil {
			c.compare(w, e.Time, func(k claim) bool { return k.uid == e.Pod.UID })
		}
	case timeline.Endpoints:
		c.compare(w, e.Time, func(k claim) bool { return k.service == e.Name })
	}
}

// compare looks at the claims that may be concerned.
func (c *truthCheck) compare(w *world, now time.Time, concerned func(claim) bool) {
	claims := w.claims(concerned)
	for k := range c.known {
		if _, ok := claims[k]; !ok && concerned(k) {
			delete(c.known, k)
			c.close(k, now)
		}
	}
	for k, p := range claims {
		if _, ok := c.known[k]; !ok {
			c.known[k] = struct{}{}
			c.compared++
		}
		b, ended := w.Bases.Get(k.base), w.ended(k.base)
		missing := missing(b, p)
		l := c.open[k]
		switch {
		case missing == "":
			c.close(k, now)
		case l == nil:
			l = &mismatch{claim: k, from: now, missing: missing, excused: ended}
			c.open[k] = l
		case ended:
			l.excused = true
		}
		if missing != "" {
			l.serve(servesAll(b, p), now)
		}
	}
}

func (c *truthCheck) close(k claim, now time.Time) {
	if l := c.open[k]; l != nil {
		l.to = now
		l.serve(true, now)
		c.mismatches = append(c.mismatches, *l)
		delete(c.open, k)
	}
}

// claims are the Pods that are Ready and the endpoints that are ready.
func (w *world) claims(concerned func(claim) bool) map[claim]*timeline.PodStatus {
	out := map[claim]*timeline.PodStatus{}
	byName := map[string]*timeline.PodStatus{}
	for p := range w.Pods.All() {
		if p.Base == "" {
			continue
		}
		byName[p.Name] = p
		if k := (claim{"", p.Name, p.UID, p.Base}); p.Serves() && concerned(k) {
			out[k] = p
		}
	}
	for service := range w.Services.All() {
		for _, e := range service.Endpoints {
			if p := byName[e.Pod]; e.Ready && p != nil {
				if k := (claim{service.Name, p.Name, p.UID, p.Base}); concerned(k) {
					out[k] = p
				}
			}
		}
	}
	return out
}

// missing names the modules of the Pod that are not active on the base.
func missing(b *timeline.BaseStatus, p *timeline.PodStatus) string {
	var out []string
	for _, m := range p.Modules {
		if !b.Active(m.Name, m.Version) {
			out = append(out, m.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}

// servesAll tells whether some version of each module of the Pod is active.
func servesAll(b *timeline.BaseStatus, p *timeline.PodStatus) bool {
	return !slices.ContainsFunc(p.Modules, func(m timeline.ModuleRef) bool { return !b.Active(m.Name, "") })
}

func (c *truthCheck) result(end time.Time, o *Options) Result {
	r := Result{Name: Truth, Compared: c.compared, Figures: map[string]float64{}}
	mismatches := slices.Clone(c.mismatches)
	for _, l := range c.open {
		last := *l
		last.to = end
		last.serve(true, end)
		mismatches = append(mismatches, last)
	}
	var longest, longestExcused time.Duration
	disagreements := 0
	for _, l := range mismatches {
		if l.to.Equal(l.from) {
			continue // told in one moment
		}
		length := l.to.Sub(l.from)
		what := "Pod " + l.pod + " is Ready"
		if l.service != "" {
			what = "the endpoint of Pod " + l.pod + " in Service " + l.service + " is ready"
		}
		v := Violation{
			Time: l.from, Length: length, Base: l.base, Pod: l.pod,
			Message: fmt.Sprintf("%s, and %s has no active %s for %v", what, l.base, l.missing, brief(length)),
		}
		if l.bare == 0 {
			v.Message += ", where another version serves"
		}
		lost := 0
		for _, q := range c.lost {
			if q.base == l.base && !q.from.After(l.to) && !q.to.Before(l.from) {
				lost++
			}
		}
		if lost > 0 {
			v.Message += fmt.Sprintf(", in which %s lost", many(lost, "request")+was(lost))
		}
		if l.excused {
			v.Message += ", since its process ended"
			r.Excused = append(r.Excused, v)
			longestExcused = max(longestExcused, length)
			continue
		}
		disagreements++
		longest = max(longest, length)
		counted := c.outages.countable(l.base, l.from, l.to)
		if counted < length {
			v.Message += fmt.Sprintf(", %v of it while something was away", brief(length-counted))
		}
		if lost > 0 && counted == length || counted > o.SwitchWithin || l.bare > o.TruthWithin && counted > o.TruthWithin {
			r.Violations = append(r.Violations, v)
		} else {
			r.Excused = append(r.Excused, v)
		}
	}
	r.Violations, r.Excused = sorted(r.Violations), sorted(r.Excused)
	r.Figures["disagreements"], r.Figures["longest"] = float64(disagreements), milliseconds(longest)
	r.Summary = many(c.compared, "time") + " something became Ready"
	if disagreements == 0 {
		r.Summary += ", always true"
	} else {
		r.Summary += fmt.Sprintf(", %s with the base, the longest %v", many(disagreements, "disagreement"), brief(longest))
	}
	if longestExcused > 0 {
		r.Summary += fmt.Sprintf("; where a process ended, up to %v", brief(longestExcused))
	}
	return r
}

func was(n int) string {
	if n == 1 {
		return " was"
	}
	return " were"
}
