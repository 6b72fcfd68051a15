package timeline

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// PodStateOf takes out of a Pod what counts; Gone and Writes are not known from it.
func PodStateOf(pod *corev1.Pod) *PodState {
	s := &PodState{
		Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Labels: pod.Labels, Phase: string(pod.Status.Phase),
		Created: pod.CreationTimestamp.Time, Deleting: pod.DeletionTimestamp != nil,
		Modules: make([]ModuleRef, 0, len(pod.Spec.Containers)),
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		s.Owner = owner.Kind + "/" + owner.Name
	}
	modules, _ := workload.Modules(pod.Spec)
	for _, c := range modules {
		s.Modules = append(s.Modules, ModuleRef{Name: c.Name, Version: workload.Of(&pod.ObjectMeta, c).Version})
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
