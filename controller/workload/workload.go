package workload

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// IsModule reports whether the labels of a Pod, or of a Pod template, make it a module's.
func IsModule(l map[string]string) bool { return labels.Value(l, labels.Component) == labels.Module }

// IsBase reports whether a Node is a base.
func IsBase(node *corev1.Node) bool { return node.Labels[labels.Component] == labels.Vnode }

// IsPeer reports whether a Deployment wants one module on each base of an environment: it is
// labelled component=module-deployment and strategy=peer, and if it is labelled with an
// environment, then with this one.
func IsPeer(d *appsv1.Deployment, env string) bool {
	return labels.Value(d.Labels, labels.Component) == labels.ModuleDeployment &&
		labels.Value(d.Labels, labels.Strategy) == labels.Peer &&
		cmp.Or(labels.Value(d.Labels, labels.Env), env) == env
}

// KeepsReplicas reports whether the replicas of a peer Deployment are not the controller's
// business: it is labelled replicas-control=true, which means "somebody else controls them".
func KeepsReplicas(d *appsv1.Deployment) bool {
	return labels.Value(d.Labels, labels.ReplicasControl) == "true"
}

// Of returns the module of a container: its name, its BIZ_VERSION and its image. meta is that of
// its Pod or template. Version is empty if the container does not say it. Whether the module can be
// installed says Check.
func Of(meta *metav1.ObjectMeta, container corev1.Container) arklet.Module {
	return arklet.Module{Name: container.Name, Version: version(meta, container), URL: container.Image}
}

// Meets reports whether a Pod asks for the modules that a template asks for. What others add to a Pod
// does not count.
func Meets(pod *corev1.Pod, template *corev1.PodTemplateSpec) bool {
	for _, want := range template.Spec.Containers {
		i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == want.Name })
		if i < 0 {
			return false
		}
		c := pod.Spec.Containers[i]
		from, key, _ := VersionSource(pod.Namespace, c)
		wantFrom, wantKey, _ := VersionSource(pod.Namespace, want)
		if Of(&pod.ObjectMeta, c) != Of(&template.ObjectMeta, want) || from != wantFrom || key != wantKey {
			return false
		}
	}
	return true
}

// PreStopSleep is how long a module is to stay after its Pod began to be deleted, by the container's
// preStop.sleep; zero if it says nothing. Kubernetes bounds it by the Pod's grace period.
func PreStopSleep(container corev1.Container) time.Duration {
	if l := container.Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
		return time.Duration(l.PreStop.Sleep.Seconds) * time.Second
	}
	return 0
}

// version is rawVersion without the spaces around it.
func version(meta *metav1.ObjectMeta, container corev1.Container) string {
	return strings.TrimSpace(rawVersion(meta, container))
}

// rawVersion reads BIZ_VERSION: a plain value, or a field reference to an annotation or a label of the
// Pod, which can change while the Pod runs.
func rawVersion(meta *metav1.ObjectMeta, container corev1.Container) string {
	for _, e := range container.Env {
		if e.Name != labels.VersionEnv {
			continue
		}
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			return e.Value
		}
		for prefix, from := range map[string]map[string]string{"metadata.annotations['": meta.Annotations, "metadata.labels['": meta.Labels} {
			if key, ok := strings.CutPrefix(e.ValueFrom.FieldRef.FieldPath, prefix); ok {
				return from[strings.TrimSuffix(key, "']")]
			}
		}
	}
	return ""
}
