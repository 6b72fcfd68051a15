package action

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
)

// The names of components.
const (
	firstController = "module-controller"
	brokerName      = "broker"
	apiServerName   = "kube-apiserver"
)

func controllerName(a *v1alpha1.ComponentAction) string {
	if a.Replica == nil || *a.Replica <= 1 {
		return firstController
	}
	return fmt.Sprintf("%s-%d", firstController, *a.Replica)
}

// repair is what brings a component back to what it was.
type repair component.Action

// repairs says what undoes an action on a component; empty = nothing is to be undone any more.
var repairs = map[component.Action]repair{
	component.Kill: repair(component.Start), component.Stop: repair(component.Start), component.Pause: repair(component.Resume),
	component.Resume: "", component.Restart: "", component.Start: "",
}

func (s *Stage) component(ctx context.Context, name string, a *v1alpha1.ComponentAction) (string, error) {
	action := component.Action(a.Do)
	undo, known := repairs[action]
	if !known {
		return "", fail("do: %q is nothing that can be done to a component", a.Do)
	}
	s.mu.Lock()
	s.touched[name] = undo // even if the action fails: it may have begun
	s.mu.Unlock()
	if err := s.o.Sandbox.Act(ctx, name, action); err != nil {
		return "", fmt.Errorf("%s of %s: %w", a.Do, name, err)
	}
	return fmt.Sprintf("%s of %s", a.Do, name), nil
}

// Repair ends the rules of the API that the run has left, and starts and resumes the components that
// it has left ended or paused, the controllers last.
func (s *Stage) Repair(ctx context.Context) error {
	s.mu.Lock()
	left := maps.Clone(s.touched)
	s.mu.Unlock()
	errs := []error{s.restoreAPI(ctx)}
	for _, name := range slices.Sorted(maps.Keys(left)) { // which puts the controllers last
		if left[name] == "" {
			continue
		}
		if err := s.o.Sandbox.Act(ctx, name, component.Action(left[name])); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", left[name], name, err))
			continue
		}
		s.mu.Lock()
		delete(s.touched, name)
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}
