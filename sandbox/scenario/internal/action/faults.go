package action

import (
	"context"
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
)

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
	text := compact(match.Plain(a.Fault))
	for _, b := range bases {
		if _, err := s.o.Sandbox.Inject(ctx, s.host(b.Name), []byte(text)); err != nil {
			return "", fmt.Errorf("setting the fault on %s: %w", b.Name, err)
		}
	}
	return fmt.Sprintf("set fault %v on %s", a.Fault["kind"], namesOf(bases)), nil
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
