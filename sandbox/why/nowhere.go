package why

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// GatherBases reads the bases, the module Pods on the bases, and the module controllers, for Nowhere. The Snapshot
// has no target. Unlike Gather, GatherBases returns an error if it cannot read the bases or the Pods on them. It
// blocks for at most 30 seconds.
func GatherBases(ctx context.Context, client kubernetes.Interface) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	g := &gatherer{client: client, Snapshot: &Snapshot{}}
	g.bases(ctx)
	g.modulePods(ctx)
	if len(g.Unread) > 0 {
		return nil, errors.New(strings.Join(g.Unread, "; "))
	}
	g.controllers(ctx)
	return g.Snapshot, nil
}

// Nowhere explains, in the given language, why no base accepts a Pod that does not exist yet. It returns false if a
// base accepts the Pod, or if only the scheduler can determine this. The Snapshot must be a result of GatherBases.
// Nowhere does no I/O.
func Nowhere(l language.Language, s *Snapshot, pod *corev1.Pod, now time.Time) (Answer, bool) {
	future := *s
	future.Target = Target{Kind: KindPod, Namespace: pod.Namespace, Name: pod.Name}
	future.Pod = pod.DeepCopy()
	setRequests(future.Pod.Spec.InitContainers)
	setRequests(future.Pod.Spec.Containers)
	v := newExplainer(&future, now)
	v.language = l
	v.addTolerations()
	a := v.first(schedule)
	a.Target, a.Evidence = future.Target, v.evidence()
	return a.redacted(), !slices.Contains([]Reason{SchedulingGated, UnknownScheduler, NotScheduledYet, Unknown},
		a.Reason)
}

// addTolerations adds the same tolerations to a Pod as the controllers, which do this if the tolerations of the Pod
// name no environment.
func (v *explainer) addTolerations() {
	if len(environments(v.Pod)) > 0 {
		return
	}
	for _, n := range v.Bases {
		for _, t := range n.Spec.Taints {
			if t.Key == labels.TaintEnv && (v.controllerRuns(t.Value) || v.ControllersUnread) {
				v.Pod.Spec.Tolerations = append(v.Pod.Spec.Tolerations,
					corev1.Toleration{Key: t.Key, Value: t.Value, Effect: t.Effect})
			}
		}
	}
}

// setRequests sets missing resource requests to the resource limits, as the API server does.
func setRequests(containers []corev1.Container) {
	for i := range containers {
		r := &containers[i].Resources
		for name, limit := range r.Limits {
			if _, set := r.Requests[name]; !set {
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = limit
			}
		}
	}
}
