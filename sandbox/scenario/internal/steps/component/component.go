// Package component executes the steps that act on a component: controller, broker, apiserver, controllerManager and
// scheduler.
package component

import (
	"context"
	"fmt"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec returns a function that executes steps for the component with the given name.
func Exec(name string) func(context.Context, *steps.Env, *v1alpha1.ComponentAction) (string, error) {
	return func(ctx context.Context, e *steps.Env, a *v1alpha1.ComponentAction) (string, error) {
		action := supervise.Action(a.Do)
		if !slices.Contains(supervise.Actions, action) {
			return "", steps.Fail("do: unknown action %q; supported: %v", a.Do, supervise.Actions)
		}
		name := name
		if a.Replica != nil && *a.Replica > 1 {
			name = fmt.Sprintf("%s-%d", name, *a.Replica)
		}
		if err := e.Sandbox.Act(ctx, control.ActRequest{Component: name, Action: action, Group: e.Group}); err != nil {
			return "", fmt.Errorf("%s %s: %w", a.Do, name, err)
		}
		return fmt.Sprintf("%s %s", a.Do, name), nil
	}
}
