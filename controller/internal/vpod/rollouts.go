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

// rollouts counts the Pods of each Deployment. It updates the counts incrementally, because counting all Pods for
// each deleted Pod would take quadratic time.
type rollouts struct {
	mu     sync.Mutex
	counts map[string]*rolloutCount // counts by namespace/name of the Deployment
}

// rolloutCount counts the Pods of a Deployment. It excludes Pods that are being deleted, and Pods that have Failed or
// Succeeded.
type rolloutCount struct {
	byReplicaSet           map[string]int // numbers of Pods by ReplicaSet
	unbound, unschedulable int
}

// handler returns an event handler that keeps the counts up to date.
func (r *rollouts) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { r.add(obj.(*corev1.Pod), 1) },
		UpdateFunc: func(oldObj, obj any) {
			r.add(obj.(*corev1.Pod), 1)
			r.add(oldObj.(*corev1.Pod), -1)
		},
		DeleteFunc: func(obj any) {
			if pod := podOf(obj); pod != nil {
				r.add(pod, -1)
			}
		},
	}
}

// add adds n to the Pod counts of a Pod's Deployment.
func (r *rollouts) add(pod *corev1.Pod, n int) {
	deployment := deploymentOf(pod)
	if deployment == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed ||
		pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.counts[deployment]
	if count == nil {
		count = &rolloutCount{byReplicaSet: map[string]int{}}
		r.counts[deployment] = count
	}
	set := metav1.GetControllerOf(pod).Name
	count.byReplicaSet[set] += n
	if count.byReplicaSet[set] == 0 {
		delete(count.byReplicaSet, set)
	}
	if pod.Spec.NodeName == "" {
		count.unbound += n
		if c := podstatus.Condition(&pod.Status, corev1.PodScheduled); c != nil &&
			c.Reason == corev1.PodReasonUnschedulable {
			count.unschedulable += n
		}
	}
	if len(count.byReplicaSet) == 0 {
		delete(r.counts, deployment)
	}
}

// mayGetSuccessor reports whether the base of a deleted Pod may get another Pod of the same Deployment. This is the
// case if a Pod of the Deployment waits for a Node, or if a rolling update is in progress. mayGetSuccessor returns
// false if a Pod of the Deployment is unschedulable, because that Pod may be waiting for the resources of the deleted
// Pod.
func (r *rollouts) mayGetSuccessor(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.counts[deploymentOf(pod)]
	if count == nil || count.unschedulable > 0 {
		return false
	}
	_, updating := count.byReplicaSet[metav1.GetControllerOf(pod).Name]
	return count.unbound > 0 || updating && len(count.byReplicaSet) > 1
}

// deploymentOf returns the Deployment of a Pod as namespace/name; empty if no Deployment created the Pod. The name is
// derived from the ReplicaSet of the Pod: the name of a ReplicaSet consists of the Deployment name and the template
// hash, which is also a label of the Pod.
func deploymentOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" {
		return ""
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	if !ok {
		return ""
	}
	return pod.Namespace + "/" + name
}
