// Package workload defines the rules for module workloads: which Pods, Deployments and containers are modules, which
// versions they request, why a module cannot be installed, and on which bases a template can run. Its functions are
// pure. The controller and the sandbox (lint, why) share it.
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

// IsModule reports whether a Pod or a Pod template with these labels contains modules.
func IsModule(l map[string]string) bool { return labels.Value(l, labels.Component) == labels.Module }

// IsBase reports whether a Node represents a base.
func IsBase(node *corev1.Node) bool { return node.Labels[labels.Component] == labels.Vnode }

// IsPeer reports whether a Deployment is a peer Deployment of an environment: it has the labels
// component=module-deployment and strategy=peer, and no label of another environment.
func IsPeer(d *appsv1.Deployment, env string) bool {
	return labels.Value(d.Labels, labels.Component) == labels.ModuleDeployment &&
		labels.Value(d.Labels, labels.Strategy) == labels.Peer &&
		cmp.Or(labels.Value(d.Labels, labels.Env), env) == env
}

// KeepsReplicas reports whether a peer Deployment has the label replicas-control=true. The controller must not change
// its replicas.
func KeepsReplicas(d *appsv1.Deployment) bool {
	return labels.Value(d.Labels, labels.ReplicasControl) == "true"
}

// Modules splits the containers of a Pod into modules and other containers, such as sidecars that an admission
// webhook adds. A container is not a module if its image is not a URL and it does not set BIZ_VERSION. The controller
// ignores containers that are not modules. If no container is a module, Modules returns all containers as modules,
// and Check rejects them.
func Modules(spec corev1.PodSpec) (modules, others []corev1.Container) {
	for _, c := range spec.Containers {
		isVersion := func(v corev1.EnvVar) bool { return v.Name == labels.VersionEnv }
		if strings.Contains(c.Image, "://") || slices.ContainsFunc(c.Env, isVersion) {
			modules = append(modules, c)
		} else {
			others = append(others, c)
		}
	}
	if len(modules) == 0 {
		return others, nil
	}
	return modules, others
}

// ModuleOf returns the module of a container: its name, its BIZ_VERSION and its image. meta is the metadata of its Pod
// or template. The version is empty if it cannot be determined. Check returns why a module cannot be installed.
func ModuleOf(meta *metav1.ObjectMeta, container corev1.Container) arklet.Module {
	return moduleFrom(&environment{meta: meta, container: container})
}

func moduleFrom(e *environment) arklet.Module {
	version, _ := e.version() // Check returns the error
	return arklet.Module{Name: e.container.Name, Version: version, URL: e.container.Image}
}

// MatchesTemplate reports whether a Pod requests the modules of a template. It ignores additional containers, labels
// and annotations of the Pod.
func MatchesTemplate(pod *corev1.Pod, template *corev1.PodTemplateSpec) bool {
	modules, _ := Modules(template.Spec)
	for _, want := range modules {
		i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == want.Name })
		if i < 0 {
			return false
		}
		c := pod.Spec.Containers[i]
		wanted := moduleFrom(&environment{meta: &template.ObjectMeta, pod: &pod.ObjectMeta, container: want})
		if ModuleOf(&pod.ObjectMeta, c) != wanted ||
			!slices.Equal(VersionSources(pod.Namespace, c), VersionSources(pod.Namespace, want)) {
			return false
		}
	}
	return true
}

// PreStopSleep returns the duration of preStop.sleep of a container: how long its module stays installed after the
// Pod was deleted.
func PreStopSleep(container corev1.Container) time.Duration {
	if l := container.Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
		return time.Duration(l.PreStop.Sleep.Seconds) * time.Second
	}
	return 0
}
