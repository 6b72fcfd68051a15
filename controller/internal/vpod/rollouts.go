package vpod

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
)

// successorComes reports whether the base of a deleted Pod may get another Pod of its Deployment: a Pod waits for a Node, or
// an update of the Deployment is in progress. It returns false if a Pod is unschedulable, which may wait for the resources
// of this Pod.
func (i *Informer) successorComes(pod *corev1.Pod) bool {
	unbound, old, others := false, false, false
	for _, other := range i.find(indexDeployment, deploymentOf(pod)) {
		if other.DeletionTimestamp != nil || other.Status.Phase == corev1.PodFailed || other.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if other.Spec.NodeName == "" {
			if c := podstatus.Condition(&other.Status, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonUnschedulable {
				return false
			}
			unbound = true
		}
		if metav1.GetControllerOf(other).Name == metav1.GetControllerOf(pod).Name {
			old = true
		} else {
			others = true
		}
	}
	return unbound || old && others
}

// deploymentOf returns the Deployment of a Pod as namespace/name; empty if no Deployment created the Pod. A Deployment names
// its ReplicaSets after itself and the hash of their template, which their Pods have as a label.
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
