package vpod

import (
	"maps"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// replaceTimeout is how long a base waits for another base to serve the module. After that, the base replaces the jar
// although no other base serves the module.
const replaceTimeout = 30 * time.Second

// acquireReplacePermit acquires the permit to replace the jar of a module, and reports whether the module slot has
// the permit. Only one base at a time has the permit for a module. served reports whether other bases process the
// requests during the replacement. If no other base does, the slot gets the permit only after it has waited for the
// duration timeout.
func (s *store) acquireReplacePermit(key slotKey, module string, served bool, timeout time.Duration) (ok bool) {
	s.change(func() {
		maps.DeleteFunc(s.replacePermits,
			func(other string, holder slotKey) bool { return holder == key && other != module })
		holder, taken := s.replacePermits[module]
		l := s.slot(key)
		if taken || l == nil {
			ok = holder == key
			return
		}
		now := time.Now()
		if l.waitingSince.IsZero() {
			l.waitingSince = now
		}
		ok = served || now.Sub(l.waitingSince) >= timeout
		if ok {
			s.replacePermits[module] = key
		}
	})
	return ok
}

// releaseReplacePermit releases the replace permit of a slot, or removes the slot from the slots that wait for a
// permit. The caller holds the lock.
func (s *store) releaseReplacePermit(key slotKey) {
	maps.DeleteFunc(s.replacePermits, func(_ string, holder slotKey) bool { return holder == key })
	if l := s.slot(key); l != nil {
		l.waitingSince = time.Time{}
	}
}

// startReplacing makes the publisher set the Pods of the replaced versions Not Ready, so that the versions can be
// replaced once the Pods are drained. It returns false if the slot must wait for the permit.
func (p *Provider) startReplacing(key slotKey, action plan.Action) bool {
	m := action.Module
	snapshots := p.store.snapshots(key)
	if len(snapshots) == 0 {
		return false
	}
	pod := snapshots[len(snapshots)-1].pod // the newest Pod
	others := p.informer.onOtherNodes(pod.Namespace, key.module, pod.Spec.NodeName)
	served := len(others) == 0 || p.readyOnOtherNode(handoverKey{pod.Namespace, key.module, pod.Spec.NodeName}, false)
	for _, o := range others { // on bases of other controllers
		for _, c := range o.Status.ContainerStatuses {
			if w := c.State.Waiting; c.Name == key.module && w != nil &&
				(w.Reason == api.ReasonReplacing || w.Reason == api.ReasonUninstalledFirst) {
				served = false
			}
		}
	}
	if !p.store.acquireReplacePermit(key, pod.Namespace+"/"+key.module, served, p.opts.TimeScale.Of(replaceTimeout)) {
		return false
	}
	p.store.change(func() {
		if l := p.store.slot(key); l != nil {
			l.memory.Replacing = &plan.Replacement{Module: m, UninstallFirst: action.UninstallFirst}
		}
	})
	p.opts.Logger.Info("replacing the installed module", "base", key.identity, "biz", m.Identity(),
		"url", redact.URL(m.URL), "uninstallFirst", action.UninstallFirst)
	p.publishers.Add(key)
	return true
}
