package judge

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// nothingLeft looks, at the end, for modules on running bases that no Pod on the base
// wants. A Pod that is being deleted still answers for its modules. A base's own
// modules, those that it starts with, and those from before a Synced event are left out.
func nothingLeft(w *world, end time.Time) Result {
	r := Result{Name: NothingLeft, Figures: map[string]float64{}}
	for _, b := range w.bases {
		if !b.running || !b.worked {
			continue
		}
		r.Compared++
		for ref, m := range b.modules {
			if m.own || w.answered(b.name, ref) {
				continue
			}
			r.Violations = append(r.Violations, Violation{
				Time: m.since, Length: end.Sub(m.since), Base: b.name,
				Message: fmt.Sprintf("%s:%s is left on %s, %s, and no Pod there wants it", ref.Name, ref.Version, b.name, m.state),
			})
		}
	}
	r.Violations = sorted(r.Violations)
	r.Figures["left"] = float64(len(r.Violations))
	r.Summary = many(r.Compared, "base") + ", nothing left"
	if n := len(r.Violations); n > 0 {
		r.Summary = many(r.Compared, "base") + ", " + many(n, "module") + " left"
	}
	return r
}

// answered tells whether a Pod on the base has the module.
func (w *world) answered(base string, ref timeline.ModuleRef) bool {
	for _, p := range w.pods {
		if p.Gone || p.base != base {
			continue
		}
		for _, m := range p.Modules {
			if m.Name == ref.Name && (m.Version == "" || m.Version == ref.Version) {
				return true
			}
		}
	}
	return false
}

// podWrites says how often Pods have been written, from creation to removal.
func podWrites(w *world, most *int) Result {
	r := Result{Name: MaxPodWrites, Compared: len(w.pods), Figures: map[string]float64{}}
	highest, total := 0, 0
	for _, p := range w.all() {
		total += p.Writes
		highest = max(highest, p.Writes)
		if most != nil && p.Writes > *most {
			r.Violations = append(r.Violations, Violation{
				Time: p.Created, Base: p.base, Pod: p.Name,
				Message: fmt.Sprintf("Pod %s was written %d times; at most %d were allowed", p.Name, p.Writes, *most),
			})
		}
	}
	r.Violations = sorted(r.Violations)
	mean := float64(total) / float64(max(1, len(w.pods)))
	r.Figures["max"], r.Figures["mean"] = float64(highest), mean
	r.Summary = fmt.Sprintf("%s, written at most %s each, %.1f on average", many(len(w.pods), "Pod"), many(highest, "time"), mean)
	return r
}
