package podstatus

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/unsupported"
)

// A base runs only modules. The other containers of a Pod get a status, so that Kubernetes and kubectl do not wait for
// them. The Event api.ReasonUnsupported reports that they are ignored.

// withSidecars returns the statuses of all containers in the order of the spec. It adds statuses for the containers
// that are not modules. These statuses are running, because kubectl counts only running containers in the column
// READY. They have no container ID. The caller sets ready after the modules are installed, so that the column shows
// n/n when the Pod is Ready.
func withSidecars(pod *corev1.Pod, modules []corev1.ContainerStatus, since metav1.Time,
	ready bool) []corev1.ContainerStatus {
	if len(modules) == len(pod.Spec.Containers) {
		return modules
	}
	all := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		if s := findStatus(modules, c.Name); s != nil {
			all = append(all, *s)
		} else {
			all = append(all, shownRunning(c, since, ready))
		}
	}
	return all
}

// IsSidecar reports whether a status is one that Of added for a container that is not a module.
func IsSidecar(c corev1.ContainerStatus) bool { return c.State.Running != nil && c.ContainerID == "" }

// initStatuses returns the statuses of init containers. Native sidecars (restartPolicy Always) are running, because
// kubectl counts them in the column READY. All other init containers are completed.
func initStatuses(containers []corev1.Container, since metav1.Time, ready bool) (list []corev1.ContainerStatus) {
	for _, c := range containers {
		s := shownRunning(c, since, ready)
		if ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			s = corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: ptr.To(false),
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "Completed", Message: unsupported.Names["initContainers"], StartedAt: since,
					FinishedAt: since,
				}}}
		}
		list = append(list, s)
	}
	return list
}

func shownRunning(c corev1.Container, since metav1.Time, ready bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, Ready: ready, Started: ptr.To(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
	}
}

// ephemeralStatuses returns statuses for the containers of kubectl debug. They are terminated, because kubectl waits
// until such a container is running or terminated.
func ephemeralStatuses(containers []corev1.EphemeralContainer, oldStatuses []corev1.ContainerStatus,
	now metav1.Time) (list []corev1.ContainerStatus) {
	for i, c := range containers {
		if i < len(oldStatuses) && oldStatuses[i].Name == c.Name && oldStatuses[i].State.Terminated != nil {
			list = append(list, oldStatuses[i])
			continue
		}
		list = append(list, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: api.ReasonUnsupported, Message: unsupported.Names["ephemeralContainers"],
				StartedAt: now, FinishedAt: now,
			}}})
	}
	return list
}

// findStatus returns the status of a container, or nil if the container has no status.
func findStatus(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
