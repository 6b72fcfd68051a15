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
)

// GatherBases reads the bases, the module Pods on them and who serves them: a Snapshot without a
// target, for Nowhere. Unlike Gather it fails if the bases or the Pods on them cannot be read. It
// blocks for at most 30 seconds.
func GatherBases(ctx context.Context, client kubernetes.Interface) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherTime)
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

// Nowhere says why no base would take a Pod that is not there yet, and false if one would, or if only
// the scheduler could tell. Of the Snapshot it needs what GatherBases reads. It does no I/O.
func Nowhere(s *Snapshot, pod *corev1.Pod, now time.Time) (Answer, bool) {
	future := *s
	future.Target = Target{Kind: KindPod, Namespace: pod.Namespace, Name: pod.Name}
	future.Pod = pod.DeepCopy()
	setRequests(future.Pod.Spec.InitContainers)
	setRequests(future.Pod.Spec.Containers)
	v := newView(&future, now)
	v.addTolerations()
	a := v.first(schedule)
	a.Target, a.Evidence = future.Target, v.evidence()
	return a.redacted(), !slices.Contains([]Reason{SchedulingGated, UnknownScheduler, NotScheduledYet, Unknown},
		a.Reason)
}

// addTolerations adds the tolerations that controllers add to a Pod that names no environment.
func (v *view) addTolerations() {
	if len(environments(v.Pod)) > 0 {
		return
	}
	for _, n := range v.Bases {
		for _, t := range n.Spec.Taints {
			if t.Key == labels.TaintEnv && (v.live(t.Value) || v.ControllersUnread) {
				v.Pod.Spec.Tolerations = append(v.Pod.Spec.Tolerations,
					corev1.Toleration{Key: t.Key, Value: t.Value, Effect: t.Effect})
			}
		}
	}
}

// setRequests sets the requests that are not set to the limits, as the API server does.
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
