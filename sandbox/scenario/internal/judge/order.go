package judge

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// orderCheck checks each handover. In a handover, a Pod with another version of a module becomes Ready on a base
// where an older Pod has been Ready. By then, the older Pod must be Not Ready or terminating, in the order of the
// watch events. Exceptions:
//   - The older Pod was the only Ready Pod of the module. Otherwise the Service would temporarily have no endpoint.
//   - The Ready Pods on other bases become Not Ready within decisionDelay, because they are handed over at the same
//     time.
//
// There is no handover between Pods of the same version, or between Pods on different Nodes: in the latter case, the
// older Pod belongs to an earlier process of the base.
type orderCheck struct {
	wasReady  map[string]bool // Pods that have been Ready, by UID
	disorders []*disorder
	compared  int
}

// disorder is a handover in the wrong order. It is a violation unless readyElsewhere is empty.
type disorder struct {
	Finding
	old string // UID of the older Pod
	// notReady reports whether the older Pod has become Not Ready in the meantime.
	notReady bool
	// readyElsewhere contains the UIDs of the Pods on other bases that were Ready at the handover and have stayed
	// Ready.
	readyElsewhere map[string]bool
}

func (c *orderCheck) observe(w *history, e appliedEvent) {
	if e.pod == nil {
		return
	}
	if c.wasReady == nil {
		c.wasReady = map[string]bool{}
	}
	p := e.pod
	if !p.Serves() {
		for _, v := range c.disorders {
			if v.old == p.UID && !v.notReady {
				v.Length, v.notReady = e.Time.Sub(v.Time), true
			}
			if e.Time.Sub(v.Time) <= decisionDelay {
				delete(v.readyElsewhere, p.UID)
			}
		}
		return
	}
	c.wasReady[p.UID] = true
	if e.served || p.Base == "" {
		return
	}
	for _, m := range p.Modules {
		c.turnedReady(w, p, m, e.Time)
	}
}

func (c *orderCheck) turnedReady(w *history, p *events.PodStatus, m events.ModuleRef, now time.Time) {
	for old := range w.PodsOn(p.Base) {
		if !older(old, p) || old.Node != p.Node || !c.wasReady[old.UID] || !old.HasModule(m.Name) ||
			old.Version(m.Name) == m.Version {
			continue
		}
		c.compared++
		if !old.Serves() {
			continue
		}
		c.disorders = append(c.disorders,
			&disorder{old: old.UID, readyElsewhere: w.readyOnOtherBases(p.Base, m.Name, w.knownAt(now)),
				Finding: Finding{
					Kind: ReadyBeforeOld, Time: now, Base: p.Base, Pod: p.Name, Modules: []events.ModuleRef{m},
					OldPod: old.Name, OldVersion: old.Version(m.Name),
				}})
	}
}

// older reports whether p is older than q. If both Pods were created in the same second, the Pod with the earlier
// first event is older.
func older(p, q *events.PodStatus) bool {
	return p.Created.Before(q.Created) || p.Created.Equal(q.Created) && p.Number < q.Number
}

// readyOnOtherBases returns the UIDs of the Pods of the module that have been Ready on other bases since the given
// time.
func (w *history) readyOnOtherBases(base, module string, since time.Time) map[string]bool {
	serving := map[string]bool{}
	for p := range w.Pods.All() {
		if p.Base != base && p.HasModule(module) && p.Serves() && !p.ReadySince.After(since) {
			serving[p.UID] = true
		}
	}
	return serving
}

func (c *orderCheck) result(end time.Time) Result {
	r := Result{Name: Order, Compared: c.compared}
	for _, v := range c.disorders {
		switch {
		case len(v.readyElsewhere) == 0:
			r.OnlyReady++
			continue
		case !v.notReady:
			v.Length = end.Sub(v.Time)
		}
		r.Violations = append(r.Violations, v.Finding)
	}
	r.Violations = sorted(r.Violations)
	return r
}
