package timeline

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// versionVariable of a container holds the version of its module.
const versionVariable = "BIZ_VERSION"

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
	for _, c := range pod.Spec.Containers {
		m := ModuleRef{Name: c.Name}
		for _, v := range c.Env {
			if v.Name == versionVariable {
				m.Version = v.Value
			}
		}
		s.Modules = append(s.Modules, m)
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
