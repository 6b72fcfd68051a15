package vpod

import (
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// turns lets one base at a time replace a module by another jar of the same version.
type turns struct {
	speed   pace.Speed
	mu      sync.Mutex
	holders map[string]workerKey // by module of a namespace
	claims  map[workerKey]claim  // of the modules on bases that have a turn, or wait for one
}

type claim struct {
	module string // of a namespace
	since  time.Time
}

// patience is how long a base waits for another one to be Ready before it replaces a module that
// then serves nowhere for a moment. There may never be another one.
const patience = 30 * time.Second

// moduleOf returns the module of a namespace of which one base at a time has the turn.
func moduleOf(namespace, module string) string { return namespace + "/" + module }

// taken reports whether another base has the turn.
func (ts *turns) taken(key workerKey, module string) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	has, taken := ts.holders[module]
	return taken && has != key
}

// enter takes the turn and reports whether the base has it. It does so if no other base has the turn, and served
// reports that another base serves in the meantime or that there is no other base, or the base has waited for
// patience. A base has one turn for a module, or waits for one.
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

// leave gives the turn of a base back, or stops waiting for it.
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
	pod := views[len(views)-1].pod // the newest
	module := moduleOf(pod.Namespace, key.module)
	if p.turns.taken(key, module) { // what others are like is of no interest then, and there may be thousands
		return false
	}
	others := p.informer.elsewhere(pod.Namespace, key.module, pod.Spec.NodeName)
	served := len(others) == 0 || p.gaps.elsewhere(p, pod.Namespace, key.module, pod.Spec.NodeName)
	for _, o := range others { // another controller's bases
		for _, c := range o.Status.ContainerStatuses {
			if c.Name == key.module && c.State.Waiting != nil && c.State.Waiting.Reason == ReasonReplacing {
				served = false
			}
		}
	}
	if !p.turns.enter(key, module, time.Now(), served) {
		return false
	}
	p.store.change(func() {
		if l := p.store.lane(key); l != nil {
			l.replacing = &replacement{module: m}
		}
	})
	p.opts.Logger.Info("replacing a module by another jar of its version", "base", key.identity, "biz", m.Identity(), "url", redact.URL(m.URL))
	p.publishers.trigger(key)
	return true
}
