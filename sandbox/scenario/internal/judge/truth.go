package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// truthCheck compares the status in Kubernetes with the modules on the bases. For each Ready Pod that is not being
// deleted, and for each ready endpoint, all modules of the Pod must be active in the version of the Pod.
//
// The duration of a mismatch is measured from the time at which the controller can detect the mismatch:
//   - if a command uninstalled the module: immediately, from the response to the command;
//   - if the module disappeared without a command: within Options.listDelay, from the next module list, or from the
//     response to an install command for another version that is in progress.
//
// The tolerance windows of outages are subtracted (see outages.outsideWindows). The mismatch is a violation if the
// remaining duration is longer than readyTolerance. While another version is active, the limit is switchTolerance.
// This limit is extended by api.SwitchedReady if no remaining Pod requests the active version, because a release has
// superseded that version and the next version is being installed. The mismatch is also a violation if a request for
// the missing module failed on this base during the remaining time. Request timeouts are ignored, because a base
// without the module responds.
//
// If an endpoint becomes ready while its Pod has a mismatch, the mismatch of the endpoint is measured from the same
// time as the mismatch of the Pod, because Kubernetes derives endpoints from Pods with a delay.
type truthCheck struct {
	open    map[readyClaim]*mismatch
	holding map[string]map[readyClaim]struct{} // claims that currently hold, by base
	// compared counts how often a Pod or an endpoint has become ready.
	compared       int
	mismatches     []mismatch
	closed         map[readyClaim][]span          // ended mismatches, by claim
	failedRequests map[moduleOnBase][]span        // failed requests, by base and module
	commands       map[moduleOnBase][]commandSpan // commands that may have removed a module
}

// readyClaim identifies a Ready Pod or, if service is set, the ready endpoint of the Pod in this Service. The claim
// is that the modules of the Pod are active.
type readyClaim struct{ service, pod, uid, base string }

type mismatch struct {
	readyClaim
	from, to time.Time
	// vanished is the time at which the modules disappeared while the process was running; zero if they did not
	// disappear.
	vanished time.Time
	missing  []events.ModuleRef
	// noVersion contains the periods without any active version. superseded contains the periods in which all Pods
	// that request the active version are deleted or terminating.
	noVersion, superseded spans
}

// spans contains the periods in which a condition was true.
type spans struct {
	list  []span
	since time.Time // start of the current span; zero if the condition is false
}

type span struct{ from, to time.Time }

// set records that the condition is true, or false, from now on.
func (s *spans) set(is bool, now time.Time) {
	switch {
	case is && s.since.IsZero():
		s.since = now
	case !is && !s.since.IsZero():
		s.list, s.since = append(slices.Clip(s.list), span{s.since, now}), time.Time{}
	}
}

// within returns how long the condition was true between from and to.
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

// end ends the current periods in noVersion and superseded.
func (l *mismatch) end(now time.Time) {
	l.noVersion.set(false, now)
	l.superseded.set(false, now)
}

// requestTimedOut is the result of a request that got no response. Such a request does not prove that the module was
// missing, because a base without the module responds.
const requestTimedOut = events.RequestTimeout

type commandSpan struct {
	install  bool
	from, to time.Time
}

func (c *truthCheck) observe(w *history, e appliedEvent) {
	if c.open == nil {
		c.open, c.closed = map[readyClaim]*mismatch{}, map[readyClaim][]span{}
		c.holding = map[string]map[readyClaim]struct{}{}
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
			c.commands[on] = append(c.commands[on],
				commandSpan{x.Name == events.CommandInstall, e.Time.Add(-x.Elapsed), e.Time})
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

// compare updates the mismatches of a base. It compares the claims about the base with the modules on the base, but
// only those claims for which concerned returns true.
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
		// The other version was deactivated as well, which is a new mismatch with its own cause.
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

// readyClaims returns the claims for the Ready Pods and the ready endpoints on a base.
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

// missing returns the modules of the Pod that are not active on the base, sorted by name.
func missing(b *events.BaseStatus, p *events.PodStatus) (out []events.ModuleRef) {
	for _, m := range p.Modules {
		if !b.Active(m.Name, m.Version) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b events.ModuleRef) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// superseded reports whether, for each inactive module of the Pod, another version is active and all Pods on the base
// that request this version are deleted or terminating.
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

// servesAll reports whether each module of the Pod is active in some version.
func servesAll(b *events.BaseStatus, p *events.PodStatus) bool {
	return !slices.ContainsFunc(p.Modules, func(m events.ModuleRef) bool { return !b.Active(m.Name, "") })
}
