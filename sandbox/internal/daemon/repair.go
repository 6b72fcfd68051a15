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

// noteControllers notes how the controllers were before a group changed them for the first time. What another
// group owes still, this one does from now on: it was the last to change them.
func (d *Daemon) noteControllers(group string, before control.ControllerRequest) {
	if group == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.owes(group)
	if o.controllers != nil {
		return
	}
	o.controllers = &before
	for _, other := range d.debts {
		if other != o && other.controllers != nil {
			o.controllers, other.controllers = other.controllers, nil
		}
	}
}

// Repair starts and resumes the components that a group has left ended or paused, the controllers last,
// and brings the controllers back to what they were, if that is asked for. What fails is owed still.
func (d *Daemon) Repair(ctx context.Context, r control.RepairRequest) error {
	d.mu.Lock()
	undo := map[string]component.Action{}
	if o := d.debts[r.Group]; o != nil {
		undo, o.components = o.components, undo
	}
	d.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(undo)) { // which puts the controllers last
		if err := d.Act(ctx, control.ActRequest{Component: name, Action: undo[name]}); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", undo[name], name, err))
			d.mu.Lock()
			d.owes(r.Group).components[name] = undo[name]
			d.mu.Unlock()
		}
	}
	if r.Controllers {
		errs = append(errs, d.restore(ctx, r.Group))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.debts[r.Group]; o != nil && len(o.components) == 0 && o.controllers == nil {
		delete(d.debts, r.Group)
	}
	return errors.Join(errs...)
}

// owed is how the controllers were before a group changed them; nil = they are so.
func (d *Daemon) owed(group string) *control.ControllerRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.debts[group]; o != nil {
		return o.controllers
	}
	return nil
}

// restore brings the controllers back to what they were before a group changed them. If they take longer than ctx, they are
// on their way to it all the same.
func (d *Daemon) restore(ctx context.Context, group string) error {
	if d.owed(group) == nil {
		return nil
	}
	ctx, release, err := d.changing(ctx, whole)
	if err != nil {
		return err
	}
	defer release()
	before := d.owed(group)
	if before == nil { // another group has taken the debt over meanwhile
		return nil
	}
	if err := d.setControllers(ctx, *before); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.debts[group].controllers = nil
	return nil
}
