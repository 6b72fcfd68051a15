package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const fleetName = "bases"

// bases represents all bases as one component. It is ready if all bases outside groups are connected.
type bases struct {
	fleet     *fleet.Fleet
	startedAt time.Time
}

// Components implements supervise.ComponentSet.
func (b bases) Components(context.Context) []supervise.Component {
	n := b.fleet.Count()
	c := supervise.Component{Name: fleetName, State: supervise.Running, Ready: n.Own == n.OwnConnected,
		PID: os.Getpid(), StartedAt: b.startedAt}
	if !c.Ready {
		c.Reason = fmt.Sprintf("bases connected to the broker: %d of %d", n.OwnConnected, n.Own)
	}
	for _, m := range b.fleet.Group("") {
		if err := b.fleet.Failure(m); err != nil {
			c.Reason += fmt.Sprintf("; %s failed: %v", m.HostName, err)
		}
	}
	return []supervise.Component{c}
}

// Act rejects all actions, because bases have their own commands.
func (b bases) Act(_ context.Context, name string, action supervise.Action) error {
	if name != fleetName {
		return fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	}
	return refuseAction(name, action)
}

func refuseAction(name string, action supervise.Action) error {
	return supervise.Refuse("cannot %s %s: it is not a separate process; see koupsandbox base --help", action, name)
}

// ToStart returns nil, because up does not restart this component.
func (b bases) ToStart(context.Context) []string { return nil }

// scaleTo changes the number of bases of an own set, and waits until new bases are connected.
func (d *Daemon) scaleTo(ctx context.Context, steps *progress.Steps, f *fleet.Fleet, set fleet.Set,
	have, want int) error {
	if have > want {
		return d.runStep(ctx, steps, "Removing "+plain.Count(have-want, "base"), func(ctx context.Context) error {
			_, err := f.Remove(ctx, fleet.Selection{Newest: have - want, Set: set.Name})
			return err
		})
	}
	return d.runStep(ctx, steps, "Connecting "+plain.Count(want-have, "base"), func(ctx context.Context) error {
		added, err := f.Add(ctx, set, want-have)
		if err == nil {
			err = f.WaitConnected(ctx, added...)
		}
		return err
	})
}

func identities(members []*fleet.Member) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.Base.Identity()
	}
	return ids
}

// acquireRunning acquires the weight share of changeLock. It returns an error if the sandbox is not running.
func (d *Daemon) acquireRunning(ctx context.Context, share int64) (context.Context, func(), error) {
	ctx, release, err := d.acquire(ctx, share)
	if err != nil {
		return nil, nil, err
	}
	if _, err := d.requireUp(); err != nil {
		release()
		return nil, nil, err
	}
	return ctx, release, nil
}

// withRunning returns a context that ends when ctx ends, when the sandbox shuts down, or after the step timeout. It
// does not acquire changeLock: one scenario may wait for bases to connect to a broker that another scenario must
// first resume.
func (d *Daemon) withRunning(ctx context.Context) (context.Context, *assembly, func(), error) {
	s, err := d.requireUp()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := d.withStepTimeout(ctx)
	ctx, end := d.untilStop(ctx)
	return ctx, s, func() {
		end()
		cancel()
	}, nil
}

// AddBases adds bases and blocks until they are connected. If the new bases of a group do not connect in time,
// AddBases removes them.
func (d *Daemon) AddBases(ctx context.Context, r control.AddRequest) ([]control.Base, error) {
	ctx, running, release, err := d.withRunning(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	f := running.fleet
	if r.Count < 1 {
		return nil, badRequest("cannot add %s; a sandbox runs 1 to %d", plain.Count(r.Count, "base"), v1alpha1.MaxBases)
	}
	s := fleet.Set{Group: r.Group, Name: r.Set, Seed: r.Seed}
	if r.Spec != nil {
		s.Spec = *r.Spec
	}
	if err := d.hub.checkOpen(r.Group); err != nil {
		return nil, err
	}
	added, err := f.Add(ctx, s, r.Count)
	if errors.Is(err, fleet.ErrInvalid) {
		return nil, badRequest("%v", err)
	}
	if err == nil {
		err = d.hub.checkOpen(r.Group) // the owner may have disconnected before the bases were listed
	}
	if err == nil {
		err = f.WaitConnected(ctx, added...)
	}
	if err != nil && r.Group != "" {
		_, removeErr := f.Remove(ctx, fleet.Selection{Names: hostNames(added)})
		return nil, errors.Join(err, removeErr)
	}
	return running.describe(added), err
}

func hostNames(members []*fleet.Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.HostName
	}
	return names
}

// RemoveBases removes the named bases, the most recently added bases, or all bases and request streams of a group.
func (d *Daemon) RemoveBases(ctx context.Context, r control.RemoveRequest) ([]control.Base, error) {
	ctx, running, release, err := d.withRunning(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	selection := fleet.Selection{Names: r.Bases, Newest: r.Count, Group: r.Group}
	switch {
	case len(r.Bases) > 0 && r.Count == 0 && r.Group == "":
		// A single base that is removed by name ends without notice, like a failed machine: the controller has to
		// detect the missing heartbeats. Several bases that end together would look like a broker failure.
		selection.Unannounced = len(r.Bases) == 1
	case len(r.Bases) == 0 && r.Count > 0 && r.Group == "":
	case len(r.Bases) == 0 && r.Count == 0 && r.Group != "":
		running.traffic.Drop(ctx, r.Group)
	default:
		return nil, badRequest("specify exactly one of: base names, a number of bases, a group")
	}
	gone, err := running.fleet.Remove(ctx, selection)
	if errors.Is(err, fleet.ErrUnknown) {
		err = notFound("%v", err)
	}
	return running.describe(gone), err
}

// deleteNodes deletes the Nodes of removed bases. It continues after the client that removed the bases disconnects,
// and stops when the sandbox shuts down.
func (d *Daemon) deleteNodes(ctx context.Context, n *nodes.Watcher, identities []string) error {
	ctx, cancel := d.withStepTimeout(ctx)
	defer cancel()
	defer context.AfterFunc(d.ending, cancel)() //nolint:contextcheck // the shutdown also ends it
	return n.DeleteNodes(ctx, identities)
}

// RestartBase stops the process of a base and starts it again.
func (d *Daemon) RestartBase(ctx context.Context, r control.RestartRequest) (*control.Base, error) {
	ctx, running, release, err := d.withRunning(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	m, err := running.fleet.Restart(ctx, r.Base, r.NewIdentity)
	switch {
	case errors.Is(err, fleet.ErrUnknown):
		return nil, notFound("%v", err)
	case err != nil:
		return nil, err
	}
	return &running.describe([]*fleet.Member{m})[0], nil
}

// Bases lists the bases of a group. If the group is empty, it lists all bases.
func (d *Daemon) Bases(_ context.Context, r control.GroupRequest) ([]control.Base, error) {
	switch running, ok := d.assembled(); {
	case !ok:
		return []control.Base{}, nil
	case r.Group == "":
		return running.describe(running.fleet.List()), nil
	default:
		return running.describe(running.fleet.Group(r.Group)), nil
	}
}

func (s *assembly) describe(members []*fleet.Member) []control.Base {
	bases := make([]control.Base, 0, len(members))
	for _, m := range members {
		now := m.Base.Status()
		b := control.Base{
			Identity: now.Identity, HostName: m.HostName, Group: m.Group, Tunnel: m.Tunnel, Runtime: m.Runtime,
			IP: m.IP(), Name: now.Name, Version: now.Version,
			Running: now.Running, Ready: now.Ready, Connected: s.fleet.Connected(m), WebAddr: now.WebAddr,
			Health: now.Health, Metaspace: events.Metaspace(now.Metaspace),
			ReleasesLeft: s.nodes.ReleasesLeft(now.Identity),
		}
		for _, f := range m.Base.Faults() {
			if f.Ended == "" {
				b.Faults++
			}
		}
		if m.Group != "" {
			b.Set, b.Index = m.Set, m.Index
		}
		if err := s.fleet.Failure(m); err != nil {
			b.Reason = err.Error()
		}
		b.Node, b.NodeReady = s.nodes.NodeOf(now.Identity)
		for _, biz := range now.Biz {
			b.Modules = append(b.Modules, fmt.Sprintf("%s:%s %s", biz.Name, biz.Version, biz.State))
		}
		bases = append(bases, b)
	}
	return bases
}
