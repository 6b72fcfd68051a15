package judge

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
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
	for _, m := range w.Leftovers(func(p *events.PodStatus) bool {
		began, ending := w.ending[p.PodKey()]
		return ending && end.Sub(began) > o.of(api.Drain)+o.UninstallWithin+o.listed()
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

// podWrites says how often Pods have been written, from creation to removal.
func podWrites(w *world, most *int) Result {
	r := Result{Name: MaxPodWrites, Compared: len(w.ever)}
	for _, p := range w.ever {
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
	r.times++
	if r.times == 1 {
		r.first = e.Time
	}
	c.times[key] = r
}

func (c *commandCheck) result(most *int) Result {
	r := Result{Name: MaxCommands, Compared: len(c.times)}
	for cmd, got := range c.times {
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
