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

// Watch calls sink for everything that happens to the bases of a group, or to all,
// and to components.
func (d *Daemon) Watch(ctx context.Context, r control.WatchRequest, sink func(events.Event)) error {
	running, err := d.requireUp()
	switch {
	case err != nil:
		return err
	case r.Own && r.Group == "":
		return badRequest("only a group can be owned: name one")
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
	defer context.AfterFunc(d.ending, sub.Close)() //nolint:contextcheck // the end of the sandbox ends the stream too
	return sub.follow(ctx, sink)
}

// cleanUpGroup ends everything in a group whose owner has gone.
func (d *Daemon) cleanUpGroup(running *assembly, group string) {
	d.hub.closeGroup(group)
	running.traffic.Drop(d.ending, group)
	running.dropFaults(group)
	gone, removeErr := running.fleet.Remove(d.ending, fleet.Selection{Group: group})
	if len(gone) > 0 {
		d.log.Info("removed what the owner of a group has left", "group", group, "bases", len(gone))
	}
	if err := d.Repair(d.ending, control.RepairRequest{Group: group, Controllers: true}); err != nil {
		d.log.Warn("what the owner of a group has done to components is not undone", "group", group, "err", err)
	}
	if removeErr != nil { // the API may answer again since the repair
		err := d.deleteNodes(d.ending, running.nodes, running.fleet.IdentitiesOf(gone))
		d.log.Warn("the Nodes of removed bases could not be deleted at first", "group", group, "err", removeErr,
			"again", err)
	}
}

func (d *Daemon) componentChanged(c supervise.StateChange) {
	d.hub.publishComponent(c.Time, c.Name, c.State, c.Exit)
}

func (d *Daemon) brokerChanged(state supervise.State, why string) {
	d.hub.publishComponent(time.Now(), broker.Component, state, why)
}
