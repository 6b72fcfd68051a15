package action

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// subject is what must be followed to see the objects of a kind.
func (s *Stage) subject(k kube.Kind, namespace string) observe.Subject {
	switch {
	case k.Resource == observe.Nodes:
		return observe.NodesOf(s.o.Group)
	case !k.Namespaced:
		namespace = ""
	case namespace == "":
		namespace = s.o.Namespace
	}
	return observe.Subject{Resource: k.Resource, Namespace: namespace}
}

// target is the kind that a Ref names, and where it is seen.
type target struct {
	v1alpha1.Ref
	kind    kube.Kind
	subject observe.Subject
}

func (s *Stage) target(r v1alpha1.Ref) (target, error) {
	k, err := s.o.Kube.Kind(r.APIVersion, r.Kind)
	if err != nil {
		return target{}, err
	}
	if r.Namespace == "" {
		r.Namespace = s.o.Namespace
	}
	return target{r, k, s.subject(k, r.Namespace)}, nil
}

func (t target) String() string {
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

// errNotFound is behind the failure of find where no object is so.
var errNotFound = errors.New("not found")

// find returns the objects that a Ref names; that there are none is a failure.
func (s *Stage) find(ctx context.Context, r v1alpha1.Ref) (target, []*unstructured.Unstructured, error) {
	t, err := s.target(r)
	if err != nil {
		return t, nil, err
	}
	found, err := s.o.Kube.Find(ctx, t.kind, t.Namespace, t.Name, t.Labels)
	switch {
	case err != nil:
		return t, nil, err
	case len(found) == 0:
		none := fail("there is no %s", t)
		none.cause = errNotFound
		return t, nil, none
	}
	return t, found, nil
}

// findOne is find for actions on one object.
func (s *Stage) findOne(ctx context.Context, r v1alpha1.Ref) (target, *unstructured.Unstructured, error) {
	t, found, err := s.find(ctx, r)
	switch {
	case err != nil:
		return t, nil, err
	case len(found) > 1:
		return t, nil, fail("there are %d of %s, but this is done to one: give its name", len(found), t)
	}
	return t, found[0], nil
}

// refused judges an error of the API by what the step expects.
func refused(err error, want string) (string, error) {
	switch {
	case want == "" || err == nil && want == "":
		return "", err
	case err == nil:
		return "", fail("the API accepted it, but was to refuse it with %q", want)
	case !strings.Contains(err.Error(), want):
		return "", fail("the API was to refuse it with %q, but said: %v", want, err)
	}
	return fmt.Sprintf("the API refused it, as it should: %v", err), nil
}

func (s *Stage) apply(ctx context.Context, a *v1alpha1.Apply) (string, error) {
	objects, err := s.manifest(a)
	if err != nil {
		return "", err
	}
	if len(objects) == 0 {
		return "", fail("%s has no objects", a.File)
	}
	var done, refusals []string
	for _, o := range objects {
		o = kube.Bind(o, s.o.Group)
		before, err := s.present(ctx, o)
		if err != nil {
			return "", err
		}
		began := time.Now()
		k, written, err := s.o.Kube.Apply(ctx, o, s.o.Namespace)
		if refusal, err := refused(err, a.Refused); err != nil {
			return "", err
		} else if refusal != "" {
			refusals = append(refusals, refusal)
			continue
		}
		s.released(began, before, written, a.Release)
		if err := s.o.World.Seen(ctx, s.subject(k, written.GetNamespace()), written); err != nil {
			return "", err
		}
		done = append(done, written.GetKind()+" "+written.GetName())
	}
	if len(refusals) > 0 {
		return strings.Join(refusals, "; "), nil
	}
	return "applied " + strings.Join(done, ", "), nil
}

// manifest returns the objects of an apply.
func (s *Stage) manifest(a *v1alpha1.Apply) (objects []*unstructured.Unstructured, err error) {
	add := func(object any) {
		content, _ := match.Plain(object).(map[string]any)
		v1alpha1.EachObject(content, nil, func(o map[string]any, _ *field.Path) {
			objects = append(objects, &unstructured.Unstructured{Object: o})
		})
	}
	if a.File == "" {
		add(a.Resource)
		return objects, nil
	}
	text, err := os.ReadFile(filepath.Join(s.o.Folder, a.File))
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	env, known, err := s.fileEnv(a.Vars)
	if err != nil {
		return nil, fmt.Errorf("the variables of %s: %w", a.File, err)
	}
	sources, problems := strictyaml.ParseAll(a.File, text)
	for _, source := range sources {
		content := map[string]any{}
		_, more := source.Decode(&content, strictyaml.Options{})
		if problems = append(problems, more...); len(problems) > 0 {
			break
		}
		expanded, err := env.Expand(content, known)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", a.File, err)
		}
		add(expanded)
	}
	return objects, problems.Err()
}

// fileEnv knows the variables of a file beside those of the scenario.
func (s *Stage) fileEnv(vars map[string]v1alpha1.Any) (*expr.Env, expr.Data, error) {
	known := s.Known()
	if len(vars) == 0 {
		return s.env, known, nil
	}
	merged := maps.Clone(s.o.Vars)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, v := range vars {
		merged[name] = match.Plain(v)
	}
	static := s.o.Static
	static.Vars = merged
	env, err := expr.New(static)
	known["vars"] = merged
	return env, known, err
}

func (s *Stage) patch(ctx context.Context, a *v1alpha1.Patch) (string, error) {
	t, o, err := s.findOne(ctx, a.Ref)
	if err != nil {
		return "", err
	}
	began := time.Now()
	written, err := s.o.Kube.Patch(ctx, t.kind, t.Namespace, o.GetName(), a.Type, match.Plain(a.Patch))
	if refusal, err := refused(err, a.Refused); err != nil || refusal != "" {
		return refusal, err
	}
	s.released(began, o, written, a.Release)
	return "patched " + t.Kind + " " + o.GetName(), s.o.World.Seen(ctx, t.subject, written)
}

func (s *Stage) scale(ctx context.Context, a *v1alpha1.Scale) (string, error) {
	replicas, ok := match.Plain(a.Replicas).(int64)
	if f, isFloat := match.Plain(a.Replicas).(float64); isFloat && f == float64(int64(f)) {
		replicas, ok = int64(f), true
	}
	if !ok || replicas < 0 {
		return "", fail("replicas: %v is no number of replicas", a.Replicas)
	}
	t, o, err := s.findOne(ctx, a.Ref)
	if err != nil {
		return "", err
	}
	written, err := s.o.Kube.Scale(ctx, t.kind, t.Namespace, o.GetName(), replicas)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("scaled %s %s to %d", t.Kind, o.GetName(), replicas), s.o.World.Seen(ctx, t.subject, written)
}

func (s *Stage) rollback(ctx context.Context, a *v1alpha1.Rollback) (string, error) {
	t, o, err := s.findOne(ctx, a.Ref)
	if err != nil {
		return "", err
	}
	var to int64
	if a.Revision != nil {
		to = *a.Revision
	}
	began := time.Now()
	revision, written, err := s.o.Kube.Rollback(ctx, t.kind, t.Namespace, o.GetName(), to)
	if err != nil {
		return "", err
	}
	s.released(began, o, written, a.Release)
	return fmt.Sprintf("took %s %s back to revision %d", t.Kind, o.GetName(), revision), s.o.World.Seen(ctx, t.subject, written)
}

func (s *Stage) remove(ctx context.Context, a *v1alpha1.Delete) (string, error) {
	t, found, err := s.find(ctx, a.Ref)
	if a.IgnoreNotFound && errors.Is(err, errNotFound) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	var grace *int64
	if a.GracePeriod != nil {
		seconds := int64(a.GracePeriod.Seconds())
		grace = &seconds
	}
	if err := s.o.World.Follow(ctx, t.subject); err != nil { // before, so that the end is seen
		return "", err
	}
	gone := map[types.UID]string{}
	for _, o := range found {
		err := s.o.Kube.Delete(ctx, t.kind, o, grace)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // somebody was faster
			continue
		}
		if err != nil {
			return "", err
		}
		gone[o.GetUID()] = o.GetName()
	}
	text := fmt.Sprintf("deleted %d of %s", len(found), t)
	if t.Name != "" {
		text = "deleted " + t.String()
	}
	if a.NoWait {
		return text, nil
	}
	return text, s.untilGone(ctx, t.subject, gone)
}

// untilGone waits until objects have left the API. The subject is followed since before they began to.
func (s *Stage) untilGone(ctx context.Context, subject observe.Subject, leaving map[types.UID]string) error {
	var left []string
	err := s.o.World.Until(ctx, func(v observe.View) (bool, error) {
		left = left[:0]
		there, _ := v.Objects(subject, "", nil)
		for _, o := range there {
			if _, ours := leaving[o.GetUID()]; ours {
				left = append(left, o.GetName())
			}
		}
		return len(left) == 0, nil
	})
	return ended(ctx, err, func() *Failure { return fail("still there: %s", strings.Join(left, ", ")) })
}

// References are the kinds that an action names, so that they can be followed from the beginning of
// a run.
func References(a *v1alpha1.Action) []v1alpha1.Ref {
	var refs []v1alpha1.Ref
	add := func(r *v1alpha1.Ref) {
		if r != nil {
			refs = append(refs, *r)
		}
	}
	switch {
	case a.Patch != nil:
		add(&a.Patch.Ref)
	case a.Delete != nil:
		add(&a.Delete.Ref)
	case a.Scale != nil:
		add(&a.Scale.Ref)
	case a.Rollback != nil:
		add(&a.Rollback.Ref)
	case a.Wait != nil:
		add(a.Wait.Rollout)
		add(a.Wait.Ready)
		add(a.Wait.Gone)
	case a.Assert != nil && a.Assert.Resource != nil:
		r := refOf(a.Assert.Resource)
		add(&r)
	}
	return refs
}

// Prefollow follows a kind from now on, so that a later step finds it known. A kind that the API
// does not have yet is left for that step.
func (s *Stage) Prefollow(ctx context.Context, r v1alpha1.Ref) error {
	t, err := s.target(r)
	if err != nil {
		if meta.IsNoMatchError(errors.Unwrap(err)) {
			return nil
		}
		return err
	}
	return s.o.World.Follow(ctx, t.subject)
}
