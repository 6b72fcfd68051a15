package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
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

func (s *Stage) fault(ctx context.Context, a *v1alpha1.FaultAction) (string, error) {
	switch {
	case a.Set != nil:
		return s.setFault(ctx, a.Set)
	case a.Clear != nil:
		return s.clearFaults(ctx, a.Clear)
	case a.Await != nil:
		return s.awaitFaults(ctx, a.Await)
	}
	return "", errors.New("the fault step has no action: set set, clear or await")
}

func (s *Stage) setFault(ctx context.Context, a *v1alpha1.FaultSet) (string, error) {
	bases, hosts, err := s.faultBases(a.Bases)
	if err != nil {
		return "", err
	}
	i := fault.Injection{Fault: s.named(a.Fault), Target: a.Target, Bases: hosts, Group: s.o.Group}
	if a.Replica != nil {
		i.Replica = *a.Replica
	}
	if a.Target != v1alpha1.TargetBase && (i.Probability != 0 || i.Delay.Spread != 0) { // bases have the seed of the run
		i.Seed = cmp.Or(i.Seed, s.o.Seed)
	}
	s.watch(i.Fault, a.Target, bases)
	if _, err := s.o.Sandbox.SetFault(ctx, i); err != nil {
		return "", fmt.Errorf("setting the fault %s: %w", i.ID, err)
	}
	on := strings.Join(bases, ", ")
	if a.Target != v1alpha1.TargetBase {
		on = strings.TrimSpace(string(a.Target) + " " + on)
	}
	return fmt.Sprintf("set fault %s (%s) on %s", i.ID, i.Kind, on), nil
}

// faultBases returns the bases that names stand for, and their host names; none if there are no names.
func (s *Stage) faultBases(names v1alpha1.BaseNames) (short, hosts []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	bases, err := s.resolve(names)
	for _, b := range bases {
		short, hosts = append(short, b.Name), append(hosts, s.host(b.Name))
	}
	return short, hosts, err
}

// named returns a fault with an id.
func (s *Stage) named(f v1alpha1.Fault) v1alpha1.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.ID == "" {
		s.unnamed++
		f.ID = fmt.Sprintf("%s-%d", f.Kind, s.unnamed)
	}
	return f
}

// watch notes that a fault is set.
func (s *Stage) watch(f v1alpha1.Fault, target v1alpha1.FaultTarget, bases []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if target != v1alpha1.TargetBase {
		s.onConnections = true
	}
	if target.Observed(f.Kind) {
		s.faults = append(s.faults, FaultRun{ID: f.ID, Kind: string(f.Kind), Target: target, MayNotFire: f.MayNotFire, bases: bases})
	}
}

// Faults returns the faults that the run has set, with how often they were triggered by the events of the
// run. The error lists those that had to be triggered and were not.
func (s *Stage) Faults(all []events.Event) ([]FaultRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.faults)
	var errs []error
	for i := range list {
		f := &list[i]
		for _, e := range all {
			x := e.Fault
			if x != nil && x.Change == events.FaultFired && x.ID == f.ID && x.Target == f.Target && (x.Base == "" || slices.Contains(f.bases, x.Base)) {
				f.Fired++
			}
		}
		if f.Fired == 0 && !f.MayNotFire {
			on := cmp.Or(strings.Join(f.bases, ", "), "target "+string(f.Target))
			errs = append(errs, fail("fault %s (%s) was never triggered on %s; set mayNotFire: true if that is expected", f.ID, f.Kind, on))
		}
	}
	return list, errors.Join(errs...)
}

// selector returns the faults of the run that a step selects.
func (s *Stage) selector(a *v1alpha1.FaultSelector) (control.FaultSelector, error) {
	_, hosts, err := s.faultBases(a.Bases)
	return control.FaultSelector{Group: s.o.Group, Target: a.Target, Bases: hosts, IDs: a.IDs}, err
}

func (s *Stage) clearFaults(ctx context.Context, a *v1alpha1.FaultSelector) (string, error) {
	selector, err := s.selector(a)
	if err == nil {
		err = s.o.Sandbox.ClearFaults(ctx, selector)
	}
	if err != nil {
		return "", fmt.Errorf("clearing faults: %w", err)
	}
	return "cleared faults " + cmp.Or(strings.Join(a.IDs, ", "), strings.Join(a.Bases, ", "), string(a.Target)), nil
}

// awaitEvery is how often the faults are listed.
const awaitEvery = 20 * time.Millisecond

// awaitFaults waits until faults have ended.
func (s *Stage) awaitFaults(ctx context.Context, a *v1alpha1.FaultSelector) (string, error) {
	selector, err := s.selector(a)
	if err != nil {
		return "", err
	}
	var waiting []string
	err = poll(ctx, awaitEvery, func() (bool, error) {
		now, err := s.o.Sandbox.Faults(ctx, s.o.Group)
		if err != nil {
			return false, fmt.Errorf("listing the faults: %w", err)
		}
		waiting = nil
		for _, f := range now.Faults {
			if f.Ended == "" && selector.Matches(f.Injection) {
				waiting = append(waiting, fmt.Sprintf("%s, which was triggered %d times", f.ID, f.Fired))
			}
		}
		return len(waiting) == 0, nil
	})
	if err != nil {
		return "", ended(ctx, err, func() *Failure { return fail("faults have not ended: %s", strings.Join(waiting, "; ")) })
	}
	return "faults have ended: " + strings.Join(a.IDs, ", "), nil
}

// poll calls is until it returns true or an error, or ctx ends.
func poll(ctx context.Context, every time.Duration, is func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if done, err := is(); ctx.Err() == nil && (done || err != nil) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// clearConnections ends the faults on connections that the run has left.
func (s *Stage) clearConnections(ctx context.Context) error {
	s.mu.Lock()
	left := s.onConnections
	s.mu.Unlock()
	if !left {
		return nil
	}
	var errs []error
	for _, target := range []v1alpha1.FaultTarget{v1alpha1.TargetAPI, v1alpha1.TargetMQTT} {
		errs = append(errs, s.o.Sandbox.ClearFaults(ctx, control.FaultSelector{Group: s.o.Group, Target: target}))
	}
	return errors.Join(errs...)
}
