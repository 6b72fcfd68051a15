// Package workload reads module workloads: which Pods and Deployments belong to modules, what the
// containers of a template install, and which bases a template fits. It is pure; peer, baseline and
// moduleview share it.
//
//	workload.go   what labels and containers say
//	placement.go  which bases a template fits
package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// IsModule reports whether the labels of a Pod, or of a Pod template, make it a module's.
func IsModule(l map[string]string) bool { return labels.Value(l, labels.Component) == labels.Module }

// IsBase reports whether a Node is a base.
func IsBase(node *corev1.Node) bool { return node.Labels[labels.Component] == labels.Vnode }

// IsPeer reports whether a Deployment wants one module on each base of an environment: it is labelled
// component=module-deployment and strategy=peer, and if it is labelled with an environment, then
// with this one.
func IsPeer(d *appsv1.Deployment, env string) bool {
	return labels.Value(d.Labels, labels.Component) == labels.ModuleDeployment &&
		labels.Value(d.Labels, labels.Strategy) == labels.Peer &&
		cmp.Or(labels.Value(d.Labels, labels.Env), env) == env
}

// KeepsReplicas reports whether the replicas of a peer Deployment are not the controller's business:
// it is labelled replicas-control=true, which means "somebody else controls them".
func KeepsReplicas(d *appsv1.Deployment) bool {
	return labels.Value(d.Labels, labels.ReplicasControl) == "true"
}

// Module is a module as the container of a Pod names it.
type Module struct {
	Name, Version, URL string
}

// Of returns the module of a container: its name, its BIZ_VERSION and its image. Version is empty if
// the container does not set it to a plain value.
func Of(container corev1.Container) Module {
	m := Module{Name: container.Name, URL: container.Image}
	for _, env := range container.Env {
		if env.Name == labels.VersionEnv {
			m.Version = env.Value
		}
	}
	return m
}
