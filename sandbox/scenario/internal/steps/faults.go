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

// FaultRun is a fault of the run that is to be triggered, and how often it was.
type FaultRun struct {
	ID, Kind string
	Target   v1alpha1.FaultTarget
	// Fired is how often it was reported as triggered, on all bases that have it.
	Fired int
	// MayNotFire lets it be never triggered.
	MayNotFire bool

	bases []string
}

// Bases returns the bases that names stand for, and their host names; none if there are no names.
func (e *Env) Bases(names v1alpha1.BaseNames) (short, hosts []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	bases, err := e.Resolve(names)
	for _, b := range bases {
		short, hosts = append(short, b.Name), append(hosts, e.Host(b.Name))
	}
	return short, hosts, err
}

// Named returns a fault with an id.
func (e *Env) Named(f v1alpha1.Fault) v1alpha1.Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.ID == "" {
		e.unnamed++
		f.ID = fmt.Sprintf("%s-%d", f.Kind, e.unnamed)
	}
	return f
}

// WatchFault records that a fault is set.
func (e *Env) WatchFault(f v1alpha1.Fault, target v1alpha1.FaultTarget, bases []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if target != v1alpha1.TargetBase {
		e.onConnections = true
	}
	if target.Observed(f.Kind) {
		e.faults = append(e.faults,
			FaultRun{ID: f.ID, Kind: string(f.Kind), Target: target, MayNotFire: f.MayNotFire, bases: bases})
	}
}

// Faults returns the faults that the run has set, with how often they were triggered by the events of the
// run. The error lists those that had to be triggered and were not.
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
				f.Fired++
			}
		}
		if f.Fired == 0 && !f.MayNotFire {
			on := cmp.Or(strings.Join(f.bases, ", "), "target "+string(f.Target))
			errs = append(errs,
				Fail("fault %s (%s) was never triggered on %s; set mayNotFire: true if that is expected", f.ID, f.Kind,
					on))
		}
	}
	return list, errors.Join(errs...)
}

// clearConnections clears the faults on connections.
func (e *Env) clearConnections(ctx context.Context) error {
	e.mu.Lock()
	left := e.onConnections
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
