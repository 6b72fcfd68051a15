package judge

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// orderCheck looks at each handover: a Pod with a newer version of a module turns Ready on a base
// where an older Pod has been Ready for another version. The older one must be Not Ready by then,
// or be on its way out, in the order of the watch. It need not be if it was the only Ready Pod of
// the module: then the Service would have no endpoint in between. Nor if what serves on other bases
// ceases to within decidedWithin: they hand over at the same time. Pods of one version hand nothing
// over, nor do Pods of a process of the base that has ended: they have another Node.
type orderCheck struct {
	wasReady map[string]bool // by UID
	found    []*disorder
	compared int
}

// disorder is a violation, unless elsewhere is empty.
type disorder struct {
	Finding
	old string // UID of the older Pod
	// ended reports whether the older Pod no longer serves.
	ended bool
	// elsewhere are the Pods that served on other bases, and went on to.
	elsewhere map[string]bool
}

func (c *orderCheck) note(w *world, e change) {
	if e.pod == nil {
		return
	}
	if c.wasReady == nil {
		c.wasReady = map[string]bool{}
	}
	p := e.pod
	if !p.Serves() {
		for _, v := range c.found {
			if v.old == p.UID && !v.ended {
				v.Length, v.ended = e.Time.Sub(v.Time), true
			}
			if e.Time.Sub(v.Time) <= decidedWithin {
				delete(v.elsewhere, p.UID)
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

func (c *orderCheck) turnedReady(w *world, p *events.PodStatus, m events.ModuleRef, now time.Time) {
	for old := range w.PodsOn(p.Base) {
		if !older(old, p) || old.Node != p.Node || !c.wasReady[old.UID] || !old.HasModule(m.Name) ||
			old.Version(m.Name) == m.Version {
			continue
		}
		c.compared++
		if !old.Serves() {
			continue
		}
		c.found = append(c.found,
			&disorder{old: old.UID, elsewhere: w.servingBeside(p.Base, m.Name, w.knownAt(now)), Finding: Finding{
				Kind: ReadyBeforeOld, Time: now, Base: p.Base, Pod: p.Name, Modules: []events.ModuleRef{m},
				OldPod: old.Name, OldVersion: old.Version(m.Name),
			}})
	}
}

// older reports whether p is older than q. Within a second the first event decides.
func older(p, q *events.PodStatus) bool {
	return p.Created.Before(q.Created) || p.Created.Equal(q.Created) && p.Number < q.Number
}

// servingBeside are the Pods of the module on other bases that have been Ready since then, by UID.
func (w *world) servingBeside(base, module string, since time.Time) map[string]bool {
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
	for _, v := range c.found {
		switch {
		case len(v.elsewhere) == 0:
			r.OnlyReady++
			continue
		case !v.ended:
			v.Length = end.Sub(v.Time)
		}
		r.Violations = append(r.Violations, v.Finding)
	}
	r.Violations = sorted(r.Violations)
	return r
}
