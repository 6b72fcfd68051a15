package judge

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// nothingLeft finds modules that remain on running bases at the end of the run although no Pod on the base requests
// them, see events.State.Leftovers. A terminating Pod is treated as requesting its modules for the maximum duration
// of an uninstall: MODULE_DRAIN plus Options.UninstallTimeout plus Options.listDelay, 79.5 s by default.
func nothingLeft(w *history, end time.Time, o *Options) Result {
	r := Result{Name: NothingLeft}
	for b := range w.Bases.All() {
		if b.Running && w.hadModule[b.Name] {
			r.Compared++
		}
	}
	for _, m := range w.Leftovers(func(p *events.PodStatus) bool {
		began, ending := w.deletedAt[p.PodKey()]
		return ending && end.Sub(began) > o.scaled(api.Drain)+o.UninstallTimeout+o.listDelay()
	}) {
		f := Finding{
			Kind: ModuleLeft, Time: m.Since, Length: end.Sub(m.Since), Base: m.Base,
			Modules: []events.ModuleRef{m.ModuleRef}, State: m.State,
		}
		for _, p := range o.Foreign {
			if p.Base == m.Base && slices.Contains(p.Modules, m.ModuleRef) {
				f.Foreign = append(f.Foreign, p.Name)
			}
		}
		r.Violations = append(r.Violations, f)
	}
	r.Violations = sorted(r.Violations)
	return r
}

// podWrites counts the writes to each Pod from its creation to its removal.
func podWrites(w *history, most *int) Result {
	r := Result{Name: MaxPodWrites, Compared: len(w.lastPods)}
	for _, p := range w.lastPods {
		r.Writes += p.Writes
		r.Highest = max(r.Highest, p.Writes)
		if most != nil && p.Writes > *most {
			r.Violations = append(r.Violations, Finding{
				Kind: TooManyWrites, Time: p.Created, Base: p.Base, Pod: p.Name, Count: p.Writes, Limit: *most,
			})
		}
	}
	r.Violations = sorted(r.Violations)
	return r
}

// commandCheck counts, for each version on each base, how often the same command was sent. It ignores query commands.
type commandCheck struct{ counts map[commandKey]commandCount }

type commandKey struct {
	base, name string
	events.ModuleRef
}

type commandCount struct {
	times int
	first time.Time
}

func (c *commandCheck) observe(e appliedEvent) {
	x := e.Command
	if x == nil || x.Module.Name == "" {
		return
	}
	if c.counts == nil {
		c.counts = map[commandKey]commandCount{}
	}
	key := commandKey{x.Base, x.Name, x.Module}
	r := c.counts[key]
	r.times++
	if r.times == 1 {
		r.first = e.Time
	}
	c.counts[key] = r
}

func (c *commandCheck) result(most *int) Result {
	r := Result{Name: MaxCommands, Compared: len(c.counts)}
	for cmd, got := range c.counts {
		r.Highest = max(r.Highest, got.times)
		if most != nil && got.times > *most {
			r.Violations = append(r.Violations, Finding{
				Kind: TooManyCommands, Time: got.first, Base: cmd.base, Modules: []events.ModuleRef{cmd.ModuleRef},
				Command: cmd.name, Count: got.times, Limit: *most,
			})
		}
	}
	r.Violations = sorted(r.Violations)
	return r
}
