package why

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// Snapshot is the part of the cluster state that is needed to explain a target. A field is empty if the object does
// not exist or could not be read.
type Snapshot struct {
	Target Target
	// Pod is the target, or the Pod that the target workload waits for; nil if there is no such Pod.
	Pod *corev1.Pod
	// Template is the Pod template of the ReplicaSet that owns the Pod; nil if it is not known.
	Template *corev1.PodTemplateSpec
	// Node is the target, or the Node to which the Pod is bound; nil if there is no such Node.
	Node *corev1.Node

	// Deployment, DaemonSet or StatefulSet is the target if the target is a workload. StatefulSet may instead be the
	// owner of the Pod. At most one of these fields is set.
	Deployment  *appsv1.Deployment
	DaemonSet   *appsv1.DaemonSet
	StatefulSet *appsv1.StatefulSet
	// ReplicaSets are the ReplicaSets of the Deployment. Pods are the Pods of the workload.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod

	// Bases are the Nodes of all bases.
	Bases []corev1.Node
	// OnBases are the Pods that use resources of bases. For a Pod without a Node, they are the module Pods on all
	// bases. For a bound Pod, they are the Pods on its Node.
	OnBases []corev1.Pod
	// Controllers are the Leases of the module controllers. ControllersUnread reports whether the Leases could not be
	// read.
	Controllers       []coordinationv1.Lease
	ControllersUnread bool
	// Events are the Events of the target, of the Pod and of the Node.
	Events []corev1.Event
	// Logs maps each container to the last lines of its log, oldest first.
	Logs map[string][]string
	// Unread lists the objects that could not be read. Each entry is a sentence that contains the error and has no
	// full stop.
	Unread []string
}
