// Package registry has the table of the steps of scenarios.
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

// table has the execution of each step, by the name of the field of v1alpha1.Action. The runner executes groups itself.
var table = map[string]entry{
	"apply":             of(apply.Exec),
	"assert":            of(assert.Exec),
	"apiserver":         of(component.On("kube-apiserver")),
	"base":              of(base.Exec),
	"broker":            of(component.On("broker")),
	"controller":        of(component.On("module-controller")),
	"controllerManager": of(component.On("kube-controller-manager")),
	"delete":            of(deletion.Exec),
	"fault":             of(fault.Exec),
	"patch":             of(change.Patch),
	"release":           of(release.Exec),
	"rollback":          of(change.Rollback),
	"scale":             of(change.Scale),
	"scheduler":         of(component.On("kube-scheduler")),
	"script":            of(script.Exec),
	"sleep":             of(sleep.Exec),
	"traffic":           of(traffic.Exec),
	"wait":              of(wait.Exec),
}

type entry struct {
	of   reflect.Type // of the field
	exec func(ctx context.Context, e *steps.Env, step any) (string, error)
}

func of[T any](f func(context.Context, *steps.Env, T) (string, error)) entry {
	return entry{reflect.TypeFor[T](), func(ctx context.Context, e *steps.Env, step any) (string, error) {
		return f(ctx, e, step.(T)) //nolint:forcetypeassert // A test compares the types.
	}}
}

// Exec executes a step that is not a group, and returns what it did. A *steps.Failure has details of an error.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Action) (string, error) {
	kind, step := a.Get()
	entry, known := table[kind]
	if !known {
		return "", fmt.Errorf("the step has no action")
	}
	return entry.exec(ctx, e, step)
}
