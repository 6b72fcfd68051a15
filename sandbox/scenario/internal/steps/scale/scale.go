// Package scale executes the step scale.
package scale

import (
	"context"
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec scales a workload and waits until the change is seen.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Scale) (string, error) {
	replicas, ok := match.Plain(a.Replicas).(int64)
	if f, isFloat := match.Plain(a.Replicas).(float64); isFloat && f == float64(int64(f)) {
		replicas, ok = int64(f), true
	}
	if !ok || replicas < 0 {
		return "", steps.Fail("replicas: %v is no number of replicas", a.Replicas)
	}
	t, o, err := e.FindOne(ctx, a.Ref)
	if err != nil {
		return "", err
	}
	written, err := e.Kube.Scale(ctx, t.Type, t.Namespace, o.GetName(), replicas)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("scaled %s %s to %d", t.Kind, o.GetName(), replicas), e.World.Seen(ctx, t.Subject, written)
}
