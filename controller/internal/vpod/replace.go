package vpod

import (
	"maps"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// patience is how long a base waits for another base that has the module, before it replaces the module and no base has it
// for a moment.
const patience = 30 * time.Second

// enterTurn takes the turn to replace the jar of a module, which one base at a time has, and reports whether the lane has
// it. served reports whether other bases process the requests in the meantime. If they do not, the lane waits for
// patience first.
func (s *store) enterTurn(key workerKey, module string, served bool, patience time.Duration) (ok bool) {
	s.change(func() {
		maps.DeleteFunc(s.turns, func(other string, holder workerKey) bool { return holder == key && other != module })
		holder, taken := s.turns[module]
		l := s.lane(key)
		if taken || l == nil {
			ok = holder == key
			return
		}
		now := time.Now()
		if l.claimed.IsZero() {
			l.claimed = now
		}
		ok = served || now.Sub(l.claimed) >= patience
		if ok {
			s.turns[module] = key
		}
	})
	return ok
}

// leaveTurn ends the turn of a lane, or its waiting for one. The caller holds the lock.
func (s *store) leaveTurn(key workerKey) {
	maps.DeleteFunc(s.turns, func(_ string, holder workerKey) bool { return holder == key })
	if l := s.lane(key); l != nil {
		l.claimed = time.Time{}
	}
}

// beginReplacing makes the Pods of a version turn Not Ready, so that its jar can be replaced when no requests are sent to
// them any more. It returns false if the base must wait for its turn.
func (p *Provider) beginReplacing(key workerKey, m arklet.Module) bool {
	views := p.store.views(key)
	if len(views) == 0 {
		return false
	}
	pod := views[len(views)-1].pod // the newest Pod
	others := p.informer.elsewhere(pod.Namespace, key.module, pod.Spec.NodeName)
	served := len(others) == 0 || p.readyElsewhere(gap{pod.Namespace, key.module, pod.Spec.NodeName}, false)
	for _, o := range others { // on bases of other controllers
		for _, c := range o.Status.ContainerStatuses {
			if c.Name == key.module && c.State.Waiting != nil && c.State.Waiting.Reason == api.ReasonReplacing {
				served = false
			}
		}
	}
	if !p.store.enterTurn(key, pod.Namespace+"/"+key.module, served, p.opts.TimeScale.Of(patience)) {
		return false
	}
	p.store.change(func() {
		if l := p.store.lane(key); l != nil {
			l.memory.Replacing = &plan.Replacing{Module: m}
		}
	})
	p.opts.Logger.Info("replacing a module by another jar of its version", "base", key.identity, "biz", m.Identity(),
		"url", redact.URL(m.URL))
	p.publishers.Add(key)
	return true
}
