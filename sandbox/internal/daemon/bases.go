package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

const fleetName = "bases"

// scaleTo brings the number of the sandbox's own bases to want and waits until all
// are connected.
func (d *Daemon) scaleTo(ctx context.Context, steps *progress.Steps, want int) error {
	f := d.now().fleet
	have := f.Count().Own
	if have > want {
		return d.step(ctx, steps, "Removing "+count(have-want, "base"), func(context.Context) error {
			f.RemoveYoungest(have - want)
			return nil
		})
	}
	return d.step(ctx, steps, "Connecting "+count(want-have, "base"), func(ctx context.Context) error {
		added, err := f.Add(ctx, fleet.Set{}, want-have)
		if err == nil {
			err = f.WaitConnected(ctx, added...)
		}
		return err
	})
}

// everyBase returns the identities of all bases that there have been.
func (d *Daemon) everyBase() map[string]bool {
	if f := d.now().fleet; f != nil {
		return f.Known()
	}
	return nil
}

func identities(members []*fleet.Member) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.Base.Identity()
	}
	return ids
}

// changing takes the right to change a sandbox that runs.
func (d *Daemon) changing(ctx context.Context) (context.Context, func(), error) {
	ctx, release, err := d.acquire(ctx)
	if err == nil && d.phaseNow() != control.Running {
		release()
		err = notUp()
	}
	return ctx, release, err
}

func notUp() error {
	return &control.Error{Code: http.StatusConflict, Message: "the sandbox is not up yet"}
}

// using returns a context that ends with ctx, when the sandbox is taken down, and
// after the time that each step of an up may take. What uses the bases only does
// not wait for whoever changes the sandbox: several scenarios may, and one may
// want to resume the broker that another's bases wait for.
func (d *Daemon) using(ctx context.Context) (context.Context, func(), error) {
	if d.phaseNow() != control.Running {
		return nil, nil, notUp()
	}
	wait := d.now().config.Spec.Wait.Duration
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("not within %s", wait))
	ctx, end := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(d.ending, func() { end(errDown) })
	return ctx, func() {
		unhook()
		end(nil)
		cancel()
	}, nil
}

// AddBases adds bases; they are connected when it returns. When they do not
// connect in time, those of a group are removed again.
func (d *Daemon) AddBases(ctx context.Context, r control.AddRequest) ([]control.Base, error) {
	ctx, release, err := d.using(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	f := d.now().fleet
	have := f.Count()
	if total := have.Own + have.Groups; r.Count < 1 || total+r.Count > v1alpha1.MaxBases {
		return nil, &control.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf(
			"%d bases cannot be added: there are %d, and one sandbox runs 1 to %d", r.Count, total, v1alpha1.MaxBases)}
	}
	s := fleet.Set{Group: r.Group, Name: r.Set, Seed: r.Seed}
	if r.Spec != nil {
		s.Spec = *r.Spec
		if r.Group == "" {
			return nil, &control.Error{Code: http.StatusBadRequest, Message: "settings are for the bases of a group: name one"}
		}
	}
	if err := d.streams.open(r.Group); err != nil {
		return nil, err
	}
	added, err := f.Add(ctx, s, r.Count)
	if errors.Is(err, fleet.ErrInvalid) {
		return nil, &control.Error{Code: http.StatusBadRequest, Message: err.Error()}
	}
	if err == nil {
		err = d.streams.open(r.Group) // the owner may have gone meanwhile, and not have seen them
	}
	if err == nil {
		err = f.WaitConnected(ctx, added...)
	}
	if err != nil && r.Group != "" {
		_, removeErr := f.Remove(hostNames(added)...)
		return nil, errors.Join(err, removeErr)
	}
	return d.describe(added), err
}

func hostNames(members []*fleet.Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.HostName
	}
	return names
}

// RemoveBases ends bases: those named, the youngest, or a group with its traffic.
func (d *Daemon) RemoveBases(ctx context.Context, r control.RemoveRequest) ([]control.Base, error) {
	ctx, release, err := d.using(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	f := d.now().fleet
	switch {
	case len(r.Bases) > 0 && r.Count == 0 && r.Group == "":
		gone, err := f.Remove(r.Bases...)
		return d.describe(gone), asNotFound(err)
	case len(r.Bases) == 0 && r.Count > 0 && r.Group == "":
		return d.describe(f.RemoveYoungest(r.Count)), nil
	case len(r.Bases) == 0 && r.Count == 0 && r.Group != "":
		d.now().flows.Drop(ctx, r.Group)
		return d.describe(f.RemoveGroup(r.Group)), nil
	default:
		return nil, &control.Error{Code: http.StatusBadRequest, Message: "say which bases to remove, or how many, or which group, and only one of these"}
	}
}

// RestartBase ends a base's process and starts it again.
func (d *Daemon) RestartBase(ctx context.Context, base string, r control.RestartRequest) (*control.Base, error) {
	ctx, release, err := d.using(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	m, err := d.now().fleet.Restart(ctx, base, r.NewIdentity)
	switch {
	case errors.Is(err, fleet.ErrUnknown):
		return nil, asNotFound(err)
	case err != nil:
		return nil, err
	}
	return &d.describe([]*fleet.Member{m})[0], nil
}

// Bases lists those of a group, or all if it is empty.
func (d *Daemon) Bases(group string) []control.Base {
	switch f := d.now().fleet; {
	case f == nil:
		return []control.Base{}
	case group == "":
		return d.describe(f.List())
	default:
		return d.describe(f.Group(group))
	}
}

// describe returns what is known of bases.
func (d *Daemon) describe(members []*fleet.Member) []control.Base {
	nodes, f := d.now().nodes, d.now().fleet
	bases := make([]control.Base, 0, len(members))
	for _, m := range members {
		s := m.Base.Status()
		b := control.Base{
			Identity: s.Identity, HostName: m.HostName, Group: m.Group, Tunnel: m.Tunnel, Runtime: m.Runtime, IP: m.IP, Name: s.Name, Version: s.Version,
			Running: s.Running, Ready: s.Ready, Connected: f.Connected(m), WebAddr: s.WebAddr, Faults: len(m.Base.Faults()),
		}
		if m.Group != "" {
			b.Set, b.Index = m.Set, m.Index
		}
		if err := f.Failure(m); err != nil {
			b.Reason = err.Error()
		}
		if nodes != nil {
			b.Node, b.NodeReady = nodes.of(s.Identity)
		}
		for _, biz := range s.Biz {
			b.Modules = append(b.Modules, fmt.Sprintf("%s:%s %s", biz.Name, biz.Version, biz.State))
		}
		bases = append(bases, b)
	}
	return bases
}

func (d *Daemon) find(base string) (*fleet.Member, error) {
	f := d.now().fleet
	if f == nil {
		return nil, notUp()
	}
	m, err := f.Find(base)
	return m, asNotFound(err)
}

func asNotFound(err error) error {
	if err == nil {
		return nil
	}
	return &control.Error{Code: http.StatusNotFound, Message: err.Error()}
}

// Inject puts a fault into a base.
func (d *Daemon) Inject(base string, text json.RawMessage) (string, error) {
	m, err := d.find(base)
	if err != nil {
		return "", err
	}
	var fault fakebase.Fault
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&fault)
	var id string
	if err == nil {
		id, err = m.Base.Inject(fault)
	}
	if err != nil {
		return "", &control.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("this is no fault: %v", err)}
	}
	return id, nil
}

// Faults lists the faults of a base.
func (d *Daemon) Faults(base string) ([]control.Fault, error) {
	m, err := d.find(base)
	if err != nil {
		return nil, err
	}
	faults := []control.Fault{}
	for _, f := range m.Base.Faults() {
		text, err := json.Marshal(f)
		if err != nil {
			return nil, fmt.Errorf("writing fault %s of base %q: %w", f.ID, base, err)
		}
		faults = append(faults, control.Fault{ID: f.ID, Fault: text})
	}
	return faults, nil
}

// ClearFaults ends faults of a base, all when no id is given.
func (d *Daemon) ClearFaults(base string, ids []string) error {
	m, err := d.find(base)
	if err != nil {
		return err
	}
	if cleared := m.Base.Clear(ids...); cleared < len(ids) {
		return &control.Error{Code: http.StatusNotFound,
			Message: fmt.Sprintf("base %q had only %d of these %d faults; what it had is cleared", base, cleared, len(ids))}
	}
	return nil
}
