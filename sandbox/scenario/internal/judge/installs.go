package judge

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// installCheck looks for installations of what is installed: an installBiz that came after the
// version had come to the base, other than the one that had brought it, while it was neither gone,
// by an uninstall, a failure or a restart, nor broken; or, where commands are not told, a version
// that is resolved twice.
//
// A repetition is excused if the answer to the first one may not have arrived, and no list can have
// told since: from when the version came until toldWithin after the answer, the base was
// disconnected, a fault happened there or lasted, or a component was away, and the repetition came
// meanwhile or within Options.listed of it, and after an outage within the recovery of that. What went
// away later had the answer: a controller that comes back asks before it commands.
type installCheck struct {
	lives    map[string]map[events.ModuleRef]*life // by base
	installs int
	repeats  []Finding
	excused  []Finding
}

// life is a version on a base, from when it is resolved until it is gone.
type life struct {
	since    time.Time
	answered time.Time // the command that brought it; zero = not yet
	broken   bool
}

func (c *installCheck) note(w *world, e change) {
	if c.lives == nil {
		c.lives = map[string]map[events.ModuleRef]*life{}
	}
	switch {
	case e.Base != nil:
		if e.Base.Change == events.BaseUp || e.Base.Change == events.BaseDown {
			delete(c.lives, e.Base.Base)
		}
	case e.Module != nil:
		c.module(w, e.Module, e.Time)
	case e.Command != nil:
		x := e.Command
		l := c.lives[x.Base][x.Module]
		if x.Name != events.CommandInstall || l == nil || l.broken {
			return
		}
		began := e.Time.Add(-x.Elapsed) // when it arrived
		switch {
		case x.Code == "" && l.answered.IsZero():
			l.answered = e.Time
		case began.After(l.since):
			c.repeated(w, l, Finding{Kind: InstalledAgain, Time: began, Base: x.Base,
				Modules: []events.ModuleRef{x.Module}, Code: x.Code})
		}
	}
}

func (c *installCheck) module(w *world, e *events.ModuleEvent, now time.Time) {
	on := c.lives[e.Base]
	if on == nil {
		on = map[events.ModuleRef]*life{}
		c.lives[e.Base] = on
	}
	l := on[e.ModuleRef]
	switch {
	case e.State.Absent():
		delete(on, e.ModuleRef)
	case e.State == events.ModuleResolved:
		if l != nil && !l.broken {
			c.repeated(w, l, Finding{Kind: ResolvedAgain, Time: now, Base: e.Base,
				Modules: []events.ModuleRef{e.ModuleRef}})
		}
		c.installs++
		on[e.ModuleRef] = &life{since: now}
	default:
		if l == nil { // from before the run
			l = &life{since: now}
			on[e.ModuleRef] = l
		}
		l.broken = e.State == events.ModuleBroken
	}
}

func (c *installCheck) repeated(w *world, l *life, f Finding) {
	f.After = f.Time.Sub(l.since)
	known := f.Time
	if !l.answered.IsZero() {
		known = l.answered.Add(toldWithin)
	}
	f.ResponseLost = w.outages.swallowed(f.Base, l.since, known, f.Time)
	if f.ResponseLost {
		c.excused = append(c.excused, f)
		return
	}
	c.repeats = append(c.repeats, f)
}

func (c *installCheck) result() Result {
	return Result{
		Name: InstalledOnce, Compared: c.installs,
		Violations: sorted(slices.Clone(c.repeats)), Excused: sorted(slices.Clone(c.excused)),
	}
}
