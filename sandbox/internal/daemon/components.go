package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Act does something to a component. Start and restart return when it is ready.
func (d *Daemon) Act(ctx context.Context, name string, action control.Action) error {
	ctx, release, err := d.changing(ctx)
	if err != nil {
		return err
	}
	defer release()
	switch name {
	case brokerName:
		return d.actOnBroker(ctx, action)
	case fleetName, component:
		return &control.Error{Code: http.StatusConflict, Message: fmt.Sprintf(
			"%s cannot be told to %s: it is no process of its own; see koupsandbox base --help", name, action)}
	}
	if _, ok := d.now().platform.(componentPlatform); ok && name == clusterName {
		return &control.Error{Code: http.StatusConflict, Message: fmt.Sprintf(
			"%s cannot be told to %s: its nodes are containers; tell your container engine to stop, start or pause them", name, action)}
	}
	if deployed := d.now().deployed; deployed != nil {
		if number, err := deployed.Find(name); err == nil {
			return d.actOnDeployed(ctx, deployed, number, action)
		}
	}
	err = d.actOnProcess(ctx, name, action)
	if errors.Is(err, supervise.ErrUnknown) {
		return &control.Error{Code: http.StatusNotFound, Message: fmt.Sprintf("%v; see: koupsandbox status", err)}
	}
	return err
}

func (d *Daemon) actOnProcess(ctx context.Context, name string, action control.Action) error {
	switch action {
	case control.Kill:
		return d.supervisor.Kill(name)
	case control.Pause:
		return d.supervisor.Pause(name)
	case control.Resume:
		return d.supervisor.Resume(name)
	case control.Stop:
		if d.state(ctx, name) == "" {
			return fmt.Errorf("stopping %s: %w", name, supervise.ErrUnknown)
		}
		return d.supervisor.Stop(ctx, name)
	case control.Start:
		if s := d.state(ctx, name); s == supervise.Running || s == supervise.Paused {
			return nil
		}
	}
	return d.restart(ctx, name)
}

// restart starts a component again and waits until it is ready.
func (d *Daemon) restart(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, d.now().config.Spec.Wait.Duration)
	defer cancel()
	if err := d.supervisor.Restart(ctx, name); err != nil {
		return err
	}
	return d.supervisor.WaitReady(ctx, name)
}

// state returns the state of a process, empty if there is none of the name.
func (d *Daemon) state(ctx context.Context, name string) supervise.State {
	for _, s := range d.supervisor.Status(ctx) {
		if s.Name == name {
			return s.State
		}
	}
	return ""
}

func (d *Daemon) actOnBroker(ctx context.Context, action control.Action) error {
	m := d.now().mqtt
	switch action {
	case control.Pause:
		return m.pause(true)
	case control.Resume:
		return m.pause(false)
	case control.Kill, control.Stop:
		return m.stop()
	case control.Start:
		return m.start(ctx)
	case control.Restart:
		return errors.Join(m.stop(), m.start(ctx))
	default:
		return &control.Error{Code: http.StatusConflict, Message: fmt.Sprintf(
			"the broker cannot be told to %s", action)}
	}
}
