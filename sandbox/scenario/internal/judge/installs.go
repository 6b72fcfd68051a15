package judge

import (
	"cmp"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
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
	repeats  []Violation
	excused  []Violation
}

type install struct {
	base string
	events.ModuleRef
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
			c.repeated(w, install{x.Base, x.Module}, l, began, "was installed again after %v, and answered: "+cmp.Or(x.Code, "success"))
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
	case e.State.Gone():
		delete(on, e.ModuleRef)
	case e.State == events.ModuleResolved:
		if l != nil && !l.broken {
			c.repeated(w, install{e.Base, e.ModuleRef}, l, now, "was resolved again after %v")
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

func (c *installCheck) repeated(w *world, key install, l *life, at time.Time, how string) {
	v := Violation{Time: at, Base: key.base, Message: fmt.Sprintf("%s:%s "+how, key.Name, key.Version, brief(at.Sub(l.since)))}
	known := at
	if !l.answered.IsZero() {
		known = l.answered.Add(toldWithin)
	}
	if w.outages.swallowed(key.base, l.since, known, at) {
		v.Message += " (the first answer may have been lost)"
		c.excused = append(c.excused, v)
		return
	}
	c.repeats = append(c.repeats, v)
}

func (c *installCheck) result() Result {
	r := Result{
		Name: InstalledOnce, Compared: c.installs, Violations: sorted(append([]Violation(nil), c.repeats...)),
		Excused: sorted(append([]Violation(nil), c.excused...)),
		Summary: plain.Count(c.installs, "installation") + ", none twice",
	}
	if n := len(c.repeats); n > 0 {
		r.Summary = plain.Count(c.installs, "installation") + fmt.Sprintf(", %d repeated", n)
	}
	if n := len(c.excused); n > 0 {
		r.Summary += fmt.Sprintf("; %d more repeated after a disturbance", n)
	}
	return r
}
