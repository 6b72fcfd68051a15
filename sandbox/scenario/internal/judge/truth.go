package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// truthCheck compares what Kubernetes shows with what bases serve: a Pod that is Ready and stays,
// and an endpoint that is ready, must have each of its modules active, in its version.
//
// A mismatch counts from the moment at which the controller can know of it:
//   - a command that uninstalled the module: immediately, by its answer;
//   - a module that disappeared without a command: within Options.listed, by the next list, or by the answer to an
//     install of another version that is under way.
//
// The time in windows of outages does not count (see outages.countable). It is a violation if the rest is longer than
// truthWithin; or, while another version serves, than switchWithin, and api.SwitchedReady more if no Pod
// that stays wants that version: a release has superseded it, and the next one is being installed. It is also a violation
// if in the rest a request for the missing module failed on this base. A timeout is no such failure, because a base
// without the module answers.
//
// An endpoint that turns ready while its Pod is Ready without the module counts from the same moment as the Pod: Kubernetes
// derives endpoints from Pods, at its own pace.
type truthCheck struct {
	open    map[readyClaim]*mismatch
	holding map[string]map[readyClaim]struct{} // claims that hold at present, by base
	// compared counts how often something became Ready.
	compared       int
	mismatches     []mismatch
	closed         map[readyClaim][]span          // mismatches of a claim
	failedRequests map[moduleOnBase][]span        // requests
	commands       map[moduleOnBase][]commandSpan // commands that may have taken a module away
}

// readyClaim is a Pod that is Ready, or an endpoint of a Service for it that is ready.
type readyClaim struct{ service, pod, uid, base string }

type mismatch struct {
	readyClaim
	from, to time.Time
	vanished time.Time // when modules disappeared while the process ran; zero if they did not
	missing  []events.ModuleRef
	// noVersion is when no version at all served, overtaken when one did that only Pods had wanted which do
	// not stay.
	noVersion, superseded spans
}

// spans are the times in which a condition held.
type spans struct {
	list  []span
	since time.Time // of the last one, while it lasts
}

type span struct{ from, to time.Time }

// set records whether the condition holds from now on.
func (s *spans) set(is bool, now time.Time) {
	switch {
	case is && s.since.IsZero():
		s.since = now
	case !is && !s.since.IsZero():
		s.list, s.since = append(slices.Clip(s.list), span{s.since, now}), time.Time{}
	}
}

// within returns how long the condition held within a time.
func (s *spans) within(from, to time.Time) time.Duration {
	var sum time.Duration
	for _, s := range s.list {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		sum += max(0, s.to.Sub(s.from))
	}
	return sum
}

// end closes all spans.
func (l *mismatch) end(now time.Time) {
	l.noVersion.set(false, now)
	l.superseded.set(false, now)
}

// requestTimedOut is the result of a request without a response. A base without the module responds.
const requestTimedOut = events.RequestTimeout

type commandSpan struct {
	install  bool
	from, to time.Time
}

func (c *truthCheck) observe(w *history, e appliedEvent) {
	if c.open == nil {
		c.open, c.holding, c.closed = map[readyClaim]*mismatch{}, map[string]map[readyClaim]struct{}{}, map[readyClaim][]span{}
		c.failedRequests, c.commands = map[moduleOnBase][]span{}, map[moduleOnBase][]commandSpan{}
	}
	switch {
	case e.Request != nil:
		if r := e.Request; r.Base != "" && r.Result != requestTimedOut {
			on := moduleOnBase{r.Base, r.Module.Name}
			c.failedRequests[on] = append(c.failedRequests[on], span{e.Time.Add(-r.Elapsed), e.Time})
		}
	case e.Command != nil:
		if x := e.Command; x.Module.Name != "" {
			on := moduleOnBase{x.Base, x.Module.Name}
			c.commands[on] = append(c.commands[on], commandSpan{x.Name == events.CommandInstall, e.Time.Add(-x.Elapsed), e.Time})
		}
	case e.Base != nil, e.Module != nil:
		c.compare(w, e, e.BaseName(), func(readyClaim) bool { return true })
	case e.Pod != nil:
		if e.pod.Base != "" {
			c.compare(w, e, e.pod.Base, func(k readyClaim) bool { return k.uid == e.Pod.UID || c.open[k] != nil })
		}
	case e.Endpoints != nil:
		for base := range e.bases {
			c.compare(w, e, base, func(k readyClaim) bool { return k.service == e.Endpoints.Service })
		}
	}
}

// compare checks the claims about a base for which concerned is true.
func (c *truthCheck) compare(w *history, e appliedEvent, base string, concerned func(readyClaim) bool) {
	now := e.Time
	claims, known := w.readyClaims(base, concerned), c.holding[base]
	for k := range known {
		if _, ok := claims[k]; !ok && concerned(k) {
			delete(known, k)
			c.close(k, e.Time)
		}
	}
	for k, p := range claims {
		if _, held := known[k]; !held {
			if known == nil {
				known = map[readyClaim]struct{}{}
				c.holding[base] = known
			}
			known[k] = struct{}{}
			c.compared++
		}
		b, ended := w.Bases.Get(k.base), w.processEnded(k.base)
		missing := missing(b, p)
		if len(missing) == 0 {
			c.close(k, now)
			continue
		}
		bare := !servesAll(b, p)
		l, own := c.open[k], c.open[readyClaim{"", k.pod, k.uid, k.base}]
		// what served in its place has gone: that has a cause of its own
		if l != nil && bare && l.noVersion.since.IsZero() && !ended {
			c.close(k, now)
			l, own = nil, nil
		}
		if l == nil {
			l = &mismatch{readyClaim: k, from: now, missing: missing}
			if own != nil {
				l.vanished = own.vanished
			} else if !ended && e.Module != nil {
				l.vanished = now
			}
			c.open[k] = l
		}
		l.noVersion.set(bare, now)
		l.superseded.set(w.superseded(b, p), now)
	}
}

func (c *truthCheck) close(k readyClaim, now time.Time) {
	if l := c.open[k]; l != nil {
		l.to = now
		l.end(now)
		c.mismatches = append(c.mismatches, *l)
		c.closed[k] = append(c.closed[k], span{l.from, now})
		delete(c.open, k)
	}
}

// readyClaims returns the Ready Pods on a base, and the ready endpoints there.
func (w *history) readyClaims(base string, concerned func(readyClaim) bool) map[readyClaim]*events.PodStatus {
	out := map[readyClaim]*events.PodStatus{}
	for p := range w.PodsOn(base) {
		if k := (readyClaim{"", p.Name, p.UID, base}); p.Serves() && concerned(k) {
			out[k] = p
		}
		for service, ready := range w.ready {
			if k := (readyClaim{service, p.Name, p.UID, base}); ready[p.Name] && concerned(k) {
				out[k] = p
			}
		}
	}
	return out
}

// missing returns the modules of the Pod that are not active on the base, by name.
func missing(b *events.BaseStatus, p *events.PodStatus) (out []events.ModuleRef) {
	for _, m := range p.Modules {
		if !b.Active(m.Name, m.Version) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b events.ModuleRef) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// superseded reports whether each inactive module of the Pod has another active version that Pods on the base have requested,
// and that no remaining Pod requests.
func (w *history) superseded(b *events.BaseStatus, p *events.PodStatus) bool {
	by := func(name string) bool {
		wanted, stays := false, false
		for _, key := range w.podKeysByBase[p.Base] {
			other := w.lastPods[key]
			for _, m := range other.Modules {
				if m.Name == name && b.Active(name, m.Version) {
					wanted, stays = true, stays || !other.Gone && !other.Deleting
				}
			}
		}
		return wanted && !stays
	}
	return !slices.ContainsFunc(p.Modules,
		func(m events.ModuleRef) bool { return !b.Active(m.Name, m.Version) && !by(m.Name) })
}

// servesAll reports whether some version of each module of the Pod is active.
func servesAll(b *events.BaseStatus, p *events.PodStatus) bool {
	return !slices.ContainsFunc(p.Modules, func(m events.ModuleRef) bool { return !b.Active(m.Name, "") })
}
