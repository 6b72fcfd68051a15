// Package patch executes the step patch.
package patch

import (
	"context"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec patches an object and waits until the change is seen.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Patch) (string, error) {
	t, o, err := e.FindOne(ctx, a.Ref)
	if err != nil {
		return "", err
	}
	began := time.Now()
	written, err := e.Kube.Patch(ctx, t.Type, t.Namespace, o.GetName(), a.Type, match.Plain(a.Patch))
	if refusal, err := steps.Refused(err, a.Refused); err != nil || refusal != "" {
		return refusal, err
	}
	e.Released(began, o, written, a.ReleaseCheck)
	return "patched " + t.Kind + " " + o.GetName(), e.World.Seen(ctx, t.Subject, written)
}
