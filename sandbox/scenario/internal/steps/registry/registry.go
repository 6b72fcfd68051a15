// Package registry executes steps of scenarios by their action.
package registry

import (
	"context"
	"fmt"
	"reflect"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/apply"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/assert"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/base"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/change"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/component"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/deletion"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/fault"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/release"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/script"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/sleep"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/wait"
)

// executors maps each action to its executor. The keys are the names of the fields of v1alpha1.Action. Groups of
// steps are missing, because the runner executes groups itself.
var executors = map[string]executor{
	"apply":             newExecutor(apply.Exec),
	"assert":            newExecutor(assert.Exec),
	"apiserver":         newExecutor(component.Exec("kube-apiserver")),
	"base":              newExecutor(base.Exec),
	"broker":            newExecutor(component.Exec("broker")),
	"controller":        newExecutor(component.Exec("module-controller")),
	"controllerManager": newExecutor(component.Exec("kube-controller-manager")),
	"delete":            newExecutor(deletion.Exec),
	"fault":             newExecutor(fault.Exec),
	"patch":             newExecutor(change.Patch),
	"release":           newExecutor(release.Exec),
	"rollback":          newExecutor(change.Rollback),
	"scale":             newExecutor(change.Scale),
	"scheduler":         newExecutor(component.Exec("kube-scheduler")),
	"script":            newExecutor(script.Exec),
	"sleep":             newExecutor(sleep.Exec),
	"traffic":           newExecutor(traffic.Exec),
	"wait":              newExecutor(wait.Exec),
}

type executor struct {
	of   reflect.Type // type of the field of v1alpha1.Action
	exec func(ctx context.Context, e *steps.Env, step any) (string, error)
}

func newExecutor[T any](f func(context.Context, *steps.Env, T) (string, error)) executor {
	return executor{reflect.TypeFor[T](), func(ctx context.Context, e *steps.Env, step any) (string, error) {
		return f(ctx, e, step.(T)) //nolint:forcetypeassert // A test compares the types.
	}}
}

// Exec executes an action that is not a group, and returns a description of its effect. An error that has evidence is
// a *steps.Failure.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Action) (string, error) {
	kind, step := a.Get()
	entry, known := executors[kind]
	if !known {
		return "", fmt.Errorf("the step has no action")
	}
	return entry.exec(ctx, e, step)
}
