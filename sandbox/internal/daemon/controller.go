package daemon

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// SetController changes the configuration of the module controllers, and returns a request that reverts the change.
// If the controllers do not become ready, SetController reverts the change before it returns the error.
func (d *Daemon) SetController(ctx context.Context, r control.ControllerRequest) (control.ControllerRequest, error) {
	ctx, release, err := d.acquireRunning(ctx, exclusiveWeight)
	if err != nil {
		return control.ControllerRequest{}, err
	}
	defer release()
	d.mu.Lock()
	before := d.controllers
	d.mu.Unlock()
	group := r.Group
	r.Group = "" // stored requests do not belong to a group
	if _, err := d.controllerConfig(r); err != nil {
		return before, badRequest("%v", err)
	}
	d.recordControllers(group, before)
	err = d.setControllers(ctx, r)
	if err == nil {
		return before, nil
	}
	back, _, enough, usingErr := d.withRunning(context.WithoutCancel(ctx))
	if usingErr != nil {
		return before, err
	}
	defer enough()
	return before, errors.Join(err, d.setControllers(back, before))
}

func (d *Daemon) controllerConfig(r control.ControllerRequest) (v1alpha1.Controller, error) {
	config := *d.configNow()
	c := &config.Spec.Controller
	needs := v1alpha1.ControllerNeeds{Env: r.Env}
	if r.Replicas != 0 {
		needs.Replicas = &r.Replicas
	}
	if err := c.Unmet(&needs); err != nil {
		return *c, err
	}
	c.Replicas = cmp.Or(needs.Replicas, c.Replicas)
	if len(r.Env) > 0 {
		c.Env = maps.Clone(c.Env)
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		maps.Copy(c.Env, r.Env)
	}
	c.APIView = c.APIView || r.APIView
	return *c, v1alpha1.Validate(&config).ToAggregate()
}

// setControllers applies r to the controllers in the sandbox configuration and blocks until all controllers are
// ready. The caller holds changeLock.
func (d *Daemon) setControllers(ctx context.Context, r control.ControllerRequest) error {
	config, err := d.controllerConfig(r)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.controllers = r
	s := d.assembly
	d.mu.Unlock()
	ctx, cancel := d.withStepTimeout(ctx)
	defer cancel()
	return s.runner.Ensure(ctx, config)
}
