package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workloads: what Kubernetes' own controllers do with module Pods.
func workloads() []expectation {
	return []expectation{
		{Name: "workload/daemonset", Text: "a DaemonSet puts its module on every base, and on a new one", Source: peers, Level: must, Check: workloadDaemonSet},
		{Name: "workload/daemonset-update", Text: "a DaemonSet's update reaches every base", Source: peers, Level: must, Check: workloadDaemonSetUpdate},
		{Name: "workload/statefulset", Text: "a StatefulSet puts its Pods on bases one after the other", Source: release, Level: must, Check: workloadStatefulSet},
		{Name: "workload/spread", Text: "the documents' anti-affinity puts one Pod on each base", Source: peers, Level: must, Check: workloadSpread},
		{Name: "workload/incompatible", Text: "a module for a base version that does not exist waits, and is installed when such a base comes", Source: together, Level: must, Check: workloadIncompatible},
		{Name: "workload/memory", Text: "a Pod that requests more than a base's metaspace is not put there", Source: principle + " 运维流程 5", Level: should, Check: workloadMemory},
		{Name: "workload/peer-replicas", Text: "the replicas of a peer Deployment are the number of its Ready bases", Source: peers, Level: should, Check: workloadPeer},
		{Name: "workload/peer-other-environment", Text: "a peer Deployment of another environment is left alone", Source: "behaviour F27", Level: should, Check: workloadPeerOtherEnv},
		{Name: "workload/baseline-unreachable", Text: "a baseline has no module of a workload that could not run on the base", Source: "behaviour G33", Level: should, Check: workloadBaselineUnreachable},
		{Name: "workload/baseline-toleration", Text: "a baseline has no module of a DaemonSet whose template lacks the environment's toleration", Source: "behaviour G33", Level: should, Check: workloadBaselineToleration},
		{Name: "workload/service", Text: "a Service has the addresses of the bases whose modules are active", Source: "guide 5.1 Service", Level: must, Check: workloadService},
	}
}

func (w *world) daemonSet(name string, t corev1.PodTemplateSpec) {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{Selector: selector(t), Template: t}}
	_, err := w.client.AppsV1().DaemonSets(w.name).Create(w.ctx, d, metav1.CreateOptions{})
	w.must(err)
}

func workloadDaemonSet(w *world) {
	bases := []*base{w.ready(overMQTT), w.ready(overHTTP)}
	w.daemonSet("m", w.template(module("m", "1.0.0")))
	for _, b := range bases {
		w.hasModules(b, "m:1.0.0 ACTIVATED")
	}
	later := w.ready(overMQTT)
	w.hasModules(later, "m:1.0.0 ACTIVATED")
	w.soon("three Pods are Ready", w.readyPods(3))
}

// readyPods looks at how many Pods of the world are Ready.
func (w *world) readyPods(want int) func() error {
	return func() error {
		n := 0
		for _, p := range w.list() {
			if isReady(p) {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d are, %d wanted", n, want)
		}
		return nil
	}
}

func workloadDaemonSetUpdate(w *world) {
	bases := []*base{w.ready(overMQTT), w.ready(overHTTP)}
	w.daemonSet("m", w.template(module("m", "1.0.0")))
	for _, b := range bases {
		w.hasModules(b, "m:1.0.0 ACTIVATED")
	}
	w.soon("the DaemonSet is changed", func() error {
		d, err := w.client.AppsV1().DaemonSets(w.name).Get(w.ctx, "m", metav1.GetOptions{})
		if err == nil {
			d.Spec.Template.Spec.Containers[0] = module("m", "2.0.0")
			_, err = w.client.AppsV1().DaemonSets(w.name).Update(w.ctx, d, metav1.UpdateOptions{})
		}
		return err
	})
	for _, b := range bases {
		w.within(3*w.patience, "the base has the new version", modulesAre(b, "m:2.0.0 ACTIVATED"))
	}
	w.soon("two Pods are Ready", w.readyPods(2))
}

func workloadStatefulSet(w *world) {
	b := w.ready(overMQTT)
	t := w.template(module("m", "1.0.0"))
	two := int32(2)
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "ss"}, Spec: appsv1.StatefulSetSpec{Replicas: &two, Selector: selector(t), Template: t}}
	_, err := w.client.AppsV1().StatefulSets(w.name).Create(w.ctx, s, metav1.CreateOptions{})
	w.must(err)
	w.readyPod("ss-0")
	w.readyPod("ss-1")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
}

func workloadSpread(w *world) {
	bases := []*base{w.ready(overMQTT), w.ready(overMQTT)}
	t := w.template(module("m", "1.0.0"))
	spread(&t)
	w.deployment("m", 2, t)
	w.rolledOut("m")
	for _, b := range bases {
		w.hasModules(b, "m:1.0.0 ACTIVATED")
	}
}

func workloadIncompatible(w *world) {
	old := w.ready(overMQTT)
	w.deployment("m", 1, w.templateFor("2.0.0", module("m", "1.0.0")))
	w.soon("there is a Pod", func() error {
		if len(w.list()) != 1 {
			return errNone
		}
		return nil
	})
	name := w.list()[0].Name
	w.unscheduled(name)
	b := w.base(overMQTT, func(b *base) { b.version = "2.0.0" })
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	w.readyPod(name)
	if err := sameCommands(old); err != nil {
		w.fail("the base of the old version: %v", err)
	}
}

func workloadMemory(w *world) {
	b := w.ready(overMQTT)
	w.soon("the Node has memory", w.isNode(b, func(n *corev1.Node) error {
		if n.Status.Capacity.Memory().IsZero() {
			return errNone
		}
		return nil
	}))
	p := w.barePod("m", module("m", "1.0.0"))
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *quantity(512 << 20)}
	w.create(p)
	w.unscheduled("m")
}

// peer makes a peer Deployment (behaviour F27).
func (w *world) peer(name string, replicas int32, options ...func(*appsv1.Deployment)) {
	t := w.template(module(name, "1.0.0"))
	spread(&t)
	w.deployment(name, replicas, t, append([]func(*appsv1.Deployment){func(d *appsv1.Deployment) {
		d.Labels = map[string]string{componentLabel: "module-deployment", strategyLabel: "peer", envLabel: w.env}
	}}, options...)...)
}

func (w *world) replicasAre(name string, want int32) func() error {
	return func() error {
		d, err := w.deployments.Deployments(w.name).Get(name)
		if err == nil && *d.Spec.Replicas != want {
			err = fmt.Errorf("%d replicas, %d wanted", *d.Spec.Replicas, want)
		}
		return err
	}
}

func workloadPeer(w *world) {
	w.ready(overMQTT)
	w.ready(overMQTT)
	w.peer("m", 1)
	w.soon("there are two replicas", w.replicasAre("m", 2))
	w.ready(overMQTT)
	w.soon("there are three replicas", w.replicasAre("m", 3))
	w.rolledOut("m")
}

func workloadPeerOtherEnv(w *world) {
	w.ready(overMQTT)
	w.ready(overMQTT)
	w.peer("m", 1, func(d *appsv1.Deployment) { d.Labels[envLabel] = "of-somebody-else" })
	w.rolledOut("m")
	w.throughout(2*time.Second, "it keeps its replicas", w.replicasAre("m", 1))
}

// baselineOf asks for a base's baseline.
func (w *world) baselineOf(b *base) []command {
	had := len(b.gotName(baseline))
	b.send("queryBaseline", b.metadata())
	w.soon("the baseline comes", func() error {
		if len(b.gotName(baseline)) == had {
			return errNone
		}
		return nil
	})
	var items []command
	w.must(json.Unmarshal(b.gotName(baseline)[had].body, &items))
	return items
}

func workloadBaselineUnreachable(w *world) {
	b := w.ready(overMQTT)
	w.peer("here", 1)
	w.peer("elsewhere", 1, func(d *appsv1.Deployment) {
		d.Spec.Template = w.templateFor("9.9.9", module("elsewhere", "1.0.0"))
		d.Spec.Selector = selector(d.Spec.Template)
	})
	w.hasModules(b, "here:1.0.0 ACTIVATED")
	w.soon("the baseline has the reachable one", func() error {
		items := w.baselineOf(b)
		if !slices.ContainsFunc(items, func(c command) bool { return c.BizName == "here" }) {
			return fmt.Errorf("it is %v", items)
		}
		return nil
	})
	if items := w.baselineOf(b); len(items) != 1 {
		w.fail("the baseline is %v", items)
	}
}

// workloadBaselineToleration: the DaemonSet controller looks at the template, so such a DaemonSet
// has no Pod on any base.
func workloadBaselineToleration(w *world) {
	b := w.ready(overMQTT)
	t := w.template(module("m", "1.0.0"))
	t.Spec.Tolerations = []corev1.Toleration{tolerate(virtualNode, "True")}
	w.daemonSet("m", t)
	w.peer("here", 1)
	w.hasModules(b, "here:1.0.0 ACTIVATED")
	w.throughout(time.Second, "the DaemonSet has no Pod on the base", func() error {
		for _, p := range w.list() {
			if p.Labels["app"] == "m" && p.Spec.NodeName == w.node(b).Name {
				return fmt.Errorf("%s", describe(p))
			}
		}
		return nil
	})
	if items := w.baselineOf(b); slices.ContainsFunc(items, func(c command) bool { return c.BizName == "m" }) {
		w.fail("the baseline has a module that no Pod can have there: %v", items)
	}
}

func workloadService(w *world) {
	bases := []*base{w.ready(overMQTT), w.ready(overMQTT)}
	w.service("m")
	t := w.template(module("m", "1.0.0"))
	spread(&t)
	w.deployment("m", 2, t)
	w.rolledOut("m")
	want := []string{bases[0].ip, bases[1].ip}
	slices.Sort(want)
	w.soon("the endpoints are the bases", func() error {
		got := w.endpoints("m")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
	w.saw("%v", want)
}
