package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// undoActions has the action that reverts each action. Actions without an entry need none.
var undoActions = map[supervise.Action]supervise.Action{
	supervise.Kill: supervise.Start, supervise.Stop: supervise.Start, supervise.Pause: supervise.Resume,
}

// pendingRepairs are the changes of groups to components that Repair reverts. Daemon.mu guards them.
type pendingRepairs struct {
	// components has the action that reverts the last one, by group and component.
	components map[string]map[string]supervise.Action
	// changer is the group that was the last to change the controllers; empty if none has. original is how they were
	// before the first change.
	changer  string
	original control.ControllerRequest
}

// recordAction records how to revert an action of a group. It is called before the action, because an action that fails
// may have done a part.
func (d *Daemon) recordAction(group, name string, action supervise.Action) {
	if group == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.repairs.components[group], name)
	if undo, needed := undoActions[action]; needed {
		d.addRepair(group, name, undo)
	}
}

// addRepair records an action that Repair is to do. d.mu is held.
func (d *Daemon) addRepair(group, name string, undo supervise.Action) {
	if d.repairs.components == nil {
		d.repairs.components = map[string]map[string]supervise.Action{}
	}
	if d.repairs.components[group] == nil {
		d.repairs.components[group] = map[string]supervise.Action{}
	}
	d.repairs.components[group][name] = undo
}

func (d *Daemon) recordControllers(group string, before control.ControllerRequest) {
	if group == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.repairs.changer == "" {
		d.repairs.original = before
	}
	d.repairs.changer = group
}

// Repair starts and resumes the components that a group has left ended or paused, the controllers last. If the request
// says so, it also reverts the changes of the group to the controllers. Another Repair tries again what has failed.
func (d *Daemon) Repair(ctx context.Context, r control.RepairRequest) error {
	d.mu.Lock()
	undo := d.repairs.components[r.Group]
	delete(d.repairs.components, r.Group)
	d.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(undo)) { // which puts the controllers last
		if err := d.Act(ctx, control.ActRequest{Component: name, Action: undo[name]}); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", undo[name], name, err))
			d.mu.Lock()
			d.addRepair(r.Group, name, undo[name])
			d.mu.Unlock()
		}
	}
	if r.Controllers {
		errs = append(errs, d.restoreControllers(ctx, r.Group))
	}
	return errors.Join(errs...)
}

// changedBy reports whether a group was the last to change the controllers, and how they were before.
func (d *Daemon) changedBy(group string) (original control.ControllerRequest, changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.repairs.original, group != "" && d.repairs.changer == group
}

// restoreControllers reverts the changes of a group to the controllers. When ctx ends first, the controllers may still
// become what they were.
func (d *Daemon) restoreControllers(ctx context.Context, group string) error {
	if _, changed := d.changedBy(group); !changed {
		return nil
	}
	ctx, release, err := d.acquireRunning(ctx, exclusiveWeight)
	if err != nil {
		return err
	}
	defer release()
	original, changed := d.changedBy(group)
	if !changed { // another group has changed them in the meantime
		return nil
	}
	if err := d.setControllers(ctx, original); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.repairs.changer = ""
	return nil
}
