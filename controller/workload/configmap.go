package workload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// VersionSource returns the ConfigMap and the key in it that hold the version of a container, and
// false if the version stands elsewhere.
func VersionSource(namespace string, container corev1.Container) (name types.NamespacedName, key string, ok bool) {
	i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv })
	if i < 0 || container.Env[i].ValueFrom == nil || container.Env[i].ValueFrom.ConfigMapKeyRef == nil {
		return types.NamespacedName{}, "", false
	}
	ref := container.Env[i].ValueFrom.ConfigMapKeyRef
	return types.NamespacedName{Namespace: namespace, Name: ref.Name}, ref.Key, true
}

// Resolve returns a container of a Pod with its version as a plain value, so that Of and Check can
// read it; one whose version stands in no ConfigMap comes back as it is. value looks a ConfigMap up
// and must not block; its error is returned.
//
// As with a kubelet, the value is that of the moment when the module was installed: what the Pod's
// status says of an installed module counts before the ConfigMap, which may have changed since.
func Resolve(pod *corev1.Pod, container corev1.Container, value func(name types.NamespacedName, key string) (string, error)) (corev1.Container, error) {
	name, key, ok := VersionSource(pod.Namespace, container)
	if !ok {
		return container, nil
	}
	v := installed(pod, container.Name)
	if v == "" {
		var err error
		if v, err = value(name, key); err != nil {
			return container, err
		}
	}
	container.Env = slices.Clone(container.Env)
	i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv })
	container.Env[i] = corev1.EnvVar{Name: labels.VersionEnv, Value: v}
	return container, nil
}

// installed returns the version that a Pod's status says is on its base; empty if none is. The id of
// a container is arklet://<ip>:<module>:<version>.
func installed(pod *corev1.Pod, container string) string {
	for _, c := range pod.Status.ContainerStatuses {
		if id, ok := strings.CutPrefix(c.ContainerID, "arklet://"); ok && c.Name == container {
			if i := strings.Index(id, ":"+container+":"); i >= 0 {
				return id[i+len(container)+2:]
			}
		}
	}
	return ""
}
