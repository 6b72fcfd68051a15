// Package change executes the steps patch, scale and rollback, which change one object.
package change

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Patch patches an object and waits until the run has observed the change.
func Patch(ctx context.Context, e *steps.Env, a *v1alpha1.Patch) (text string, err error) {
	return e.Change(ctx, a.Ref, a.ReleaseCheck,
		func(t steps.ObjectRef, _ *unstructured.Unstructured) (*unstructured.Unstructured, string, error) {
			written, err := e.Kube.Patch(ctx, t.Type, t.Namespace, t.Name, a.Type, match.Normalize(a.Patch))
			if refusal, err := steps.CheckRefusal(err, a.Refused); err != nil || refusal != "" {
				return nil, refusal, err
			}
			return written, fmt.Sprintf("patched %s", t), nil
		})
}

// Scale sets the replicas of a workload and waits until the run has observed the change.
func Scale(ctx context.Context, e *steps.Env, a *v1alpha1.Scale) (string, error) {
	replicas, ok := match.Normalize(a.Replicas).(int64)
	if f, isFloat := match.Normalize(a.Replicas).(float64); isFloat && f == float64(int64(f)) {
		replicas, ok = int64(f), true
	}
	if !ok || replicas < 0 {
		return "", steps.Fail("replicas: invalid value %v; use an integer of at least 0", a.Replicas)
	}
	return e.Change(ctx, a.Ref, v1alpha1.ReleaseCheck{},
		func(t steps.ObjectRef, _ *unstructured.Unstructured) (*unstructured.Unstructured, string, error) {
			written, err := e.Kube.Scale(ctx, t.Type, t.Namespace, t.Name, replicas)
			return written, fmt.Sprintf("scaled %s to %d", t, replicas), err
		})
}

// Rollback rolls a workload back to an earlier revision and waits until the run has observed the change.
func Rollback(ctx context.Context, e *steps.Env, a *v1alpha1.Rollback) (string, error) {
	return e.Change(ctx, a.Ref, a.ReleaseCheck,
		func(t steps.ObjectRef, _ *unstructured.Unstructured) (*unstructured.Unstructured, string, error) {
			revision, written, err := e.Kube.Rollback(ctx, t.Type, t.Namespace, t.Name, ptr.Deref(a.Revision, 0))
			return written, fmt.Sprintf("rolled %s back to revision %d", t, revision), err
		})
}
