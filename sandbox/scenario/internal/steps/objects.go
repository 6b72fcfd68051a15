package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// Subject returns what must be followed to see the objects of a kind.
func (e *Env) Subject(k kube.ResourceKind, namespace string) observe.Subject {
	switch {
	case k.Resource == observe.Nodes:
		return observe.NodesOf(e.Group)
	case !k.Namespaced:
		namespace = ""
	case namespace == "":
		namespace = e.Namespace
	}
	return observe.Subject{Resource: k.Resource, Namespace: namespace}
}

// ObjectRef is a Ref whose kind is known.
type ObjectRef struct {
	v1alpha1.Ref
	// Type is the kind as the API has it, Subject what the World follows to see its objects.
	Type    kube.ResourceKind
	Subject observe.Subject
}

// ResolveRef finds the kind of a Ref.
func (e *Env) ResolveRef(r v1alpha1.Ref) (ObjectRef, error) {
	k, err := e.Kube.FindKind(r.APIVersion, r.Kind)
	if err != nil {
		return ObjectRef{}, err
	}
	if r.Namespace == "" {
		r.Namespace = e.Namespace
	}
	return ObjectRef{r, k, e.Subject(k, r.Namespace)}, nil
}

// String names the objects.
func (t ObjectRef) String() string {
	if t.Name != "" {
		return t.Kind + " " + t.Name
	}
	if len(t.Labels) == 0 {
		return "object of kind " + t.Kind
	}
	pairs := make([]string, 0, len(t.Labels))
	for _, name := range slices.Sorted(maps.Keys(t.Labels)) {
		pairs = append(pairs, name+"="+t.Labels[name])
	}
	return t.Kind + " with the labels " + strings.Join(pairs, ",")
}

// Find returns the objects of a Target. There may be none.
func (e *Env) Find(ctx context.Context, t ObjectRef) ([]*unstructured.Unstructured, error) {
	return e.Kube.Find(ctx, t.Type, t.Namespace, t.Name, t.Labels)
}

// Change changes the object that a Ref names by write, and waits until the change is seen. It returns the text of write. It
// records a release if the Pod template of modules has changed. Write returns no object if it has changed nothing.
func (e *Env) Change(ctx context.Context, r v1alpha1.Ref, check v1alpha1.ReleaseCheck,
	write func(t ObjectRef, before *unstructured.Unstructured) (after *unstructured.Unstructured, text string, err error),
) (string, error) {
	t, err := e.ResolveRef(r)
	if err != nil {
		return "", err
	}
	found, err := e.Find(ctx, t)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", Fail("there is no %s", t)
	case len(found) > 1:
		return "", Fail("there are %d of %s, but this is done to one: give its name", len(found), t)
	}
	began := time.Now()
	after, text, err := write(t, found[0])
	if err != nil || after == nil {
		return text, err
	}
	e.RecordRelease(began, found[0], after, check)
	return text, e.Recorder.WaitForVersion(ctx, t.Subject, after)
}

// CheckRefusal judges an error of the API by what the step expects.
func CheckRefusal(err error, want string) (string, error) {
	switch {
	case want == "":
		return "", err
	case err == nil:
		return "", Fail("the API accepted it, but was to refuse it with %q", want)
	case !strings.Contains(err.Error(), want):
		return "", Fail("the API was to refuse it with %q, but said: %v", want, err)
	}
	return fmt.Sprintf("the API refused it, as it should: %v", err), nil
}

// WaitUntilDeleted waits until objects have left the API. The subject is followed since before they began to.
func (e *Env) WaitUntilDeleted(ctx context.Context, subject observe.Subject, leaving map[types.UID]string) error {
	var left []string
	err := e.Recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) {
		left = left[:0]
		there, _ := v.Objects(subject, "", nil)
		for _, o := range there {
			if _, ours := leaving[o.GetUID()]; ours {
				left = append(left, o.GetName())
			}
		}
		return len(left) == 0, nil
	})
	return TimeoutFailure(ctx, err, func() *Failure { return Fail("still there: %s", strings.Join(left, ", ")) })
}

// FollowKind follows a kind from now on, so that a later step finds it known. A kind that the API
// does not have yet is left for that step.
func (e *Env) FollowKind(ctx context.Context, r v1alpha1.Ref) error {
	t, err := e.ResolveRef(r)
	if err != nil {
		if meta.IsNoMatchError(errors.Unwrap(err)) {
			return nil
		}
		return err
	}
	return e.Recorder.Follow(ctx, t.Subject)
}

// CatchUp waits until the World has seen what the API has now: a script may have written it.
func (e *Env) CatchUp(ctx context.Context, t ObjectRef) error {
	if err := e.Recorder.Follow(ctx, t.Subject); err != nil {
		return err
	}
	now, err := e.Find(ctx, t)
	if err != nil {
		return err
	}
	for _, o := range now {
		if err := e.Recorder.WaitForVersion(ctx, t.Subject, o); err != nil {
			return err
		}
	}
	return nil
}

// LastSeen is an object as evidence.
func LastSeen(o *unstructured.Unstructured) (title, text string) {
	return fmt.Sprintf("%s %s, last seen", o.GetKind(), o.GetName()), match.Object(o.Object)
}
