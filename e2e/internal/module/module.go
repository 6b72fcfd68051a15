// Package module builds Kubernetes objects for modules.
package module

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Labels, taints and environment variables that ModuleController V2 defines.
const (
	// LabelComponent marks module Pods and the Nodes of bases.
	LabelComponent = "virtual-kubelet.koupleless.io/component"
	// LabelEnv is the Node label that contains the environment of the base.
	LabelEnv = "virtual-kubelet.koupleless.io/env"
	// LabelBaseName and LabelBaseVersion are the Node labels that contain the name and the version that the base
	// reports.
	LabelBaseName    = "base.koupleless.io/name"
	LabelBaseVersion = "base.koupleless.io/version"
	// TaintVirtualNode and TaintEnv are the keys of the taints on the Node of a base.
	TaintVirtualNode = "schedule.koupleless.io/virtual-node"
	TaintEnv         = "schedule.koupleless.io/node-env"
	// EnvVersion is the container environment variable that contains the version of the module.
	EnvVersion = "BIZ_VERSION"
)

// Resource is the resource of Module objects.
var Resource = schema.GroupVersionResource{Group: "koupleless.io", Version: "v1alpha1", Resource: "modules"}

// URL returns the URL of a module's jar. No jar exists at this URL, because simulated bases do not download it.
func URL(name, version string) string {
	return fmt.Sprintf("https://modules.example/%s-%s-ark-biz.jar", name, version)
}

// Container returns a container for a module.
func Container(name, version string) corev1.Container {
	return corev1.Container{Name: name, Image: URL(name, version),
		Env: []corev1.EnvVar{{Name: EnvVersion, Value: version}}}
}

// Template returns a Pod template with the given modules and with app as the value of the label app. Its Pods can run
// on every base.
func Template(app string, containers ...corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app, LabelComponent: "module"}},
		Spec: corev1.PodSpec{
			Containers:   containers,
			NodeSelector: map[string]string{LabelComponent: "vnode"},
			Tolerations: []corev1.Toleration{
				{Key: TaintVirtualNode, Operator: corev1.TolerationOpExists},
				{Key: TaintEnv, Operator: corev1.TolerationOpExists},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
					Effect: corev1.TaintEffectNoExecute},
			},
			AutomountServiceAccountToken: ptr.To(false),
		},
	}
}

// OnePerBase adds the Pod anti-affinity from the Koupleless documentation: a base runs at most one Pod with the same
// value of the label app. Pods of different revisions of a Deployment may share a base.
func OnePerBase(t *corev1.PodTemplateSpec) {
	t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.Labels["app"]}},
			MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
			TopologyKey:    corev1.LabelTopologyZone,
		}},
	}}
}

// OnePerPort adds a host port to the template, so that a base runs at most one of its Pods. A host port is the
// cheapest constraint for the scheduler. No process listens on the port.
func OnePerPort(t *corev1.PodTemplateSpec) {
	t.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}}
}

func selector(t corev1.PodTemplateSpec) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.Labels["app"]}}
}

// Pod returns a Pod that is created from a template.
func Pod(namespace, name string, t corev1.PodTemplateSpec) *corev1.Pod {
	t.Namespace, t.Name = namespace, name
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}

// Deployment returns a Deployment that creates Pods from a template.
func Deployment(namespace, name string, replicas int32, t corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(t), Template: t},
	}
}

// DaemonSet returns a DaemonSet that creates Pods from a template.
func DaemonSet(namespace, name string, t corev1.PodTemplateSpec) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(t), Template: t},
	}
}

// StatefulSet returns a StatefulSet that creates Pods from a template.
func StatefulSet(namespace, name string, replicas int32, t corev1.PodTemplateSpec) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector(t), Template: t},
	}
}

// IsReady reports whether a Pod is running and Ready.
func IsReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.Status.Phase == corev1.PodRunning
		}
	}
	return false
}
