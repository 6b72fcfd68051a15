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

// undoActions maps each action to the action that reverts it. Actions that are not in the map do not have to be
// reverted.
var undoActions = map[supervise.Action]supervise.Action{
	supervise.Kill: supervise.Start, supervise.Stop: supervise.Start, supervise.Pause: supervise.Resume,
}

// pendingRepairs records the component changes of groups that Repair must revert. Daemon.mu guards it.
type pendingRepairs struct {
	// components maps each group, and each component that it changed, to the action that reverts the last change.
	components map[string]map[string]supervise.Action
	// changer is the group that last changed the controllers, or empty. original is the controller request that was
	// in effect before any group changed the controllers.
	changer  string
	original control.ControllerRequest
}

// recordAction records how to revert an action of a group. Call it before the action, because an action that fails
// may be partly complete.
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

// addRepair records the action undo on the component name, which Repair must perform for a group. The caller holds
// d.mu.
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

// Repair starts or resumes the components that a group has stopped or paused, the controllers last. If r.Controllers
// is set, it also reverts the changes of the group to the controllers. The next Repair retries actions that failed.
func (d *Daemon) Repair(ctx context.Context, r control.RepairRequest) error {
	d.mu.Lock()
	undo := d.repairs.components[r.Group]
	delete(d.repairs.components, r.Group)
	d.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(undo)) { // "module-controller" sorts last
		if err := d.Act(ctx, control.ActRequest{Component: name, Action: undo[name]}); err != nil {
			errs = append(errs, fmt.Errorf("running action %s on component %s: %w", undo[name], name, err))
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

// changedBy reports whether the group was the last to change the controllers. original is the controller request that
// was in effect before the change.
func (d *Daemon) changedBy(group string) (original control.ControllerRequest, changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.repairs.original, group != "" && d.repairs.changer == group
}

// restoreControllers reverts the changes of a group to the controllers. If it returns an error, the changes remain
// recorded, so that a later call can revert them.
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
	if !changed { // another group has changed the controllers in the meantime
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
