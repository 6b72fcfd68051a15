package events

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// PodState is the part of a Pod that events contain.
type PodState struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Owner is the controller of the Pod as KIND/NAME; empty if the Pod has no controller.
	Owner string `json:"owner,omitempty"`
	Node  string `json:"node,omitempty"`
	// Modules are the modules that the Pod requests.
	Modules []ModuleRef       `json:"modules"`
	Labels  map[string]string `json:"labels,omitempty"`
	Phase   string            `json:"phase"`
	Ready   bool              `json:"ready"`
	// Reason is the reason of the Ready condition, or of a waiting or terminated container.
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Deleting reports whether the Pod has a deletion timestamp.
	Deleting bool `json:"deleting,omitempty"`
	// Gone reports whether the Pod was deleted.
	Gone bool `json:"gone,omitempty"`
	// Writes is the number of versions of the Pod object that the watch has delivered.
	Writes int `json:"writes"`
}

// LastTime returns the time of the last occurrence of a Kubernetes Event.
func LastTime(e *corev1.Event) time.Time {
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time)
}

// PodStateOf returns the state of a Pod. It does not set Gone and Writes.
func PodStateOf(pod *corev1.Pod) *PodState {
	s := &PodState{
		Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Labels: pod.Labels,
		Phase:   string(pod.Status.Phase),
		Created: pod.CreationTimestamp.Time, Deleting: pod.DeletionTimestamp != nil,
		Modules: make([]ModuleRef, 0, len(pod.Spec.Containers)),
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		s.Owner = owner.Kind + "/" + owner.Name
	}
	modules, _ := workload.Modules(pod.Spec)
	for _, c := range modules {
		s.Modules = append(s.Modules, ModuleRef{Name: c.Name, Version: workload.ModuleOf(&pod.ObjectMeta, c).Version})
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			s.Ready, s.Reason = c.Status == corev1.ConditionTrue, c.Reason
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.Reason = c.State.Waiting.Reason
		case c.State.Terminated != nil && c.State.Terminated.Reason != "":
			s.Reason = c.State.Terminated.Reason
		}
	}
	if s.Ready {
		s.Reason = ""
	}
	return s
}
