package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Act performs an action on a component. The actions start and restart block until the component is ready.
func (d *Daemon) Act(ctx context.Context, r control.ActRequest) error {
	if !slices.Contains(supervise.Actions, r.Action) {
		return notFound("unknown action %s", r.Action)
	}
	ctx, release, err := d.acquireRunning(ctx, sharedWeight)
	if err != nil {
		return err
	}
	defer release()
	d.recordAction(r.Group, r.Component, r.Action)
	return d.performAction(ctx, r.Component, r.Action)
}

// performAction performs an action on a component, limited by the step timeout. The caller holds changeLock.
func (d *Daemon) performAction(ctx context.Context, name string, action supervise.Action) error {
	ctx, cancel := d.withStepTimeout(ctx)
	defer cancel()
	err := fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	if name == daemonName {
		err = refuseAction(name, action)
	}
	for _, part := range d.allComponentSets() {
		if !errors.Is(err, supervise.ErrUnknown) {
			break
		}
		err = part.Act(ctx, name, action)
	}
	var refused supervise.RefusedError
	switch {
	case errors.As(err, &refused):
		return conflict("%s", refused)
	case errors.Is(err, supervise.ErrUnknown):
		return notFound("%v; list the components with: koupsandbox status", err)
	}
	return err
}
