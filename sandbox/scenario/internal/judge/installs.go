package judge

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// installCheck finds repeated installations. An installBiz command repeats an installation if another command has
// already installed the version, and if the version is not BROKEN and was not removed by an uninstall, a failure or a
// restart in the meantime. If the run has no command events, a repeated installation is a version that a base
// resolves twice. A command that a base rejects while it installs the version is a repetition only if an earlier
// command started this installation. Otherwise, the base installs the version as part of its baseline.
//
// A repeated installation is excused if the first response may have been lost and no module list can have arrived
// since then. This is the case if the base was disconnected, a fault was in effect or triggered on the base, or a
// component was unavailable, at any time between the installation and watchDelay after its response. The repetition
// must occur during the outage or within its recovery time. An outage that starts later is no excuse: the response
// had already arrived, and a restarted controller lists modules before it installs any.
type installCheck struct {
	installations map[string]map[events.ModuleRef]*installation // current installations, by base
	count         int
	repeats       []Finding
	excused       []Finding
}

// installation is a module version on a base, from the time when the base resolves the version until it is removed.
type installation struct {
	since    time.Time
	answered time.Time // time of the response to the install command; zero if the base has not responded
	broken   bool
	rejected []Finding // commands that the base rejected before answered, because it was installing the version
}

func (c *installCheck) observe(w *history, e appliedEvent) {
	if c.installations == nil {
		c.installations = map[string]map[events.ModuleRef]*installation{}
	}
	switch {
	case e.Base != nil:
		if e.Base.Change == events.BaseUp || e.Base.Change == events.BaseDown {
			delete(c.installations, e.Base.Base)
		}
	case e.Module != nil:
		c.module(w, e.Module, e.Time)
	case e.Command != nil:
		x := e.Command
		l := c.installations[x.Base][x.Module]
		if x.Name != events.CommandInstall || l == nil || l.broken {
			return
		}
		began := e.Time.Add(-x.Elapsed)
		switch {
		case x.Code == "" && l.answered.IsZero():
			for _, f := range l.rejected {
				c.recordRepeat(w, l, f)
			}
			l.answered, l.rejected = e.Time, nil
		case began.After(l.since):
			f := Finding{Kind: InstalledAgain, Time: began, Base: x.Base, Modules: []events.ModuleRef{x.Module},
				Code: x.Code}
			if x.Code == string(errcode.ArkletInstallBizExecuting) && l.answered.IsZero() {
				l.rejected = append(l.rejected, f)
				return
			}
			c.recordRepeat(w, l, f)
		}
	}
}

func (c *installCheck) module(w *history, e *events.ModuleEvent, now time.Time) {
	on := c.installations[e.Base]
	if on == nil {
		on = map[events.ModuleRef]*installation{}
		c.installations[e.Base] = on
	}
	l := on[e.ModuleRef]
	switch {
	case e.State.Absent():
		delete(on, e.ModuleRef)
	case e.State == events.ModuleResolved:
		if l != nil && !l.broken {
			c.recordRepeat(w, l, Finding{Kind: ResolvedAgain, Time: now, Base: e.Base,
				Modules: []events.ModuleRef{e.ModuleRef}})
		}
		c.count++
		on[e.ModuleRef] = &installation{since: now}
	default:
		if l == nil { // installed before the run
			l = &installation{since: now}
			on[e.ModuleRef] = l
		}
		l.broken = e.State == events.ModuleBroken
	}
}

func (c *installCheck) recordRepeat(w *history, l *installation, f Finding) {
	f.After = f.Time.Sub(l.since)
	known := f.Time
	if !l.answered.IsZero() {
		known = l.answered.Add(watchDelay)
	}
	f.ResponseLost = w.outages.mayLoseResponse(f.Base, l.since, known, f.Time)
	if f.ResponseLost {
		c.excused = append(c.excused, f)
		return
	}
	c.repeats = append(c.repeats, f)
}

func (c *installCheck) result() Result {
	return Result{
		Name: InstalledOnce, Compared: c.count,
		Violations: sorted(slices.Clone(c.repeats)), Excused: sorted(slices.Clone(c.excused)),
	}
}
