package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// FaultRun is a fault that the run has set.
type FaultRun struct {
	ID, Kind string
	Target   v1alpha1.FaultTarget
	// Triggered is how often the fault was triggered on all of its bases together.
	Triggered int
	// MayNotFire means that the run may pass although the fault is never triggered.
	MayNotFire bool

	bases []string
}

// BaseHosts returns the short names and the host names of the bases that match names, see ResolveBases. If names is
// empty, it returns no bases.
func (e *Env) BaseHosts(names v1alpha1.BaseNames) (short, hosts []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	bases, err := e.ResolveBases(names)
	for _, b := range bases {
		short, hosts = append(short, b.Name), append(hosts, e.Host(b.Name))
	}
	return short, hosts, err
}

// WithFaultID returns a copy of a fault that has an ID. If the fault has no ID, a new ID is generated.
func (e *Env) WithFaultID(f v1alpha1.Fault) v1alpha1.Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.ID == "" {
		e.unnamed++
		f.ID = fmt.Sprintf("%s-%d", f.Kind, e.unnamed)
	}
	return f
}

// RecordFault records that the run has set a fault.
func (e *Env) RecordFault(f v1alpha1.Fault, target v1alpha1.FaultTarget, bases []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if target != v1alpha1.TargetBase {
		e.hasConnectionFaults = true
	}
	if target.Observed(f.Kind) {
		e.faults = append(e.faults,
			FaultRun{ID: f.ID, Kind: string(f.Kind), Target: target, MayNotFire: f.MayNotFire, bases: bases})
	}
}

// Faults returns the faults that the run has set. It counts how often each fault was triggered from the events in
// all. The error lists the faults that were never triggered, except faults with MayNotFire.
func (e *Env) Faults(all []events.Event) ([]FaultRun, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := slices.Clone(e.faults)
	var errs []error
	for i := range list {
		f := &list[i]
		for _, event := range all {
			x := event.Fault
			if x != nil && x.Change == events.FaultTriggered && x.ID == f.ID && x.Target == f.Target &&
				(x.Base == "" || slices.Contains(f.bases, x.Base)) {
				f.Triggered++
			}
		}
		if f.Triggered == 0 && !f.MayNotFire {
			on := cmp.Or(strings.Join(f.bases, ", "), "target "+string(f.Target))
			errs = append(errs,
				Fail("fault %s (%s) was never triggered on %s; set mayNotFire: true if that is expected", f.ID, f.Kind,
					on))
		}
	}
	return list, errors.Join(errs...)
}

// clearConnectionFaults clears the faults of API and broker connections.
func (e *Env) clearConnectionFaults(ctx context.Context) error {
	e.mu.Lock()
	left := e.hasConnectionFaults
	e.mu.Unlock()
	if !left {
		return nil
	}
	var errs []error
	for _, target := range []v1alpha1.FaultTarget{v1alpha1.TargetAPI, v1alpha1.TargetMQTT} {
		errs = append(errs, e.Sandbox.ClearFaults(ctx, control.FaultSelector{Group: e.Group, Target: target}))
	}
	return errors.Join(errs...)
}
