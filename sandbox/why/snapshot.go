package why

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// Snapshot is what the API said at one moment, as far as an answer needs it. What is empty was not
// there, or is in Unread.
type Snapshot struct {
	Target Target
	// Pod that is asked about; nil for other targets.
	Pod *corev1.Pod
	// Template is the Pod template of the ReplicaSet that owns the Pod; nil if it is not known.
	Template *corev1.PodTemplateSpec
	// Node that is asked about, or that the Pod is bound to; nil if there is none.
	Node *corev1.Node

	// The target, if it is a workload, or the StatefulSet that owns the Pod; at most one is set.
	Deployment  *appsv1.Deployment
	DaemonSet   *appsv1.DaemonSet
	StatefulSet *appsv1.StatefulSet
	// ReplicaSets of the Deployment, and Pods of the workload.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod

	// Bases are all Nodes of bases.
	Bases []corev1.Node
	// OnBases are the module Pods that bases have, for a Pod that looks for room; of a Pod that is
	// bound, those beside it.
	OnBases []corev1.Pod
	// Controllers are the Leases of module controllers, unless they could not be read.
	Controllers       []coordinationv1.Lease
	ControllersUnread bool
	// Events of the target, of its Pods and of the Pod's Node.
	Events []corev1.Event
	// Logs are the last lines that kubectl logs has of each container, the oldest first.
	Logs map[string][]string
	// Unread says what could not be read, and why, each in a sentence without a full stop.
	Unread []string
}
