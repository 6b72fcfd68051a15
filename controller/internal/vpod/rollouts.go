package vpod

import (
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
)

// rollouts knows how far the Deployments of module Pods are, from their Pods alone: how many each
// ReplicaSet has, and whether any waits for a Node. Its zero value has none.
type rollouts struct {
	mu          sync.Mutex
	deployments map[string]map[string]*tally // by namespace/Deployment, then ReplicaSet
}

// tally counts the Pods of a ReplicaSet that are neither deleted nor at their end.
type tally struct {
	all int
	// unbound have no Node yet; of these, the scheduler found none for the stuck ones.
	unbound, stuck int
}

// handler keeps the counts.
func (r *rollouts) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { r.count(obj.(*corev1.Pod), 1) },
		UpdateFunc: func(before, obj any) {
			r.count(obj.(*corev1.Pod), 1)
			r.count(before.(*corev1.Pod), -1)
		},
		DeleteFunc: func(obj any) {
			if pod := podOf(obj); pod != nil {
				r.count(pod, -1)
			}
		},
	}
}

func (r *rollouts) count(pod *corev1.Pod, n int) {
	deployment, set := deploymentOf(pod)
	if deployment == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sets := r.deployments[deployment]
	if sets == nil {
		sets = map[string]*tally{}
		if r.deployments == nil {
			r.deployments = map[string]map[string]*tally{}
		}
		r.deployments[deployment] = sets
	}
	t := sets[set]
	if t == nil {
		t = &tally{}
		sets[set] = t
	}
	t.all += n
	if pod.Spec.NodeName == "" {
		t.unbound += n
		if c := podstatus.Condition(&pod.Status, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonUnschedulable {
			t.stuck += n
		}
	}
	if t.all == 0 {
		delete(sets, set)
	}
	if len(sets) == 0 {
		delete(r.deployments, deployment)
	}
}

// successorTo says whether the base of a deleted Pod may yet get another Pod of its Deployment: one
// waits for a Node, or an update of the Deployment has come only a part of the way. A Pod for which
// there is no Node may wait for this very one to go.
func (r *rollouts) successorTo(pod *corev1.Pod) bool {
	deployment, mine := deploymentOf(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	unbound, stuck, others, old := 0, 0, 0, 0
	for set, t := range r.deployments[deployment] {
		unbound, stuck = unbound+t.unbound, stuck+t.stuck
		if set == mine {
			old = t.all
		} else {
			others += t.all
		}
	}
	return stuck == 0 && (unbound > 0 || others > 0 && old > 0)
}

// deploymentOf names the Deployment and the ReplicaSet of a Pod; both are empty for a Pod that no
// Deployment has made. A Deployment calls its ReplicaSets by its own name and the hash of their
// template, which their Pods bear as a label.
func deploymentOf(pod *corev1.Pod) (deployment, set string) {
	owner := metav1.GetControllerOf(pod)
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" {
		return "", ""
	}
	name, of := strings.CutSuffix(owner.Name, "-"+hash)
	if !of {
		return "", ""
	}
	return pod.Namespace + "/" + name, owner.Name
}
