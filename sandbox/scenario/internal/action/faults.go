package action

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// FaultRun is a fault of the run that happens again and again, and on how many occasions it has.
type FaultRun struct {
	ID, Kind string
	// Fired counts on all bases that have it.
	Fired int
	// MayNotFire allows that it is never.
	MayNotFire bool

	bases []string
}

func (s *Stage) fault(ctx context.Context, a *v1alpha1.FaultAction) (string, error) {
	if a.Set != nil {
		return s.setFault(ctx, a.Set)
	}
	if a.Clear != nil {
		return s.clearFaults(ctx, a.Clear)
	}
	return "", fmt.Errorf("the step says nothing to do with faults")
}

func (s *Stage) setFault(ctx context.Context, a *v1alpha1.FaultSet) (string, error) {
	bases, err := s.resolve(a.Bases)
	if err != nil {
		return "", err
	}
	f, names := s.named(a.Fault), make([]string, len(bases))
	text := compact(match.Plain(f))
	for i, b := range bases {
		names[i] = b.Name
		if _, err := s.o.Sandbox.Inject(ctx, s.host(b.Name), []byte(text)); err != nil {
			return "", fmt.Errorf("setting the fault on %s: %w", b.Name, err)
		}
	}
	s.watch(f, names)
	return fmt.Sprintf("set fault %v on %s", a.Fault["kind"], namesOf(bases)), nil
}

// named is a fault with an id, by which events tell of it.
func (s *Stage) named(f v1alpha1.Object) v1alpha1.Object {
	if id, _ := f["id"].(string); id != "" {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unnamed++
	f = maps.Clone(f)
	f["id"] = fmt.Sprintf("fault-%d", s.unnamed)
	return f
}

// watch notes that bases have a fault now.
func (s *Stage) watch(f v1alpha1.Object, bases []string) {
	run := FaultRun{bases: bases}
	run.ID, _ = f["id"].(string)
	run.Kind, _ = f["kind"].(string)
	run.MayNotFire, _ = f["mayNotFire"].(bool)
	if fault.Kind(run.Kind).Lasts() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, run)
}

// Faults are the faults that the run has set, with what they have done by the events of the run. The
// last is an error when one was to do something and has not.
func (s *Stage) Faults(events []timeline.Event) ([]FaultRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.faults)
	var errs []error
	for i := range list {
		f := &list[i]
		for _, e := range events {
			if e.Kind == timeline.Fault && timeline.FaultChange(e.State) == timeline.FaultFired && e.Name == f.ID && slices.Contains(f.bases, e.Base) {
				f.Fired++
			}
		}
		if f.Fired == 0 && !f.MayNotFire {
			errs = append(errs, fail("the fault %s (%s) never fired: nothing that it is about has happened on %s; mayNotFire: true allows that", f.ID, f.Kind, strings.Join(f.bases, ", ")))
		}
	}
	return list, errors.Join(errs...)
}

func (s *Stage) clearFaults(ctx context.Context, a *v1alpha1.FaultClear) (string, error) {
	bases, err := s.resolve(a.Bases)
	if err != nil {
		return "", err
	}
	for _, b := range bases {
		if err := s.o.Sandbox.ClearFaults(ctx, s.host(b.Name), a.IDs...); err != nil {
			return "", fmt.Errorf("clearing faults of %s: %w", b.Name, err)
		}
	}
	return "cleared the faults of " + namesOf(bases), nil
}
