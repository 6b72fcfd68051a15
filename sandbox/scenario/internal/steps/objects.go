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

// Subject returns the subject that selects the objects of a kind for a watch. An empty namespace means the namespace
// of the run.
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

// ObjectRef is a Ref with the API resource of its kind.
type ObjectRef struct {
	v1alpha1.Ref
	// Type is the API resource of the kind. Subject selects the objects of the Ref for a watch.
	Type    kube.ResourceKind
	Subject observe.Subject
}

// ResolveRef finds the API resource of a Ref.
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

// String describes the referenced objects.
func (t ObjectRef) String() string {
	if t.Name != "" {
		return t.Kind + " " + t.Name
	}
	if len(t.Labels) == 0 {
		return t.Kind
	}
	pairs := make([]string, 0, len(t.Labels))
	for _, name := range slices.Sorted(maps.Keys(t.Labels)) {
		pairs = append(pairs, name+"="+t.Labels[name])
	}
	return t.Kind + " with labels " + strings.Join(pairs, ",")
}

// Find returns the referenced objects. It returns no error if no object exists.
func (e *Env) Find(ctx context.Context, t ObjectRef) ([]*unstructured.Unstructured, error) {
	return e.Kube.Find(ctx, t.Type, t.Namespace, t.Name, t.Labels)
}

// Change calls write to change the object that a Ref identifies, waits until the run has observed the change, and
// returns the text from write. If write has changed the module Pod template, Change records a release. write must
// return a nil object if it has changed nothing.
func (e *Env) Change(ctx context.Context, r v1alpha1.Ref, check v1alpha1.ReleaseCheck,
	write func(t ObjectRef, before *unstructured.Unstructured) (after *unstructured.Unstructured, text string,
		err error),
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
		return "", Fail("%s not found", t)
	case len(found) > 1:
		return "", Fail("%d objects match %s, but the step changes only one; specify its name", len(found), t)
	}
	began := time.Now()
	after, text, err := write(t, found[0])
	if err != nil || after == nil {
		return text, err
	}
	e.RecordRelease(began, found[0], after, check)
	return text, e.Recorder.WaitForVersion(ctx, t.Subject, after)
}

// CheckRefusal checks whether the API has rejected a request as the step expects. want is the expected part of the
// error; if it is empty, CheckRefusal returns err. If err contains want, CheckRefusal returns a message. Otherwise,
// it returns a Failure.
func CheckRefusal(err error, want string) (string, error) {
	switch {
	case want == "":
		return "", err
	case err == nil:
		return "", Fail("expected the API to reject it with %q, but the API accepted it", want)
	case !strings.Contains(err.Error(), want):
		return "", Fail("expected the API to reject it with %q, got: %v", want, err)
	}
	return fmt.Sprintf("rejected by the API as expected: %v", err), nil
}

// WaitUntilDeleted waits until objects are deleted from the API. The caller must start to watch the subject before it
// deletes the objects.
func (e *Env) WaitUntilDeleted(ctx context.Context, subject observe.Subject, deleting map[types.UID]string) error {
	var left []string
	err := e.Recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) {
		left = left[:0]
		existing, _ := v.Objects(subject, "", nil)
		for _, o := range existing {
			if _, ok := deleting[o.GetUID()]; ok {
				left = append(left, o.GetName())
			}
		}
		return len(left) == 0, nil
	})
	return TimeoutFailure(ctx, err, func() *Failure { return Fail("not deleted yet: %s", strings.Join(left, ", ")) })
}

// FollowKind starts to watch the objects of a Ref before a step needs them. It ignores a kind that does not exist in
// the API yet.
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

// CatchUp waits until the Recorder has observed all objects that the API currently contains, for example objects that
// a script has written.
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

// LastSeen returns the last observed state of an object as evidence.
func LastSeen(o *unstructured.Unstructured) (title, text string) {
	return fmt.Sprintf("%s %s, last observed", o.GetKind(), o.GetName()), match.Object(o.Object)
}
