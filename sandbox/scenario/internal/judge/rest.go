package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// nothingLeft looks, at the end, for modules on running bases that no Pod on the base wants; see
// events.State.Left. A Pod that is being deleted answers for its modules as long as their
// uninstall may take: MODULE_DRAIN, Options.UninstallWithin and Options.listed, 79.5 s by the
// defaults.
func nothingLeft(w *world, end time.Time, o *Options) Result {
	r := Result{Name: NothingLeft}
	for b := range w.Bases.All() {
		if b.Running && w.worked[b.Name] {
			r.Compared++
		}
	}
	for _, m := range w.Left(func(p *events.PodStatus) bool {
		began, ending := w.ending[p.PodKey()]
		return ending && end.Sub(began) > o.of(api.Drain)+o.UninstallWithin+o.listed()
	}) {
		message := fmt.Sprintf("%s:%s is left on %s, %s, and no Pod of the run on that base requests it", m.Name, m.Version, m.Base, m.State)
		for _, p := range o.Foreign {
			if p.Base == m.Base && slices.Contains(p.Modules, m.ModuleRef) {
				message += fmt.Sprintf("; Pod %s, which is not part of the run, requests it", p.Name)
			}
		}
		r.Violations = append(r.Violations, Violation{
			Time: m.Since, Length: end.Sub(m.Since), Base: m.Base, Message: message,
		})
	}
	r.Violations = sorted(r.Violations)
	r.Summary = plain.Count(r.Compared, "base") + ", nothing left"
	if n := len(r.Violations); n > 0 {
		r.Summary = plain.Count(r.Compared, "base") + ", " + plain.Count(n, "module") + " left"
	}
	return r
}

// podWrites says how often Pods have been written, from creation to removal.
func podWrites(w *world, most *int) Result {
	r := Result{Name: MaxPodWrites, Compared: len(w.ever)}
	highest, total := 0, 0
	for _, p := range w.ever {
		total += p.Writes
		highest = max(highest, p.Writes)
		if most != nil && p.Writes > *most {
			r.Violations = append(r.Violations, Violation{
				Time: p.Created, Base: p.Base, Pod: p.Name,
				Message: fmt.Sprintf("Pod %s was written %d times; at most %d were allowed", p.Name, p.Writes, *most),
			})
		}
	}
	r.Violations = sorted(r.Violations)
	mean := float64(total) / float64(max(1, len(w.ever)))
	r.Summary = fmt.Sprintf("%s, written at most %s each, %.1f on average", plain.Count(len(w.ever), "Pod"), plain.Count(highest, "time"), mean)
	return r
}

// commandCheck counts how often a base got the same command for the same version. It ignores queries.
type commandCheck struct{ times map[given]received }

type given struct {
	base, name string
	events.ModuleRef
}

type received struct {
	times int
	first time.Time
}

func (c *commandCheck) note(e change) {
	x := e.Command
	if x == nil || x.Module.Name == "" {
		return
	}
	if c.times == nil {
		c.times = map[given]received{}
	}
	key := given{x.Base, x.Name, x.Module}
	r := c.times[key]
	if r.times++; r.times == 1 {
		r.first = e.Time
	}
	c.times[key] = r
}

func (c *commandCheck) result(most *int) Result {
	r := Result{Name: MaxCommands, Compared: len(c.times)}
	highest := 0
	for cmd, got := range c.times {
		highest = max(highest, got.times)
		if most != nil && got.times > *most {
			r.Violations = append(r.Violations, Violation{
				Time: got.first, Base: cmd.base,
				Message: fmt.Sprintf("%s of %s:%s came %d times; at most %d were allowed", cmd.name, cmd.Name, cmd.Version, got.times, *most),
			})
		}
	}
	r.Violations = sorted(r.Violations)
	r.Summary = fmt.Sprintf("%s, each at most %s", plain.Count(len(c.times), "command"), plain.Count(highest, "time"))
	return r
}
