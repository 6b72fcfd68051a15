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
	holders map[string]turn // by module of a namespace
	asked   map[turn]time.Time
}

type turn struct{ module, node string }

// patience is how long a base waits for another one to be Ready before it replaces a module that
// then serves nowhere for a moment. There may never be another one.
const patience = 30 * time.Second

// taken says whether another base has the turn.
func (ts *turns) taken(t turn) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	has, taken := ts.holders[t.module]
	return taken && has != t
}

// enter takes the turn, if nobody else has it and served says that another base serves meanwhile,
// or that there is no other, or if it was asked for long enough.
func (ts *turns) enter(t turn, now time.Time, served bool) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.holders == nil {
		ts.holders, ts.asked = map[string]turn{}, map[turn]time.Time{}
	}
	if has, taken := ts.holders[t.module]; taken {
		return has == t
	}
	if _, known := ts.asked[t]; !known {
		ts.asked[t] = now
	}
	if !served && now.Sub(ts.asked[t]) < ts.speed.Of(patience) {
		return false
	}
	delete(ts.asked, t)
	ts.holders[t.module] = t
	return true
}

// leave gives the turn back, or the wish for it.
func (ts *turns) leave(t turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.asked, t)
	if ts.holders[t.module] == t {
		delete(ts.holders, t.module)
	}
}

// turnIn is the turn of a lane; all its Pods are of one Node, and of one namespace as a rule.
func turnIn(views []view, module string) turn {
	if len(views) == 0 {
		return turn{}
	}
	newest := views[len(views)-1].pod
	return turn{newest.Namespace + "/" + module, newest.Spec.NodeName}
}

// beginReplacing has the Pods of a version turn Not Ready, so that it can be replaced by another
// jar once requests have ceased to come. It reports false while it is another base's turn.
func (p *Provider) beginReplacing(key workerKey, m arklet.Module) bool {
	views := p.store.views(key)
	if len(views) == 0 {
		return false
	}
	mine := turnIn(views, key.module)
	if p.turns.taken(mine) { // what others are like is of no interest then, and there may be thousands
		return false
	}
	pod := views[len(views)-1].pod
	others := p.informer.elsewhere(pod.Namespace, key.module, pod.Spec.NodeName)
	served := len(others) == 0 || p.gaps.elsewhere(p, pod.Namespace, key.module, pod.Spec.NodeName)
	for _, o := range others { // another controller's bases
		for _, c := range o.Status.ContainerStatuses {
			if c.Name == key.module && c.State.Waiting != nil && c.State.Waiting.Reason == ReasonReplacing {
				served = false
			}
		}
	}
	if !p.turns.enter(mine, time.Now(), served) {
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
