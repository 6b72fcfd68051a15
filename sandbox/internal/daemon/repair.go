package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// undoes says what brings a component back after an action; what is not in it leaves nothing to undo.
var undoes = map[component.Action]component.Action{
	component.Kill: component.Start, component.Stop: component.Start, component.Pause: component.Resume,
}

// debt is what a group has changed that is everybody's.
type debt struct {
	components  map[string]component.Action // what brings each back
	controllers *control.ControllerRequest  // as they were before; nil = they are so
}

// owes returns the debt of a group; d.mu is held.
func (d *Daemon) owes(group string) *debt {
	if d.debts == nil {
		d.debts = map[string]*debt{}
	}
	if d.debts[group] == nil {
		d.debts[group] = &debt{components: map[string]component.Action{}}
	}
	return d.debts[group]
}

// noteAction notes what undoes an action of a group, before it is done: what fails may have begun.
func (d *Daemon) noteAction(group, name string, action component.Action) {
	if group == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if undo, leaves := undoes[action]; leaves {
		d.owes(group).components[name] = undo
	} else {
		delete(d.owes(group).components, name)
	}
}

// noteControllers notes how the controllers were before a group changed them for the first time.
func (d *Daemon) noteControllers(group string, before control.ControllerRequest) {
	if group == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.owes(group); o.controllers == nil {
		o.controllers = &before
	}
}

// pays takes what is to be repaired now off the debt of a group.
func (d *Daemon) pays(r control.RepairRequest) (now debt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.debts[r.Group]
	if o == nil {
		return debt{}
	}
	now.components, o.components = o.components, map[string]component.Action{}
	if r.Controllers {
		now.controllers = o.controllers
		delete(d.debts, r.Group)
	}
	return now
}

// Repair starts and resumes the components that a group has left ended or paused, the controllers last,
// and brings the controllers back to what they were, if that is asked for.
func (d *Daemon) Repair(ctx context.Context, r control.RepairRequest) error {
	now := d.pays(r)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(now.components)) { // which puts the controllers last
		if err := d.Act(ctx, control.ActRequest{Component: name, Action: now.components[name]}); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", now.components[name], name, err))
		}
	}
	if now.controllers != nil {
		_, err := d.SetController(ctx, *now.controllers)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
