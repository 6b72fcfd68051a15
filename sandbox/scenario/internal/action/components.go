package action

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// The names of components.
const (
	firstController       = "module-controller"
	brokerName            = "broker"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
)

func controllerName(a *v1alpha1.ComponentAction) string {
	if a.Replica == nil || *a.Replica <= 1 {
		return firstController
	}
	return fmt.Sprintf("%s-%d", firstController, *a.Replica)
}

func (s *Stage) component(ctx context.Context, name string, a *v1alpha1.ComponentAction) (string, error) {
	action := component.Action(a.Do)
	if !slices.Contains(component.Actions, action) {
		return "", fail("do: %q is nothing that can be done to a component", a.Do)
	}
	if err := s.o.Sandbox.Act(ctx, control.ActRequest{Component: name, Action: action, Group: s.o.Group}); err != nil {
		return "", fmt.Errorf("%s of %s: %w", a.Do, name, err)
	}
	return fmt.Sprintf("%s of %s", a.Do, name), nil
}

// Repair ends the faults on connections that the run has left, and undoes what it has done to components. The
// controllers stay what the scenario needs: bringing them back restarts them.
func (s *Stage) Repair(ctx context.Context) error {
	return errors.Join(s.clearConnections(ctx), s.o.Sandbox.Repair(ctx, control.RepairRequest{Group: s.o.Group}))
}

// Restore brings the controllers back to what they were before the run; Repair comes first.
func (s *Stage) Restore(ctx context.Context) error {
	return s.o.Sandbox.Repair(ctx, control.RepairRequest{Group: s.o.Group, Controllers: true})
}
