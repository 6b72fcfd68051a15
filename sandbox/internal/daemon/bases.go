package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

const fleetName = "bases"

var activations = map[v1alpha1.Activation]fakebase.Activation{
	v1alpha1.ActivationNewModule: fakebase.ActivateNewModule,
	v1alpha1.ActivationDefault:   fakebase.ActivateDefault,
	v1alpha1.ActivationMulti:     fakebase.ActivateMulti,
}

// scaleTo brings the number of bases to want and waits until all are connected.
func (d *Daemon) scaleTo(ctx context.Context, steps *progress.Steps, want int) error {
	f := d.now().fleet
	have, _ := f.Count()
	if have > want {
		return d.step(ctx, steps, "Removing "+count(have-want, "base"), func(context.Context) error {
			f.RemoveYoungest(have - want)
			return nil
		})
	}
	return d.step(ctx, steps, "Connecting "+count(want-have, "base"), func(ctx context.Context) error {
		_, err := d.add(ctx, want-have)
		return err
	})
}

// add adds bases and waits until all are connected.
func (d *Daemon) add(ctx context.Context, count int) ([]*fleet.Member, error) {
	f := d.now().fleet
	added, err := f.Add(ctx, count)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	for _, id := range identities(added) {
		d.known[id] = true
	}
	d.mu.Unlock()
	return added, f.WaitConnected(ctx)
}

// everyBase returns the identities of all bases that there have been.
func (d *Daemon) everyBase() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.known)
}

func identities(members []*fleet.Member) []string {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.Base.Status().Identity
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

// AddBases adds bases; they are connected when it returns.
func (d *Daemon) AddBases(ctx context.Context, r control.AddRequest) ([]control.Base, error) {
	count := r.Count
	if r.Group != "" {
		return nil, notBuilt("groups of bases")
	}
	ctx, release, err := d.changing(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	have, _ := d.now().fleet.Count()
	if count < 1 || have+count > v1alpha1.MaxBases {
		return nil, &control.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf(
			"%d bases cannot be added: there are %d, and one sandbox runs 1 to %d", count, have, v1alpha1.MaxBases)}
	}
	added, err := d.add(ctx, count)
	return d.describe(added), err
}

// RemoveBases ends bases: those named, or the youngest.
func (d *Daemon) RemoveBases(ctx context.Context, r control.RemoveRequest) ([]control.Base, error) {
	_, release, err := d.changing(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	f := d.now().fleet
	switch {
	case len(r.Bases) > 0 && r.Count == 0:
		gone, err := f.Remove(r.Bases...)
		return d.describe(gone), asNotFound(err)
	case len(r.Bases) == 0 && r.Count > 0:
		return d.describe(f.RemoveYoungest(r.Count)), nil
	default:
		return nil, &control.Error{Code: http.StatusBadRequest, Message: "say which bases to remove, or how many, but not both"}
	}
}

// Bases lists those of a group, or all if it is empty.
func (d *Daemon) Bases(group string) []control.Base {
	all := []control.Base{}
	if f := d.now().fleet; f != nil {
		for _, b := range d.describe(f.List()) {
			if group == "" || b.Group == group {
				all = append(all, b)
			}
		}
	}
	return all
}

// describe returns what is known of bases.
func (d *Daemon) describe(members []*fleet.Member) []control.Base {
	nodes := d.now().nodes
	bases := make([]control.Base, 0, len(members))
	for _, m := range members {
		s := m.Base.Status()
		b := control.Base{
			Identity: s.Identity, HostName: m.HostName, IP: m.IP, Name: s.Name, Version: s.Version,
			Connected: s.Connected, Faults: len(m.Base.Faults()),
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
