package action

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

func (s *Stage) wait(ctx context.Context, a *v1alpha1.Wait) (string, error) {
	switch {
	case a.Rollout != nil:
		return s.progress(ctx, *a.Rollout, "the rollout of %s is complete", kube.Rollout)
	case a.Ready != nil:
		return s.progress(ctx, *a.Ready, "%s is Ready", kube.Ready)
	case a.Gone != nil:
		return s.gone(ctx, *a.Gone)
	case a.Quiet != nil:
		return s.quiet(ctx, a.Quiet.Duration)
	}
	return "", fmt.Errorf("the wait says nothing to wait for")
}

// progress waits until all objects of a Ref have come to where judge wants them; there must be one.
// Objects that are being deleted do not count.
func (s *Stage) progress(ctx context.Context, r v1alpha1.Ref, done string, judge func(*unstructured.Unstructured) kube.Progress) (string, error) {
	t, err := s.target(r)
	if err != nil {
		return "", err
	}
	if err := s.catchUp(ctx, t); err != nil {
		return "", err
	}
	last, object := kube.Progress{Message: "there is no " + t.String()}, (*unstructured.Unstructured)(nil)
	err = s.o.World.Until(ctx, func(v observe.View) (bool, error) {
		found, _ := v.Objects(t.subject, t.Name, t.Labels)
		looked := 0
		for _, o := range found {
			if o.GetDeletionTimestamp() != nil {
				continue
			}
			looked++
			last, object = judge(o), o
			if last.Failed || !last.Done {
				return last.Failed, nil
			}
		}
		if looked == 0 {
			last, object = kube.Progress{Message: "there is no " + t.String()}, nil
		}
		return looked > 0, nil
	})
	missing := func() *Failure {
		f := fail("%s", last.Message)
		if object == nil {
			return f
		}
		return s.because(ctx, object, f).with(lastSeen(object))
	}
	if err != nil {
		return "", ended(ctx, err, missing)
	}
	if last.Failed {
		return "", missing()
	}
	return fmt.Sprintf(done+": %s", t, last.Message), nil
}

// askingWhy is how long the API may take to say why an object is not as it should be.
const askingWhy = 10 * time.Second

// because adds to a failure why an object is not Ready, if koupsandbox why has an answer.
func (s *Stage) because(ctx context.Context, o *unstructured.Unstructured, f *Failure) *Failure {
	target, err := why.ParseTarget(o.GetKind()+"/"+o.GetName(), o.GetNamespace())
	if err != nil {
		return f // it is of another kind
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askingWhy) // the step's time is over
	defer cancel()
	found, err := why.Gather(ctx, s.o.Kube.Typed, target)
	if err != nil {
		return f // it is gone meanwhile, or the API is away
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
	return f.with("what to do, and what was looked at", strings.Join(lines, "\n"))
}

// catchUp waits until the World has seen what the API has now: a script may have written it.
func (s *Stage) catchUp(ctx context.Context, t target) error {
	if err := s.o.World.Follow(ctx, t.subject); err != nil {
		return err
	}
	now, err := s.o.Kube.Find(ctx, t.kind, t.Namespace, t.Name, t.Labels)
	if err != nil {
		return err
	}
	for _, o := range now {
		if err := s.o.World.Seen(ctx, t.subject, o); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stage) gone(ctx context.Context, r v1alpha1.Ref) (string, error) {
	t, err := s.target(r)
	if err != nil {
		return "", err
	}
	if err := s.catchUp(ctx, t); err != nil {
		return "", err
	}
	var left []*unstructured.Unstructured
	err = s.o.World.Until(ctx, func(v observe.View) (bool, error) {
		found, ever := v.Objects(t.subject, t.Name, t.Labels)
		left = found
		if len(found) == 0 && !ever {
			return false, fail("there has never been any %s, so that it is gone proves nothing", t)
		}
		return len(found) == 0, nil
	})
	if err != nil {
		return "", ended(ctx, err, func() *Failure {
			return fail("%d of %s are still there, such as %s", len(left), t, left[0].GetName()).with(lastSeen(left[0]))
		})
	}
	return t.String() + " is gone", nil
}

// lastSeen is an object as evidence.
func lastSeen(o *unstructured.Unstructured) (title, text string) {
	return fmt.Sprintf("%s %s, last seen", o.GetKind(), o.GetName()), match.Object(o.Object)
}
