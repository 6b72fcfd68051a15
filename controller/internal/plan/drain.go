package plan

import (
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Endpoints is since when no Service sends requests to some Pods.
type Endpoints struct {
	DrainedSince time.Time
	Serving      bool // a Service sends requests to one of the Pods, or this is not known
}

// With adds a Pod. drained is since when no Service sends requests to it; zero means that a Service does, or that this is
// not known.
func (e Endpoints) With(drained time.Time) Endpoints {
	e.Serving = e.Serving || drained.IsZero()
	if drained.After(e.DrainedSince) {
		e.DrainedSince = drained
	}
	return e
}

// receivesRequests reports whether the base sends requests to a version: it is active, and no other version became active
// after it, as on a base that keeps all versions active.
func (p *planner) receivesRequests(biz arklet.Biz) bool {
	if biz.State != arklet.StateActivated {
		return false
	}
	for _, other := range p.Listed {
		if other.State == arklet.StateActivated && other.Latest.At.After(biz.Latest.At) {
			return false
		}
	}
	return true
}

// drainRemaining returns how long a version that receives no more requests may still process earlier ones.
func (p *planner) drainRemaining(biz arklet.Biz) time.Duration {
	i := p.Memory.Installed[biz.Version]
	switched := biz.State == arklet.StateDeactivated && biz.Latest.Reason == arklet.ReasonSwitched
	if i.InactiveSince.IsZero() || !switched && biz.State != arklet.StateActivated {
		return 0
	}
	return i.InactiveSince.Add(p.Drain).Sub(p.Now)
}

// terminatingDrain returns how long requests may still be sent to Pods that are being deleted.
func (p *planner) terminatingDrain(t Terminating) time.Duration {
	return p.drainLeft(t.Since, max(p.Drain, t.PreStop), t.Endpoints, t.Until)
}

// replacementDrain reports whether requests are no longer sent to a version that is being replaced, or how long to wait;
// 0 means that this is not known.
func (p *planner) replacementDrain(w arklet.Module) (left time.Duration, drained bool) {
	r := p.Memory.Replacing
	if r == nil || r.Module != w || r.NotReady.IsZero() {
		return 0, false
	}
	left = max(p.EndpointLag, p.drainLeft(r.NotReady, p.Drain, p.ReplacedEndpoints, r.NotReady.Add(ExpectedFor)))
	return left, left <= 0
}

// drainLeft returns how long requests may still be sent to Pods that turned Not Ready at a time: for the given drain
// time, and for half of Input.Drain after the endpoints do not have them any more. The endpoints are taken into account
// only until a time.
func (p *planner) drainLeft(notReady time.Time, drain time.Duration, e Endpoints, until time.Time) time.Duration {
	left := notReady.Add(drain).Sub(p.Now)
	if p.Drain <= 0 || !p.Now.Before(until) {
		return left
	}
	if e.Serving { // the next list of endpoints causes another call of Next
		look := notReady.Add(p.Drain / 2).Sub(p.Now)
		if look <= 0 {
			look = p.TimeScale.Of(RecheckAfter)
		}
		return min(look, until.Sub(p.Now))
	}
	return max(left, min(e.DrainedSince.Add(p.Drain/2).Sub(p.Now), until.Sub(p.Now)))
}
