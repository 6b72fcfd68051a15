package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// orderCheck looks at each handover: a Pod with a newer version of a module turns Ready on a base
// where an older Pod has been Ready for another version. The older one must be Not Ready by then,
// or be on its way out, in the order of the watch. It need not be if it was the only Ready Pod of
// the module: then the Service would have no endpoint in between. Pods of one version hand nothing
// over, nor do Pods of a process of the base that has ended: they have another Node.
type orderCheck struct {
	wasReady map[string]bool // by UID
	open     map[handover]*Violation
	found    []Violation
	compared int
	exempt   int
}

type handover struct{ old, module string } // UID

func (c *orderCheck) note(w *world, e change, o *Options) {
	if e.pod == nil {
		return
	}
	if c.wasReady == nil {
		c.wasReady, c.open = map[string]bool{}, map[handover]*Violation{}
	}
	p := e.pod
	if !p.Serves() {
		for h, v := range c.open {
			if h.old == p.UID {
				v.Length = e.Time.Sub(v.Time)
				c.found = append(c.found, *v)
				delete(c.open, h)
			}
		}
		return
	}
	c.wasReady[p.UID] = true
	if e.served || p.Base == "" {
		return
	}
	for _, m := range p.Modules {
		c.turnedReady(w, p, m, e.Time, o)
	}
}

func (c *orderCheck) turnedReady(w *world, p *timeline.PodStatus, m timeline.ModuleRef, now time.Time, o *Options) {
	for old := range w.Pods.All() {
		if !older(old, p) || old.Base != p.Base || old.Node != p.Node || !c.wasReady[old.UID] || !old.Has(m.Name) || old.Version(m.Name) == m.Version {
			continue
		}
		c.compared++
		switch {
		case !old.Serves():
		case w.aloneOn(p.Base, m.Name, w.knownAt(now, o)):
			c.exempt++
		default:
			c.open[handover{old.UID, m.Name}] = &Violation{
				Time: now, Base: p.Base, Pod: p.Name,
				Message: fmt.Sprintf("Pod %s with %s:%s turned Ready on %s before Pod %s with version %s had turned Not Ready",
					p.Name, m.Name, m.Version, p.Base, old.Name, old.Version(m.Name)),
			}
		}
	}
}

// older tells whether p is older than q; Pods of one second go by first sight.
func older(p, q *timeline.PodStatus) bool {
	return p.Created.Before(q.Created) || p.Created.Equal(q.Created) && p.Number < q.Number
}

// aloneOn tells whether no other base has a Pod of the module that has been Ready since then.
func (w *world) aloneOn(base, module string, since time.Time) bool {
	for p := range w.Pods.All() {
		if p.Base != base && p.Has(module) && p.Serves() && !p.ReadySince.After(since) {
			return false
		}
	}
	return true
}

func (c *orderCheck) result(end time.Time) Result {
	r := Result{Name: Order, Compared: c.compared, Violations: slices.Clone(c.found), Figures: map[string]float64{}}
	for v := range maps.Values(c.open) {
		last := *v
		last.Length = end.Sub(v.Time)
		r.Violations = append(r.Violations, last)
	}
	r.Violations = sorted(r.Violations)
	r.Figures["handovers"], r.Figures["exempt"] = float64(c.compared), float64(c.exempt)
	r.Summary = many(c.compared, "handover")
	if c.exempt > 0 {
		r.Summary += fmt.Sprintf(", %d of the only Ready Pod of a module", c.exempt)
	}
	if n := len(r.Violations); n > 0 {
		r.Summary += fmt.Sprintf(", %d in the wrong order", n)
	}
	return r
}
