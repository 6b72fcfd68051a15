// Package workload reads module workloads: which Pods and Deployments belong to modules, what the
// containers of a template install, and which bases a template fits. It is pure; peer, baseline and
// moduleview share it.
//
// The documents use two prefixes for their labels, virtual-kubelet.koupleless.io/ and
// module-controller.koupleless.io/ (principle document 6.6.2 against operations guide 5.1 and 5.2).
// Both count everywhere.
package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The label keys of module workloads come with either prefix.
const (
	prefix    = "virtual-kubelet.koupleless.io/"
	oldPrefix = "module-controller.koupleless.io/"
)

// VersionEnv is the environment variable of a container that names the version of its module.
const VersionEnv = "BIZ_VERSION"

// label returns the value of a label that may stand under either prefix.
func label(labels map[string]string, name string) string {
	return cmp.Or(labels[prefix+name], labels[oldPrefix+name])
}

// IsModule reports whether the labels of a Pod, or of a Pod template, make it a module's.
func IsModule(labels map[string]string) bool { return label(labels, "component") == "module" }

// IsBase reports whether a Node is a base.
func IsBase(node *corev1.Node) bool { return node.Labels[prefix+"component"] == "vnode" }

// IsPeer reports whether a Deployment wants one module on each base of an environment: it is labelled
// component=module-deployment and strategy=peer, and if it is labelled with an environment, then
// with this one.
func IsPeer(d *appsv1.Deployment, env string) bool {
	return label(d.Labels, "component") == "module-deployment" &&
		label(d.Labels, "strategy") == "peer" &&
		cmp.Or(label(d.Labels, "env"), env) == env
}

// KeepsReplicas reports whether the replicas of a peer Deployment are not the controller's business:
// it is labelled replicas-control=true, which means "somebody else controls them".
func KeepsReplicas(d *appsv1.Deployment) bool { return label(d.Labels, "replicas-control") == "true" }

// Module is a module as the container of a Pod names it.
type Module struct {
	Name, Version, URL string
}

// Of returns the module of a container: its name, its BIZ_VERSION and its image. Version is empty if
// the container does not set it to a plain value.
func Of(container corev1.Container) Module {
	m := Module{Name: container.Name, URL: container.Image}
	for _, env := range container.Env {
		if env.Name == VersionEnv {
			m.Version = env.Value
		}
	}
	return m
}
