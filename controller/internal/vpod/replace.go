package vpod

import (
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// turns lets one base at a time replace a module by another jar of the same version.
type turns struct {
	speed   pace.Speed
	mu      sync.Mutex
	holders map[string]workerKey // the base that has the turn, by moduleOf
	claims  map[workerKey]claim  // of each base that has a turn, or waits for one
}

type claim struct {
	module string // see moduleOf
	since  time.Time
}

// patience is how long a base waits for another one to be Ready before it replaces a module that
// then serves nowhere for a moment. There may never be another one.
const patience = 30 * time.Second

// moduleOf returns the key of a module in a namespace. For each key, one base at a time has the turn.
func moduleOf(namespace, module string) string { return namespace + "/" + module }

// taken reports whether another base has the turn.
func (ts *turns) taken(key workerKey, module string) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	has, taken := ts.holders[module]
	return taken && has != key
}

// enter takes the turn and reports whether the base has it. If another base has the turn, enter returns false.
// Otherwise the base gets the turn if served is true or if the base has waited for patience. served reports
// that another base serves the module in the meantime, or that there is no other base. A base has at most one
// turn or one claim for each module.
func (ts *turns) enter(key workerKey, module string, now time.Time, served bool) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.holders == nil {
		ts.holders, ts.claims = map[string]workerKey{}, map[workerKey]claim{}
	}
	if ts.claims[key].module != module {
		ts.release(key)
	}
	if has, taken := ts.holders[module]; taken {
		return has == key
	}
	if _, known := ts.claims[key]; !known {
		ts.claims[key] = claim{module, now}
	}
	if !served && now.Sub(ts.claims[key].since) < ts.speed.Of(patience) {
		return false
	}
	ts.holders[module] = key
	return true
}

// leave ends the turn or the claim of a base.
func (ts *turns) leave(key workerKey) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.release(key)
}

// release is called with the lock held.
func (ts *turns) release(key workerKey) {
	module := ts.claims[key].module
	delete(ts.claims, key)
	if ts.holders[module] == key {
		delete(ts.holders, module)
	}
}

// beginReplacing has the Pods of a version turn Not Ready, so that it can be replaced by another
// jar once requests have ceased to come. It reports false while it is another base's turn.
func (p *Provider) beginReplacing(key workerKey, m arklet.Module) bool {
	views := p.store.views(key)
	if len(views) == 0 {
		return false
	}
	pod := views[len(views)-1].pod // the newest Pod
	module := moduleOf(pod.Namespace, key.module)
	if p.turns.taken(key, module) { // skip the search below: there may be thousands of Pods
		return false
	}
	others := p.informer.elsewhere(pod.Namespace, key.module, pod.Spec.NodeName)
	served := len(others) == 0 || p.gaps.elsewhere(p, pod.Namespace, key.module, pod.Spec.NodeName)
	for _, o := range others { // another controller's bases
		for _, c := range o.Status.ContainerStatuses {
			if c.Name == key.module && c.State.Waiting != nil && c.State.Waiting.Reason == api.ReasonReplacing {
				served = false
			}
		}
	}
	if !p.turns.enter(key, module, time.Now(), served) {
		return false
	}
	p.store.change(func() {
		if l := p.store.lane(key); l != nil {
			l.memory.Replacing = &plan.Replacing{Module: m}
		}
	})
	p.opts.Logger.Info("replacing a module by another jar of its version", "base", key.identity, "biz", m.Identity(), "url", redact.URL(m.URL))
	p.publishers.Add(key)
	return true
}
