// Package wait executes the step wait.
package wait

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// Exec waits for the condition of the step.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Wait) (string, error) {
	switch {
	case a.Rollout != nil:
		return waitProgress(ctx, e, *a.Rollout, "the rollout of %s is complete", kube.Rollout)
	case a.Ready != nil:
		return waitProgress(ctx, e, *a.Ready, "%s is Ready", kube.Ready)
	case a.Gone != nil:
		return waitDeleted(ctx, e, *a.Gone)
	case a.Quiet != nil:
		return untilQuiet(ctx, e, a.Quiet.Duration)
	}
	return e.Join(ctx, a.Step)
}

// waitProgress waits until at least one object matches the Ref and progressOf returns Done for all matching objects.
// It fails immediately if progressOf returns Failed. It ignores objects that are being deleted.
func waitProgress(ctx context.Context, e *steps.Env, r v1alpha1.Ref, done string,
	progressOf func(*unstructured.Unstructured) kube.Progress) (string, error) {
	t, err := e.ResolveRef(r)
	if err != nil {
		return "", err
	}
	if err := e.CatchUp(ctx, t); err != nil {
		return "", err
	}
	none := kube.Progress{Reason: kube.NotFound, Detail: t.String()}
	last, object := none, (*unstructured.Unstructured)(nil)
	err = e.Recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) {
		found, _ := v.Objects(t.Subject, t.Name, t.Labels)
		looked := 0
		for _, o := range found {
			if o.GetDeletionTimestamp() != nil {
				continue
			}
			looked++
			last, object = progressOf(o), o
			if last.Failed || !last.Done {
				return last.Failed, nil
			}
		}
		if looked == 0 {
			last, object = none, nil
		}
		return looked > 0, nil
	})
	missing := func() *steps.Failure {
		f := steps.Fail("%s", last)
		if object == nil {
			return f
		}
		return addExplanation(ctx, e, object, f).With(steps.LastSeen(object))
	}
	if err != nil {
		return "", steps.TimeoutFailure(ctx, err, missing)
	}
	if last.Failed {
		return "", missing()
	}
	return fmt.Sprintf(done+": %s", t, last), nil
}

const whyTimeout = 10 * time.Second

// addExplanation adds the explanation of "koupsandbox why" to a failure.
func addExplanation(ctx context.Context, e *steps.Env, o *unstructured.Unstructured, f *steps.Failure) *steps.Failure {
	target, err := why.ParseTarget(o.GetKind()+"/"+o.GetName(), o.GetNamespace())
	if err != nil {
		return f // why does not support the kind
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyTimeout) // the timeout of the step is over
	defer cancel()
	found, err := why.Gather(ctx, e.Kube.Typed, target)
	if err != nil {
		return f // the object was deleted, or the API is unavailable
	}
	a := why.Explain(found, time.Now())
	if a.Ready || a.Reason == why.Unknown {
		return f
	}
	f.Message += "; " + a.Cause
	lines := []string{a.Advice}
	for _, e := range a.Evidence {
		lines = append(lines, e.About+": "+e.Text)
	}
	return f.With("Advice and evidence", strings.Join(lines, "\n"))
}

func waitDeleted(ctx context.Context, e *steps.Env, r v1alpha1.Ref) (string, error) {
	t, err := e.ResolveRef(r)
	if err != nil {
		return "", err
	}
	if err := e.CatchUp(ctx, t); err != nil {
		return "", err
	}
	var left []*unstructured.Unstructured
	err = e.Recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) {
		found, ever := v.Objects(t.Subject, t.Name, t.Labels)
		left = found
		if len(found) == 0 && !ever {
			return false, steps.Fail("%s never existed, so its absence proves nothing", t)
		}
		return len(found) == 0, nil
	})
	if err != nil {
		return "", steps.TimeoutFailure(ctx, err, func() *steps.Failure {
			return steps.Fail("%s: %d not deleted yet, for example %s", t, len(left), left[0].GetName()).With(
				steps.LastSeen(left[0]))
		})
	}
	return t.String() + " was deleted", nil
}
