package daemon

import (
	"context"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Watch calls sink for each component event and for each event of the group in the request. If the group is empty, it
// reports the events of all bases. It blocks until ctx ends or the sandbox shuts down.
func (d *Daemon) Watch(ctx context.Context, r control.WatchRequest, sink func(events.Event)) error {
	running, err := d.requireUp()
	switch {
	case err != nil:
		return err
	case r.Own && r.Group == "":
		return badRequest("own requires a group; set group")
	case r.Own:
		if err := d.hub.claimGroup(r.Group); err != nil {
			return err
		}
		defer d.cleanUpGroup(running, r.Group)
	}
	sub := d.hub.subscribe(r.Group)
	defer d.hub.unsubscribe(sub)
	stop := running.fleet.Watch(r.Group, sub)
	defer stop()
	sub.endSnapshot()
	defer context.AfterFunc(d.ending, sub.Close)() //nolint:contextcheck // the shutdown also ends the stream
	return sub.follow(ctx, sink)
}

// cleanUpGroup removes the bases, request streams and faults of a group whose owner has disconnected, and reverts its
// changes to components.
func (d *Daemon) cleanUpGroup(running *assembly, group string) {
	d.hub.closeGroup(group)
	running.traffic.Drop(d.ending, group)
	running.dropFaults(group)
	gone, removeErr := running.fleet.Remove(d.ending, fleet.Selection{Group: group})
	if len(gone) > 0 {
		d.log.Info("removed bases of a group whose owner disconnected", "group", group, "bases", len(gone))
	}
	if err := d.Repair(d.ending, control.RepairRequest{Group: group, Controllers: true}); err != nil {
		d.log.Warn("could not restore components that a group changed", "group", group, "err", err)
	}
	if removeErr != nil { // retry: the repair may have restored the API
		if err := d.deleteNodes(d.ending, running.nodes, running.fleet.IdentitiesOf(gone)); err != nil {
			d.log.Warn("could not delete the Nodes of removed bases", "group", group, "err", removeErr, "retryErr", err)
		}
	}
}

func (d *Daemon) componentChanged(c supervise.StateChange) {
	d.hub.publishComponent(c.Time, c.Name, c.State, c.Exit)
}

func (d *Daemon) brokerChanged(state supervise.State, why string) {
	d.hub.publishComponent(time.Now(), broker.Component, state, why)
}
