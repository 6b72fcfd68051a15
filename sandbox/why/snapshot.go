package why

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// Snapshot is the part of the cluster's state that an answer needs. A field is empty if the object does not exist, or
// if it could not be read.
type Snapshot struct {
	Target Target
	// Pod is the target, or the Pod that the workload waits for; nil if there is none.
	Pod *corev1.Pod
	// Template is the Pod template of the ReplicaSet that owns the Pod; nil if it is not known.
	Template *corev1.PodTemplateSpec
	// Node is the target, or the Node that the Pod is bound to; nil if there is none.
	Node *corev1.Node

	// Deployment, DaemonSet or StatefulSet is the target if it is a workload, or the StatefulSet that owns the Pod. At
	// most one of them is set.
	Deployment  *appsv1.Deployment
	DaemonSet   *appsv1.DaemonSet
	StatefulSet *appsv1.StatefulSet
	// ReplicaSets of the Deployment, and Pods of the workload.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod

	// Bases are all Nodes of bases.
	Bases []corev1.Node
	// OnBases are the module Pods of all bases for a Pod without a Node, and the Pods on the Node for a Pod that is
	// bound.
	OnBases []corev1.Pod
	// Controllers are the Leases of module controllers. ControllersUnread is true if they could not be read.
	Controllers       []coordinationv1.Lease
	ControllersUnread bool
	// Events of the target, of the Pod and of the Node.
	Events []corev1.Event
	// Logs are the last lines of the log of each container, the oldest first.
	Logs map[string][]string
	// Unread has a sentence, without a full stop, for each object that could not be read, with the error.
	Unread []string
}
