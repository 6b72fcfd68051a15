package main

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The labels and taints of the documents (principle 6.6.2, guide 5.1).
const (
	componentLabel = "virtual-kubelet.koupleless.io/component"
	olderComponent = "module-controller.koupleless.io/component"
	envLabel       = "virtual-kubelet.koupleless.io/env"
	strategyLabel  = "virtual-kubelet.koupleless.io/strategy"
	nameLabel      = "base.koupleless.io/name"
	versionLabel   = "base.koupleless.io/version"
	tunnelLabel    = "vnode.koupleless.io/tunnel"
	virtualNode    = "schedule.koupleless.io/virtual-node"
	nodeEnv        = "schedule.koupleless.io/node-env"
	versionEnv     = "BIZ_VERSION"
)

// jar is where a module's jar is said to be; nobody fetches it.
func jar(name, version string) string {
	return fmt.Sprintf("https://modules.example/%s-%s-ark-biz.jar", name, version)
}

// module is a container as the documents write it.
func module(name, version string) corev1.Container {
	return corev1.Container{Name: name, Image: jar(name, version), Env: []corev1.EnvVar{{Name: versionEnv, Value: version}}}
}

// template is a Pod as the documents write it, for the bases of this world.
func (w *world) template(modules ...corev1.Container) corev1.PodTemplateSpec {
	return w.templateFor("1.0.0", modules...)
}

func (w *world) templateFor(baseVersion string, modules ...corev1.Container) corev1.PodTemplateSpec {
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{componentLabel: "module", "app": modules[0].Name}},
		Spec: corev1.PodSpec{
			Containers: modules,
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in(versionLabel, baseVersion), in(nameLabel, w.name)}}},
			}}},
			Tolerations:                  []corev1.Toleration{tolerate(virtualNode, "True"), tolerate(nodeEnv, w.env)},
			AutomountServiceAccountToken: ptr.To(false),
		},
	}
}

func tolerate(key, value string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: corev1.TaintEffectNoExecute}
}

// spread is the anti-affinity of guide 5.2: at most one Pod of a module on a base.
func spread(t *corev1.PodTemplateSpec) {
	t.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		LabelSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.Labels["app"]}},
		MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey}, // two versions may meet on a base
		TopologyKey:    corev1.LabelTopologyZone,
	}}}
}

// barePod is a Pod with modules on its own.
func (w *world) barePod(name string, modules ...corev1.Container) *corev1.Pod {
	t := w.template(modules...)
	t.Name = name
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}

// served makes a Pod with one module of its name, version 1.0.0, and waits until it is Ready.
func (w *world) served(name string) *corev1.Pod {
	w.create(w.barePod(name, module(name, "1.0.0")))
	return w.readyPod(name)
}

func selector(t corev1.PodTemplateSpec) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.Labels["app"]}}
}

// deployment makes a Deployment with the update strategy of guide 5.1.
func (w *world) deployment(name string, replicas int32, t corev1.PodTemplateSpec, options ...func(*appsv1.Deployment)) *appsv1.Deployment {
	share := intstr.FromString("30%")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: selector(t), Template: t,
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &share, MaxUnavailable: &share}},
	}}
	for _, option := range options {
		option(d)
	}
	made, err := w.client.AppsV1().Deployments(w.name).Create(w.ctx, d, metav1.CreateOptions{})
	w.must(err)
	return made
}

// rolledOut waits until a Deployment is what kubectl rollout status calls rolled out.
func (w *world) rolledOut(name string) {
	w.within(2*w.patience, "Deployment "+name+" is rolled out", func() error {
		d, err := w.deployments.Deployments(w.name).Get(name)
		if err != nil {
			return err
		}
		want, s := *d.Spec.Replicas, d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
			return fmt.Errorf("%d wanted, %d updated, %d in all, %d available", want, s.UpdatedReplicas, s.Replicas, s.AvailableReplicas)
		}
		var ready int32 // the watch of Pods may be behind that of Deployments
		for _, p := range w.list() {
			if strings.HasPrefix(p.Name, name+"-") && isReady(p) {
				ready++
			}
		}
		if ready < want {
			return fmt.Errorf("%d wanted, %d seen Ready", want, ready)
		}
		return nil
	})
}

// update changes a Deployment.
func (w *world) update(name string, change func(*appsv1.Deployment)) {
	w.soon("Deployment "+name+" is changed", func() error {
		d, err := w.client.AppsV1().Deployments(w.name).Get(w.ctx, name, metav1.GetOptions{})
		if err == nil {
			change(d)
			_, err = w.client.AppsV1().Deployments(w.name).Update(w.ctx, d, metav1.UpdateOptions{})
		}
		return err
	})
}

// release updates a Deployment to another version of its module.
func (w *world) release(name, version string) {
	w.update(name, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0] = module(name, version) })
}

// service makes a Service for the Pods of a module.
func (w *world) service(app string) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	_, err := w.client.CoreV1().Services(w.name).Create(w.ctx, s, metav1.CreateOptions{})
	w.must(err)
}

// endpoints are the addresses of a Service whose endpoints are ready, as they were seen last.
func (w *world) endpoints(service string) []string {
	list, err := w.slices.EndpointSlices(w.name).List(labelIs(discoveryv1.LabelServiceName, service))
	if err != nil {
		return nil // the cache knows no error
	}
	var ready []string
	for _, s := range list {
		ready = append(ready, readyAddresses(s)...)
	}
	return ready
}

// endpointsNow asks the API for them.
func (w *world) endpointsNow(service string) ([]string, error) {
	list, err := w.client.DiscoveryV1().EndpointSlices(w.name).List(w.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	var ready []string
	for i := range list.Items {
		ready = append(ready, readyAddresses(&list.Items[i])...)
	}
	return ready, nil
}

func readyAddresses(s *discoveryv1.EndpointSlice) []string {
	var ready []string
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			ready = append(ready, e.Addresses...)
		}
	}
	return ready
}

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }

func labelIs(key, value string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{key: value})
}

var everything = labels.Everything()

func portOf(port int32) intstr.IntOrString { return intstr.FromInt32(port) }
