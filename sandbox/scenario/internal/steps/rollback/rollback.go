// Package rollback executes the step rollback.
package rollback

import (
	"context"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec rolls a workload back and waits until the change is seen.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Rollback) (string, error) {
	t, o, err := e.FindOne(ctx, a.Ref)
	if err != nil {
		return "", err
	}
	var to int64
	if a.Revision != nil {
		to = *a.Revision
	}
	began := time.Now()
	revision, written, err := e.Kube.Rollback(ctx, t.Type, t.Namespace, o.GetName(), to)
	if err != nil {
		return "", err
	}
	e.Released(began, o, written, a.ReleaseCheck)
	return fmt.Sprintf("took %s %s back to revision %d", t.Kind, o.GetName(), revision), e.World.Seen(ctx, t.Subject, written)
}
