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

// ReleaseRun is a change of the template of a workload, and what came of it.
type ReleaseRun struct {
	// Workload is KIND NAME.
	Workload string
	// Changes counts what bases did with its modules until its next release.
	Changes int
	// MayChangeNothing allows that they did nothing.
	MayChangeNothing bool

	object                   *unstructured.Unstructured // as it was written
	oldTemplate, newTemplate map[string]any             // the template
	began                    time.Time
	until                    time.Time // when the next release of the workload began; zero = the end of the run
	ignored                  bool      // it was not complete then, or takes one back that was not
}

func (r *ReleaseRun) modules() []string {
	list := slices.Sorted(slices.Values(append(kube.Modules(r.oldTemplate), kube.Modules(r.newTemplate)...)))
	return slices.Compact(list)
}

// ExistingWorkload returns a workload as it is before a step writes it; nil if it is not there yet, or if the object is
// no workload of modules.
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

// RecordRelease records a release if a step has changed the template of a workload's module Pods. before may
// be nil: it has just been made then.
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
		r.ignored = r.ignored || unfinished && (reflect.DeepEqual(earlier.oldTemplate, is) || reflect.DeepEqual(earlier.newTemplate, is))
	}
	e.releases = append(e.releases, r)
}

// Releases are the complete releases of the run, with what they have changed by the events of the run; those that take
// an incomplete one back are left out. The last is an error when one was to change something on a base and has not: then
// nothing was released, and that no request was lost proves nothing.
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
				Fail("the release of %s changed nothing on any base: each had %s already, as it is in the new "+
					"template; raise BIZ_VERSION to release another jar, or allow it with mayChangeNothing: true",
					r.Workload, strings.Join(r.modules(), ", ")))
		}
		list = append(list, r)
	}
	return list, errors.Join(errs...)
}
