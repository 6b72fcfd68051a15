package timeline

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
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
	for _, c := range pod.Spec.Containers {
		s.Modules = append(s.Modules, ModuleRef{Name: c.Name, Version: versionOf(pod, c.Env)})
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

// versionOf reads the version of a module as the module controller does: from the first variable of
// the name that holds one, either as a value or as a reference to an annotation or a label of the
// Pod, which may change while the Pod runs. Blanks around it do not count. It is empty if there is
// none, or the annotation or label is missing: the controller installs nothing for such a
// container.
func versionOf(pod *corev1.Pod, env []corev1.EnvVar) string {
	for _, v := range env {
		switch {
		case v.Name != labels.VersionEnv:
		case v.ValueFrom == nil || v.ValueFrom.FieldRef == nil:
			return strings.TrimSpace(v.Value)
		default:
			field, key, _ := strings.Cut(strings.TrimSuffix(v.ValueFrom.FieldRef.FieldPath, "']"), "['")
			switch field {
			case "metadata.annotations":
				return strings.TrimSpace(pod.Annotations[key])
			case "metadata.labels":
				return strings.TrimSpace(pod.Labels[key])
			}
		}
	}
	return ""
}
