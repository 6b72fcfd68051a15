package plan

import (
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Endpoints states whether Services still send requests to a set of Pods. The zero value is an empty set.
type Endpoints struct {
	DrainedSince time.Time // time since which no Service sends requests to the Pods; valid if Serving is false
	Serving      bool      // a Service sends requests to at least one of the Pods, or this is unknown
}

// WithPod returns e with another Pod added. drainedSince is the time since which no Service has sent requests to that
// Pod. It is zero if a Service sends requests to the Pod, or if this is unknown.
func (e Endpoints) WithPod(drainedSince time.Time) Endpoints {
	e.Serving = e.Serving || drainedSince.IsZero()
	if drainedSince.After(e.DrainedSince) {
		e.DrainedSince = drainedSince
	}
	return e
}

// receivesRequests reports whether the base sends requests to a version: the version is active, and no other active
// version became active later. If a base keeps several versions active, the version that became active last receives
// the requests.
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

// drainRemaining returns how long a version that receives no new requests may still be processing earlier requests.
func (p *planner) drainRemaining(biz arklet.Biz) time.Duration {
	i := p.Memory.Installed[biz.Version]
	switched := biz.State == arklet.StateDeactivated && biz.Latest.Reason == arklet.ReasonSwitched
	if i.InactiveSince.IsZero() || !switched && biz.State != arklet.StateActivated {
		return 0
	}
	return i.InactiveSince.Add(p.Drain).Sub(p.Now)
}

// terminatingDrain returns how long Pods that are being deleted may still receive requests.
func (p *planner) terminatingDrain(t TerminatingVersion) time.Duration {
	return p.drainLeft(t.Since, max(p.Drain, t.PreStop), t.Endpoints, t.Until)
}

// replacementDrain reports whether the version whose jar is being replaced is drained. If it is not drained, remaining
// is the remaining drain time; 0 means that the drain has not started.
func (p *planner) replacementDrain(w arklet.Module) (remaining time.Duration, drained bool) {
	r := p.Memory.Replacing
	if r == nil || r.Module != w || r.NotReady.IsZero() {
		return 0, false
	}
	remaining = max(p.EndpointLag, p.drainLeft(r.NotReady, p.Drain, p.ReplacedEndpoints, r.NotReady.Add(MaxRetain)))
	return remaining, remaining <= 0
}

// drainLeft returns how long Pods that became Not Ready at notReady may still receive requests. They may receive
// requests for the duration drain after notReady, and for at least half of Input.Drain after they were removed from
// the endpoints. After until, the endpoints are ignored.
func (p *planner) drainLeft(notReady time.Time, drain time.Duration, e Endpoints, until time.Time) time.Duration {
	left := notReady.Add(drain).Sub(p.Now)
	if p.Drain <= 0 || !p.Now.Before(until) {
		return left
	}
	if e.Serving { // the next list of endpoints causes another call of Next
		recheck := notReady.Add(p.Drain / 2).Sub(p.Now)
		if recheck <= 0 {
			recheck = p.TimeScale.Of(RecheckInterval)
		}
		return min(recheck, until.Sub(p.Now))
	}
	return max(left, min(e.DrainedSince.Add(p.Drain/2).Sub(p.Now), until.Sub(p.Now)))
}
