package steps

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
)

// ReleaseRun is a release: a change of the Pod template of a workload, and the effect of the change on bases.
type ReleaseRun struct {
	// Workload is the kind and the name of the workload, separated by a space.
	Workload string
	// Changes is the number of module changes on bases between this release and the next release of the same
	// workload.
	Changes int
	// MayChangeNothing means that the run may pass although the release changes no module.
	MayChangeNothing bool

	object                   *unstructured.Unstructured // workload as written by the step
	oldTemplate, newTemplate map[string]any             // Pod templates before and after the release
	began                    time.Time
	until                    time.Time // start of the next release of the workload; zero means the end of the run
	// ignored is true if the release was incomplete when the next release started, or if the release reverts an
	// incomplete release.
	ignored bool
}

func (r *ReleaseRun) modules() []string {
	list := slices.Sorted(slices.Values(append(kube.Modules(r.oldTemplate), kube.Modules(r.newTemplate)...)))
	return slices.Compact(list)
}

// ExistingWorkload returns the current state of a workload before a step writes it; nil if the workload does not exist,
// or if the object is not a workload with modules.
func (e *Env) ExistingWorkload(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if _, releases := kube.Template(o); !releases {
		return nil, nil
	}
	k, err := e.Kube.FindKind(o.GetAPIVersion(), o.GetKind())
	if err != nil {
		return nil, err
	}
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = e.Namespace
	}
	found, err := e.Kube.Find(ctx, k, namespace, o.GetName(), nil)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// RecordRelease records a release if a step has changed the module Pod template of a workload. before is the workload
// before the step; nil if the step has created the workload.
func (e *Env) RecordRelease(began time.Time, before, after *unstructured.Unstructured, may v1alpha1.ReleaseCheck) {
	if before == nil {
		return
	}
	was, releases := kube.Template(before)
	is, still := kube.Template(after)
	if !releases || !still || reflect.DeepEqual(was, is) {
		return
	}
	r := ReleaseRun{
		Workload: after.GetKind() + " " + after.GetName(), MayChangeNothing: may.MayChangeNothing,
		object: after, oldTemplate: was, newTemplate: is, began: began,
	}
	unfinished := !kube.Rollout(before).Done
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.releases {
		earlier := &e.releases[i]
		if earlier.Workload != r.Workload || earlier.object.GetNamespace() != after.GetNamespace() {
			continue
		}
		if earlier.until.IsZero() {
			earlier.until, earlier.ignored = began, earlier.ignored || unfinished
		}
		r.ignored = r.ignored ||
			unfinished && (reflect.DeepEqual(earlier.oldTemplate, is) || reflect.DeepEqual(earlier.newTemplate, is))
	}
	e.releases = append(e.releases, r)
}

// Releases returns the complete releases of the run. It counts the module changes of each release in the events of
// the run. It omits releases that revert an incomplete release. The error lists the releases without changes, except
// releases with MayChangeNothing. If a release changed nothing, a run without lost requests proves nothing.
func (e *Env) Releases(ctx context.Context, all []events.Event) ([]ReleaseRun, error) {
	e.mu.Lock()
	releases := slices.Clone(e.releases)
	e.mu.Unlock()
	var list []ReleaseRun
	var errs []error
	for _, r := range releases {
		if r.ignored {
			continue
		}
		if r.until.IsZero() {
			now, err := e.ExistingWorkload(ctx, r.object)
			if err != nil {
				return nil, err
			}
			if now != nil && !kube.Rollout(now).Done {
				continue
			}
		}
		for _, e := range all {
			if e.Module != nil && slices.Contains(r.modules(), e.Module.Name) && e.Time.After(r.began) &&
				(r.until.IsZero() || e.Time.Before(r.until)) {
				r.Changes++
			}
		}
		if r.Changes == 0 && !r.MayChangeNothing {
			errs = append(errs,
				Fail("the release of %s changed no modules on any base; modules in the new template: %s; "+
					"increase BIZ_VERSION to release another jar, or set mayChangeNothing: true",
					r.Workload, strings.Join(r.modules(), ", ")))
		}
		list = append(list, r)
	}
	return list, errors.Join(errs...)
}
