package why_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// failure returns the waiting reason and the message that the controller writes to the status of a container whose
// command has failed.
func failure(text string, codes ...errcode.Code) (reason, message string) {
	err := fmt.Errorf("%s", text)
	for _, c := range slices.Backward(codes) {
		err = errcode.Wrap(c, err)
	}
	return codes[0].Type(), errcode.Message(err)
}

// failing returns a Snapshot for a Pod with a module whose command has failed with the given error codes.
func failing(text string, codes ...errcode.Code) *why.Snapshot {
	return ofPod(pod(on(1), waits(failure(text, codes...))))
}

// refused returns a Snapshot for a Pod whose container the controller rejects with the given error code.
func refused(code errcode.Code, text string, change func(*corev1.Pod)) *why.Snapshot {
	return ofPod(pod(on(1), change, waits(failure(text, code))))
}

// checked returns a Snapshot for a Pod that package workload rejects as invalid.
func checked(change func(*corev1.Pod)) *why.Snapshot {
	p := pod(on(1), change)
	err := workload.Check(&p.ObjectMeta, p.Spec.Containers[0])
	var coded *errcode.Error
	if !errors.As(err, &coded) {
		panic(fmt.Sprintf("workload.Check returned %v", err))
	}
	waits(coded.Code().Type(), errcode.Message(err))(p)
	return ofPod(p)
}

type situation struct {
	name     string
	snapshot *why.Snapshot
	want     why.Reason
	because  why.Reason
	names    []string // names that the cause must contain
}

// situations contains at least one test case for every reason.
var situations = []situation{
	// A Pod without a Node.
	{name: "a scheduling gate",
		snapshot: ofPod(pod(func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{
				{Name: "example.com/wait"}}
		})), want: why.SchedulingGated, names: []string{"example.com/wait"}},
	{name: "no bases", snapshot: ofPod(pod(), bases()), want: why.NoBases, names: []string{labels.Component}},
	{name: "no bases and no controller", snapshot: ofPod(pod(), bases(), controllers()),
		want: why.ControllerNotRunning},
	{name: "misspelled base name in the node selector", snapshot: ofPod(pod(selects(labels.BaseName, "bsae"))),
		want: why.WrongBaseName, names: []string{"bsae", "base, order"}},
	{name: "misspelled base name in the node affinity",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Spec.NodeSelector = nil },
			affinity(in(labels.OlderBaseName, "bsae")))), want: why.WrongBaseName, names: []string{"bsae"}},
	{name: "a version that no base has", snapshot: ofPod(pod(affinity(in(labels.BaseVersion, "2.0.0")))),
		want: why.WrongBaseVersion, names: []string{"2.0.0", "1.0.0"}},
	{name: "a version that only another base has",
		snapshot: ofPod(pod(affinity(in(labels.BaseVersion, "2.0.0"))),
			bases(base(1, "base", "1.0.0"), base(2, "order", "2.0.0"))), want: why.WrongBaseVersion,
		names: []string{"2.0.0"}},
	{name: "a cluster name that no base has",
		snapshot: ofPod(pod(selects(labels.BaseCluster, "default")),
			bases(base(1, "base", "1.0.0", func(n *corev1.Node) { n.Labels[labels.BaseCluster] = "shop" }))),
		want: why.NoBaseMatchesSelector, names: []string{"cluster-name=default", "shop"}},
	{name: "another label of the controller", snapshot: ofPod(pod(selects(corev1.LabelHostname, "base-9"))),
		want: why.NoBaseMatchesSelector, names: []string{"base-1, base-2"}},
	{name: "a label of another environment", snapshot: ofPod(pod(selects(labels.Env, "test"))),
		want: why.NoBaseMatchesSelector, names: []string{"test", "dev"}},
	{name: "node selector without a base", snapshot: ofPod(pod(selects("zone", "east"))),
		want: why.NoBaseMatchesSelector, names: []string{"zone=east"}},
	{name: "label without a base, and a version of another base",
		snapshot: ofPod(pod(func(p *corev1.Pod) {
			p.Spec.NodeSelector["zone"], p.Spec.NodeSelector[labels.BaseVersion] = "east", "2.0.0"
		}),
			bases(base(1, "base", "1.0.0"), base(2, "order", "2.0.0"))), want: why.NoBaseMatchesSelector,
		names: []string{"zone=east"}},
	{name: "expression without a base", snapshot: ofPod(pod(affinity(in("zone", "east", "west")))),
		want: why.NoBaseMatchesAffinity, names: []string{"zone In [east, west]"}},
	{name: "two terms without a base", snapshot: ofPod(pod(affinity(in("zone", "east"), in("disk", "fast")))),
		want: why.NoBaseMatchesAffinity, names: []string{"term 1 (zone In [east])", "term 2 (disk In [fast])"}},
	{name: "a term that cannot be read",
		snapshot: ofPod(pod(affinity([]corev1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}}))),
		want:     why.NoBaseMatchesAffinity, names: []string{"zone Near"}},
	{name: "taint of all bases is not tolerated",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[1:] })),
		want:     why.TolerationMissing, names: []string{labels.TaintVirtualNode + "=True:NoExecute"}},
	{name: "environment is not tolerated",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[:1] })),
		want:     why.EnvironmentTolerationMissing, names: []string{labels.TaintEnv + "=dev:NoExecute"}},
	{name: "environment is not tolerated by a new Pod", snapshot: ofPod(pod(func(p *corev1.Pod) {
		p.Spec.Tolerations, p.CreationTimestamp = p.Spec.Tolerations[:1], past(14*time.Second)
	})), want: why.NotTakenUp, names: []string{"14s", labels.TaintEnv + "=dev:NoExecute"}},
	{name: "environment is not tolerated by a new Pod, and another controller serves the bases",
		snapshot: ofPod(pod(func(p *corev1.Pod) {
			p.Spec.Tolerations, p.CreationTimestamp = p.Spec.Tolerations[:1], past(time.Second)
		}), bases(base(1, "base", "1.0.0", func(n *corev1.Node) { n.Annotations = nil }))),
		want: why.EnvironmentTolerationMissing},
	{name: "environment is not tolerated, and no controller runs",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[:1] }),
			controllers(controller("controller-1", "dev", time.Minute))), want: why.ControllerNotRunning,
		names: []string{labels.TaintEnv, "controller-1"}},
	{name: "another environment is tolerated",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Spec.Tolerations[1].Value = "test" })), want: why.WrongEnvironment,
		names: []string{"test", "dev"}},
	{name: "custom taint", snapshot: ofPod(pod(), bases(base(1, "base", "1.0.0", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: "special", Value: "yes", Effect: corev1.TaintEffectNoSchedule})
	}))), want: why.TaintNotTolerated, names: []string{"special=yes:NoSchedule", "base-1"}},
	{name: "a cordoned base", snapshot: ofPod(pod(),
		bases(base(1, "base", "1.0.0", func(n *corev1.Node) { n.Spec.Unschedulable = true }))), want: why.BaseCordoned,
		names: []string{"base-1"}},
	{name: "base that is being deleted",
		snapshot: ofPod(pod(),
			bases(base(1, "base", "1.0.0",
				func(n *corev1.Node) { n.DeletionTimestamp, n.Spec.Unschedulable = ptr.To(past(time.Second)), true }))),
		want: why.BaseLeaving, names: []string{"base-1"}},
	{name: "unreachable bases",
		snapshot: ofPod(pod(),
			bases(base(1, "base", "1.0.0", silent),
				base(2, "base", "1.0.0", func(n *corev1.Node) { n.Spec.Unschedulable = true }))),
		want: why.BasesNotReady, names: []string{"base-1", "no sign of life"}},
	{name: "unreachable bases with taints of Kubernetes",
		snapshot: ofPod(pod(), bases(base(1, "base", "1.0.0", silent, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule})
		}))), want: why.BasesNotReady, names: []string{"base-1"}},
	{name: "cordoned base with the taint of Kubernetes",
		snapshot: ofPod(pod(), bases(base(1, "base", "1.0.0", func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}))), want: why.BaseCordoned},
	{name: "unreachable bases, and no controller runs",
		snapshot: ofPod(pod(), controllers(),
			bases(base(1, "base", "1.0.0",
				nodeState(corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown",
					"Kubelet stopped posting node status.")))), want: why.ControllerNotRunning,
		names: []string{"base-1"}},
	{name: "too little metaspace", snapshot: ofPod(pod(requests("60Mi")), func(s *why.Snapshot) {
		s.OnBases = []corev1.Pod{*pod(on(1), requests("50Mi")),
			*pod(on(1), requests("90Mi"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}
	}), want: why.NoFreeMetaspace, names: []string{"60 Mi", "50 Mi on base-1"}},
	{name: "memory pressure", snapshot: ofPod(pod(), bases(base(1, "base", "1.0.0",
		nodeState(corev1.NodeMemoryPressure, corev1.ConditionTrue, "MetaspaceAboveThreshold", "more than 90%"),
		func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule})
		}))), want: why.MetaspacePressure, names: []string{"base-1", "90%"}},
	{name: "too few CPUs", snapshot: ofPod(pod(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	})), want: why.NoFreeResources, names: []string{"8 of cpu", "4 on base-1"}},
	{name: "a resource that no base has", snapshot: ofPod(pod(asks("ephemeral-storage", "1Gi"))),
		want: why.NoSuchResource, names: []string{"1Gi of ephemeral-storage"}},
	{name: "a resource that no base has, by a LimitRange",
		snapshot: ofPod(pod(asks("ephemeral-storage", "1Gi"), func(p *corev1.Pod) {
			p.Annotations = map[string]string{
				"kubernetes.io/limit-ranger": "LimitRanger plugin set: ephemeral-storage request for container biz1"}
		})), want: why.NoSuchResource},
	{name: "an extended resource that no base has", snapshot: ofPod(pod(asks("example.com/gpu", "1"))),
		want: why.NoSuchResource, names: []string{"example.com/gpu"}},
	{name: "memory of a base that has not reported its metaspace",
		snapshot: ofPod(pod(requests("1Mi")),
			bases(base(1, "base", "1.0.0",
				func(n *corev1.Node) { delete(n.Status.Allocatable, corev1.ResourceMemory) }))),
		want: why.NoFreeMetaspace},

	// A Pod without a Node although a base fits by its labels, taints, state and resources. The messages are from
	// kube-scheduler v1.36 and v1.37.
	{name: "an anti-affinity", snapshot: ofPod(pod(refusedBy("2 node(s) didn't match pod anti-affinity rules"))),
		want: why.AntiAffinity},
	{name: "an anti-affinity of another Pod",
		snapshot: ofPod(pod(refusedBy("2 node(s) didn't satisfy existing pods anti-affinity rules"))),
		want:     why.AntiAffinity},
	{name: "a Pod affinity", snapshot: ofPod(pod(refusedBy("2 node(s) didn't match pod affinity rules"))),
		want: why.PodAffinity},
	{name: "a topology spread constraint",
		snapshot: ofPod(pod(spread(corev1.LabelHostname),
			refusedBy("1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints")),
			bases(base(1, "base", "1.0.0"),
				base(2, "base", "1.0.0", func(n *corev1.Node) { n.Spec.Unschedulable = true }))),
		want: why.TopologySpread, names: []string{"kubernetes.io/hostname", "2 node(s) didn't match"}},
	{name: "a topology spread constraint over a label that no base has",
		snapshot: ofPod(pod(spread("example.com/rack"),
			refusedBy("3 node(s) didn't match pod topology spread constraints (missing required label)"))),
		want: why.TopologySpread, names: []string{"example.com/rack"}},
	{name: "a claim that does not exist",
		snapshot: ofPod(pod(claim("missing"),
			condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable",
				`0/3 nodes are available: persistentvolumeclaim "missing" not found. not found`))),
		want: why.ClaimUnbound, names: []string{"(missing)"}},
	{name: "a claim that is not bound",
		snapshot: ofPod(pod(claim("data-stock-0"), ownedBy("StatefulSet", "stock"),
			condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable",
				"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"))),
		want: why.ClaimUnbound, names: []string{"data-stock-0"}},
	{name: "no volume to bind",
		snapshot: ofPod(pod(claim("data"), refusedBy("2 node(s) didn't find available persistent volumes to bind"))),
		want:     why.VolumeUnavailable, names: []string{"didn't find available persistent volumes"}},
	{name: "a volume of another Node",
		snapshot: ofPod(pod(claim("data"), refusedBy("2 node(s) didn't match PersistentVolume's node affinity"))),
		want:     why.VolumeUnavailable},
	{name: "a port of the host",
		snapshot: ofPod(pod(refusedBy("1 node(s) didn't have free ports for the requested pod ports"))),
		want:     why.HostPortTaken, names: []string{"hostPort"}},
	{name: "maximum number of Pods", snapshot: ofPod(pod(refusedBy("1 Too many pods"))),
		want: why.NoFreeResources},
	{name: "a device that does not exist", snapshot: ofPod(pod(func(p *corev1.Pod) {
		p.Spec.ResourceClaims, p.Status.Conditions = []corev1.PodResourceClaim{{Name: "gpu"}}, nil
	})), want: why.NotScheduledYet},
	{name: "unknown message of the scheduler",
		snapshot: ofPod(pod(refusedBy("1 node(s) are not to somebody's taste"))), want: why.SchedulerRefuses,
		names: []string{"not to somebody's taste", "base-1"}},
	{name: "a base that became Ready a moment ago",
		snapshot: ofPod(pod(refusedBy("1 node(s) had untolerated taint(s)")),
			bases(base(1, "base", "1.0.0", func(n *corev1.Node) {
				n.Status.Conditions[0].LastTransitionTime = past(3 * time.Second)
			}))), want: why.NotScheduledYet, names: []string{"base-1", "3s"}},
	{name: "a base that was uncordoned a moment ago",
		snapshot: ofPod(pod(refusedBy("1 node(s) were unschedulable")),
			bases(base(1, "base", "1.0.0", func(n *corev1.Node) {
				n.ManagedFields = []metav1.ManagedFieldsEntry{
					{Manager: "kubectl-cordon", Time: ptr.To(past(5 * time.Second))}}
			}))), want: why.NotScheduledYet, names: []string{"base-1", "5s"}},
	{name: "unknown scheduler",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Spec.SchedulerName, p.Status.Conditions = "mine", nil })),
		want:     why.UnknownScheduler, names: []string{"mine"}},
	{name: "scheduler that has not tried the Pod",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Status.Conditions = nil })),
		want:     why.NotScheduledYet, names: []string{"60s", "base-1"}},

	// Pods that are not module Pods.
	{name: "no label", snapshot: ofPod(pod(func(p *corev1.Pod) { p.Labels = nil })), want: why.ModuleLabelMissing,
		names: []string{labels.Component + "=module"}},
	{name: "another label", snapshot: ofPod(pod(func(p *corev1.Pod) { p.Labels[labels.Component] = "modul" })),
		want: why.ModuleLabelMissing, names: []string{"modul"}},
	{name: "no module on a base",
		snapshot: ofPod(pod(on(1),
			func(p *corev1.Pod) { p.Labels, p.Spec.Tolerations, p.Spec.Containers[0].Env = nil, nil, nil })),
		want: why.ModuleLabelMissing},
	{name: "an ordinary Pod", snapshot: ofPod(pod(func(p *corev1.Pod) {
		p.Labels, p.Spec.Tolerations, p.Spec.Containers[0].Env, p.Spec.NodeName = nil, nil, nil, "worker"
	})), want: why.NotAModule, names: []string{"worker"}},
	{name: "a module on an ordinary Node",
		snapshot: ofPod(pod(func(p *corev1.Pod) { p.Spec.NodeName = "worker" }), func(s *why.Snapshot) {
			s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
		}), want: why.OnOrdinaryNode, names: []string{"worker"}},

	// Pods that are Ready, have ended, or are being deleted.
	{name: "Ready", snapshot: ofPod(pod(on(1), runs(true))), want: why.PodReady,
		names: []string{"60s", "base-1", "biz1"}},
	{name: "Ready with an installed version",
		snapshot: ofPod(pod(on(1), runs(true),
			condition(api.ConditionCurrent, corev1.ConditionTrue, "Unchanged", "biz1:1.0.0 was on the base already"))),
		want: why.AlreadyInstalled},
	{name: "Ready with unsupported fields",
		snapshot: ofPod(pod(on(1), runs(true),
			func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = &corev1.Probe{} })), want: why.UnsupportedFields,
		names: []string{"startupProbe"}},
	{name: "terminating Pod", snapshot: ofPod(pod(on(1), runs(true), deleted)), want: why.Terminating,
		names: []string{"10s", "drains"}},
	{name: "a finalizer", snapshot: ofPod(pod(on(1), deleted, func(p *corev1.Pod) {
		p.Finalizers = []string{"example.com/keep"}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "biz1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	})), want: why.TerminatingFinalizer, names: []string{"example.com/keep"}},
	{name: "finalizer during the drain",
		snapshot: ofPod(pod(on(1), runs(true), deleted,
			func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} })), want: why.Terminating},
	{name: "an uninstall fails",
		snapshot: ofPod(pod(on(1), runs(true), deleted),
			events(event("uid-x", "Pod", "biz1-x", "UninstallBizFailed",
				"Arklet.UninstallBizFailed: the base says no"))), want: why.UninstallFailing,
		names: []string{"the base says no"}},
	{name: "an uninstall failed before the deletion",
		snapshot: ofPod(pod(on(1), runs(true), deleted), func(s *why.Snapshot) {
			e := event("uid-x", "Pod", "biz1-x", "UninstallBizFailed", "no")
			e.LastTimestamp = past(time.Hour)
			s.Events = []corev1.Event{e}
		}), want: why.Terminating},
	{name: "terminating Pod without a controller", snapshot: ofPod(pod(on(1), runs(true), deleted), controllers()),
		want: why.TerminatingUnserved, because: why.ControllerNotRunning},
	{name: "superseded Pod", snapshot: ofPod(
		pod(on(1), waits("BizDeactivate", "a newer Pod of module biz1 is active on this base"),
			func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), func(s *why.Snapshot) {
			s.OnBases = []corev1.Pod{*pod(on(1), runs(true), func(p *corev1.Pod) { p.Name, p.UID = "biz1-y", "uid-y" })}
		}), want: why.GaveWay, names: []string{"biz1-y", "base-1"}},
	{name: "failed Pod with the condition Ready",
		snapshot: ofPod(pod(on(1), runs(true), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })),
		want:     why.PodEnded, names: []string{"Failed"}},
	{name: "failed Pod", snapshot: ofPod(pod(on(1), func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource."
	})), want: why.PodEnded, names: []string{"Failed", "Evicted"}},

	// Bases without a controller, and unreachable bases.
	{name: "Node that does not exist", snapshot: ofPod(pod(on(7))), want: why.NodeGone,
		names: []string{"vnode.base-7-id"}},
	{name: "a nodeName in the template", snapshot: ofPod(pod(on(7), func(p *corev1.Pod) { p.Status.Conditions = nil })),
		want: why.NodeGone, names: []string{"nodeName: vnode.base-7-id"}},
	{name: "no controller", snapshot: ofPod(pod(on(1)), controllers(controller("controller-1", "dev", time.Minute))),
		want: why.ControllerNotRunning, names: []string{"controller-1", "60s"}},
	{name: "no controller of its environment",
		snapshot: ofPod(pod(on(1)), controllers(controller("controller-9", "test", time.Second))),
		want:     why.NoControllerForEnvironment, names: []string{"dev", "test"}},
	{name: "controller of the base has stopped",
		snapshot: ofPod(pod(on(1)), controllers(controller("controller-2", "dev", time.Second))),
		want:     why.NobodyServesBase, names: []string{"controller-1", "base-1"}},
	{name: "base that its controller released",
		snapshot: ofPod(pod(on(1)),
			bases(base(1, "base", "1.0.0", func(n *corev1.Node) { n.Annotations[labels.Holder] = "" }))),
		want: why.NobodyServesBase},
	{name: "base that the controller cannot observe",
		snapshot: ofPod(pod(on(1)),
			bases(base(1, "base", "1.0.0",
				nodeState("Observed", corev1.ConditionFalse, "TunnelDown",
					"the base was not heard since the controller's tunnel went down"), silent))),
		want: why.ControllerBlind, names: []string{"TunnelDown", "2m"}},
	{name: "deactivated base", snapshot: ofPod(pod(on(1)),
		bases(base(1, "base", "1.0.0", nodeState(corev1.NodeReady, corev1.ConditionFalse, "BaseDeactivated", "x")))),
		want: why.BaseSilent, names: []string{"base-1", "deactivated"}},
	{name: "unreachable base", snapshot: ofPod(pod(on(1)), bases(base(1, "base", "1.0.0", silent))),
		want: why.BaseSilent, names: []string{"base-1", "no sign of life"}},
	{name: "base of a Pod is being deleted",
		snapshot: ofPod(pod(on(1), runs(true), condition(corev1.PodReady, corev1.ConditionFalse, "Odd", "")),
			bases(base(1, "base", "1.0.0", func(n *corev1.Node) { n.DeletionTimestamp = ptr.To(past(time.Second)) }))),
		want: why.BaseLeaving, names: []string{"base-1"}},
	{name: "a controller of another kind",
		snapshot: ofPod(pod(on(1)), controllers(),
			bases(base(1, "base", "1.0.0", func(n *corev1.Node) { n.Annotations = nil }))), want: why.NotTakenUp},

	// Checks of the controller, and commands.
	{name: "no version", snapshot: checked(func(p *corev1.Pod) { p.Spec.Containers[0].Env = nil }),
		want: why.VersionMissing, names: []string{"BIZ_VERSION"}},
	{name: "an empty version", snapshot: checked(version(nil, "")), want: why.VersionMissing},
	{name: "a version with spaces", snapshot: checked(version(nil, "1 0")), want: why.VersionInvalid,
		names: []string{"1 0"}},
	{name: "a version that is too long", snapshot: checked(version(nil, strings.Repeat("9", 257))),
		want: why.VersionInvalid, names: []string{"257 bytes"}},
	{name: "missing annotation",
		snapshot: checked(version(
			&corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['biz']"}}, "")),
		want: why.VersionRefUnresolved, names: []string{"metadata.annotations['biz']"}},
	{name: "a field that is not metadata",
		snapshot: checked(version(
			&corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}, "")),
		want: why.VersionRefUnresolved, names: []string{"spec.nodeName"}},
	{name: "missing ConfigMap",
		snapshot: refused(errcode.OtherUpstreamInvalidParameter,
			"ConfigMap default/v, which is to name the module's version, does not exist",
			version(&corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "v"}, Key: "k"}}, "")),
		want: why.VersionRefUnresolved, names: []string{"ConfigMap v"}},
	{name: "reference to a missing ConfigMap",
		snapshot: refused(errcode.OtherUpstreamInvalidParameter,
			"ConfigMap default/v, which is to name the module's version, does not exist", referring),
		want: why.VersionRefUnresolved, names: []string{"key k of ConfigMap v"}},
	{name: "invalid version in a ConfigMap",
		snapshot: refused(errcode.OtherUpstreamInvalidParameter,
			`BIZ_VERSION of container "biz1" is "1 0": a version has no spaces; check the parameters`, referring),
		want: why.VersionRefUnresolved, names: []string{`"1 0"`, "BIZ_VERSION", "key k of ConfigMap v"}},
	{name: "a Secret", snapshot: checked(
		version(&corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
			"")), want: why.VersionRefUnresolved, names: []string{"Secret s"}},
	{name: "a container that admission added",
		snapshot: with(refused(errcode.OtherUpstreamInvalidParameter,
			`container "agent" has no environment variable BIZ_VERSION`, func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{{Name: "agent"}, p.Spec.Containers[0]}
			}), func(s *why.Snapshot) { s.Template = ptr.To(template()) }), want: why.InjectedContainer,
		names: []string{"container agent"}},
	{name: "an image that admission changed",
		snapshot: with(checked(image("mirror.example/biz1-1.0.0-ark-biz.jar")),
			func(s *why.Snapshot) { s.Template = ptr.To(template()) }),
		want: why.ImageNotAJar, names: []string{"container biz1", "https://host/biz1-1.0.0-ark-biz.jar"}},
	{name: "an image of a registry", snapshot: checked(image("nginx:1.27")), want: why.ImageNotAJar,
		names: []string{"nginx:1.27"}},
	{name: "an image of a registry with a port", snapshot: checked(image("10.0.0.1:5000/biz1")),
		want: why.ImageNotAJar},
	{name: "a URL that cannot be parsed", snapshot: checked(image("https://u:p w@host/biz1.jar")),
		want: why.ImageNotAJar, names: []string{`https://***@host/biz1.jar" of container "biz1"`}},
	{name: "a scheme that bases do not fetch", snapshot: checked(image("oss://bucket/biz1.jar")),
		want: why.ImageNotAJar, names: []string{"oss://"}},
	{name: "URL without a path", snapshot: checked(image("https://host")), want: why.ImageNotAJar,
		names: []string{"https://host"}},
	{name: "kept deactivated",
		snapshot: ofPod(pod(on(1), waits("BizNotActivated", "the base keeps this version deactivated"))),
		want:     why.KeptDeactivated, names: []string{"biz1:1.0.0"}},
	{name: "another jar of a version",
		snapshot: ofPod(pod(on(1), waits("ReplacingSameVersion", "the base has this version from another image"))),
		want:     why.ReplacingSameVersion},
	{name: "an unknown install strategy", snapshot: checked(func(p *corev1.Pod) {
		p.Annotations = map[string]string{labels.InstallStrategy: "typo"}
	}), want: why.StrategyInvalid, names: []string{`"typo"`}},
	{name: "uninstalled for a newer version",
		snapshot: ofPod(pod(on(1), waits("UninstallThenInstall", "the base uninstalls this version"))),
		want:     why.GaveWay, names: []string{"biz1"}},
	{name: "retry limit reached", snapshot: ofPod(
		pod(on(1), waits("RetryTimesExceeded",
			errcode.Message(errcode.New(errcode.ModuleControllerRetryTimesExceeded,
				"attempt %d failed, the next one is at %s: %w", 7, "2026-01-02T12:01:30Z",
				errcode.Wrap(errcode.ArkletInstallModuleFailed,
					errcode.New(errcode.UserInstallBizUserError, "no bean"))))))), want: why.InstallRetrying,
		because: why.ModuleBroken,
		names:   []string{"2026-01-02T12:01:30Z", "1m30s", "no bean (User.InstallBizUserError)"}},
	{name: "a web context path twice",
		snapshot: with(failing(`installBiz of biz1:1.0.0 on base "base-1": java.lang.reflect.InvocationTargetException`,
			errcode.ArkletInstallModuleFailed, errcode.UserInstallBizUserError),
			log("Caused by: java.lang.IllegalArgumentException: Child name [stock] is not unique")),
		want: why.WebContextTaken, names: []string{"/stock"}},
	{name: "the module is broken",
		snapshot: failing("installBiz of biz1:1.0.0 on base base-1: no bean", errcode.ArkletInstallModuleFailed,
			errcode.UserInstallBizUserError), want: why.ModuleBroken,
		names: []string{"no bean", "User.InstallBizUserError"}},
	{name: "state BROKEN", snapshot: ofPod(pod(on(1), waits("BizBroken", "STARTED_FAILED no bean"))),
		want: why.ModuleBroken, names: []string{"BROKEN", "no bean"}},
	{name: "metaspace is full", snapshot: failing("full", errcode.ArkletInstallModuleFailed, errcode.UserMetaspaceFull),
		want: why.MetaspaceFull, names: []string{"base-1"}},
	{name: "a disk is full", snapshot: failing("full", errcode.UserDiskFull), want: why.DiskFull,
		names: []string{"base-1"}},
	{name: "a jar that cannot be fetched",
		snapshot: failing("404", errcode.ArkletInstallModuleFailed, errcode.ArkletPullBizError),
		want:     why.JarNotFetched, names: []string{"404"}},
	{name: "image without .jar",
		snapshot: with(failing("404", errcode.ArkletInstallModuleFailed, errcode.ArkletPullBizError),
			func(s *why.Snapshot) { image("https://host/biz1:1.0.0")(s.Pod) }), want: why.JarNotFetched,
		names: []string{".jar"}},
	{name: "command timed out", snapshot: failing("no answer within 5m0s", errcode.ArkletInstallModuleTimedOut),
		want: why.CommandTimedOut, names: []string{"no answer within 5m0s"}},
	{name: "no connection", snapshot: failing("connection refused", errcode.ArkletArkletServiceNotFound),
		want: why.BaseUnreachable, names: []string{"connection refused"}},
	{name: "no answer of a base that is Ready",
		snapshot: failing(`queryAllBiz on base "base-1": base did not answer in time`, errcode.ArkletNetworkError),
		want:     why.BaseUnreachable, names: []string{"did not answer in time"}},
	{name: "another installation is running", snapshot: failing("busy", errcode.ArkletInstallModuleExecuting),
		want: why.InstalledBySomebody, names: []string{"busy"}},
	{name: "another installation after a timeout",
		snapshot: with(failing("busy", errcode.ArkletInstallModuleExecuting),
			events(event("uid-x", "Pod", "biz1-x", "InstallModuleTimedOut", "no answer"))), want: why.CommandTimedOut,
		names: []string{"base-1", "biz1", "ago"}},
	{name: "an uninstall before an install fails", snapshot: failing("it stays", errcode.ArkletUninstallBizFailed),
		want: why.UninstallFailing, names: []string{"it stays"}},
	{name: "an install fails", snapshot: failing("odd", errcode.ArkletInstallModuleFailed), want: why.InstallFailed,
		names: []string{"odd"}},
	{name: "a module has stopped", snapshot: ofPod(pod(on(1), func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "biz1", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "STOPPED"}}}}
	})), want: why.ModuleStopped, names: []string{"biz1", "STOPPED"}},
	{name: "command without an answer",
		snapshot: ofPod(pod(on(1), waits("ContainerCreating", "")),
			log("2026-01-02 11:59:00.000 biz1:0.9.0 installBiz answered: SUCCESS",
				"2026-01-02 11:59:30.000 biz1:1.0.0 installBiz sent: https://host/biz1.jar")),
		want: why.CommandUnderWay, names: []string{"installBiz", "30s", "base-1"}},
	{name: "state RESOLVED", snapshot: ofPod(pod(on(1), waits("BizResolved", "INSTALLING"))),
		want: why.CommandUnderWay, names: []string{"RESOLVED"}},
	{name: "a command was answered",
		snapshot: ofPod(pod(on(1), waits("ContainerCreating", "")),
			log("2026-01-02 11:59:30.000 biz1:1.0.0 installBiz sent: x",
				"2026-01-02 11:59:40.000 biz1:1.0.0 installBiz not answered: late")), want: why.CommandNotSent},
	{name: "no command yet", snapshot: ofPod(pod(on(1), waits("ContainerCreating", "")), log("")),
		want: why.CommandNotSent, names: []string{"biz1", "base-1"}},
	{name: "Pod without a status", snapshot: ofPod(pod(on(1))), want: why.NotTakenUp,
		names: []string{"base-1", "60s"}},

	// Probes and readiness gates.
	{name: "a readiness probe",
		snapshot: ofPod(pod(on(1), runs(false),
			condition(corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady",
				"biz1:1.0.0: HTTP probe failed with statuscode: 500"))), want: why.ReadinessProbeFailing,
		names: []string{"statuscode: 500"}},
	{name: "a liveness probe",
		snapshot: ofPod(pod(on(1), runs(false),
			condition(corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady",
				"biz1:1.0.0: its liveness probe failed: it is uninstalled and installed again")),
			events(event("uid-x", "Pod", "biz1-x", "Unhealthy", "liveness probe failed: 500"),
				event("uid-x", "Pod", "biz1-x", "Killing", "module biz1 failed its liveness probe"))),
		want: why.LivenessProbeFailing, names: []string{"5s ago: liveness probe failed: 500"}},
	{name: "a liveness probe, and the module is off",
		snapshot: ofPod(pod(on(1), waits("ReplacingSameVersion", "the base has this version from another image")),
			events(event("uid-x", "Pod", "biz1-x", "Killing",
				"module biz1 failed its liveness probe: it is uninstalled and installed again"))),
		want: why.LivenessProbeFailing},
	{name: "a liveness probe, long ago",
		snapshot: ofPod(pod(on(1), waits("ReplacingSameVersion", "the base has this version from another image")),
			func(s *why.Snapshot) {
				e := event("uid-x", "Pod", "biz1-x", "Killing",
					"module biz1 failed its liveness probe: it is uninstalled and installed again")
				e.LastTimestamp = past(time.Hour)
				s.Events = []corev1.Event{e}
			}), want: why.ReplacingSameVersion},
	{name: "a readiness gate",
		snapshot: ofPod(pod(on(1), runs(true),
			condition(corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady", ""), func(p *corev1.Pod) {
				p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/traffic"}}
			})), want: why.ReadinessGateMissing, names: []string{"example.com/traffic"}},
	{name: "unknown state", snapshot: ofPod(
		pod(on(1), runs(true), condition(corev1.PodReady, corev1.ConditionFalse, "Odd", ""))), want: why.Unknown},

	// Workloads.
	{name: "a Deployment that is Ready", snapshot: deployment(), want: why.WorkloadReady,
		names: []string{"3 Pods", "biz1"}},
	{name: "Deployment that is being deleted", snapshot: deployment(func(d *appsv1.Deployment) {
		d.DeletionTimestamp, d.Finalizers = ptr.To(past(time.Minute)), []string{"foregroundDeletion"}
	}), want: why.WorkloadLeaving, names: []string{"foregroundDeletion"}},
	{name: "Deployment that was not processed", snapshot: deployment(func(d *appsv1.Deployment) { d.Generation = 2 }),
		want: why.WorkloadNotSeen, names: []string{"1 of 2"}},
	{name: "a Deployment that is paused",
		snapshot: deployment(func(d *appsv1.Deployment) { d.Spec.Paused, d.Status.UpdatedReplicas = true, 0 }),
		want:     why.DeploymentPaused, names: []string{"0 of 3"}},
	{name: "a Deployment that is paused and Ready",
		snapshot: deployment(func(d *appsv1.Deployment) { d.Spec.Paused = true }), want: why.WorkloadReady},
	{name: "no replicas", snapshot: deployment(func(d *appsv1.Deployment) {
		d.Spec.Replicas, d.Status = ptr.To[int32](0), appsv1.DeploymentStatus{ObservedGeneration: 1}
	}), want: why.NoReplicas},
	{name: "a peer Deployment that no base fits",
		snapshot: deployment(peer,
			func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector[labels.BaseName] = "bsae" }),
		want: why.PeerWithoutBases, because: why.WrongBaseName, names: []string{"bsae"}},
	{name: "a peer Deployment without an environment", snapshot: deployment(peer, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Tolerations = d.Spec.Template.Spec.Tolerations[:1]
	}), want: why.PeerNotFollowed, names: []string{"base-1"}},
	{name: "a quota", snapshot: deployment(func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.ReadyReplicas = 1, 1
		d.Status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
				Message: `pods "biz1-a" is forbidden: exceeded quota: few, requested: pods=1`}}
	}), want: why.QuotaExceeded, names: []string{"exceeded quota: few"}},
	{name: "an admission", snapshot: with(daemonSet(func(d *appsv1.DaemonSet) { d.Status.DesiredNumberScheduled = 1 }),
		events(event("uid-ds", "DaemonSet", "biz1", "FailedCreate",
			"Error creating: pods is forbidden: no service account"))), want: why.PodsRefused,
		names: []string{"no service account"}},
	{name: "a rollout", snapshot: with(
		deployment(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas, d.Status.Replicas = 1, 4 }),
		func(s *why.Snapshot) { s.Pod = pod(selects(labels.BaseName, "bsae")) }), want: why.RolloutStuck,
		because: why.WrongBaseName,
		names:   []string{"1 of 3 Pods have the new version; 3 Pods are Ready in total", "Pod biz1-x", "bsae"}},
	{name: "a rollout with one Ready Pod", snapshot: with(
		deployment(func(d *appsv1.Deployment) {
			d.Status.UpdatedReplicas, d.Status.Replicas, d.Status.ReadyReplicas = 1, 4, 1
		}), func(s *why.Snapshot) { s.Pod = pod(selects(labels.BaseName, "bsae")) }), want: why.RolloutStuck,
		because: why.WrongBaseName, names: []string{"1 Pod is Ready in total"}},
	{name: "Pods that are not Ready",
		snapshot: with(deployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 2 }),
			func(s *why.Snapshot) { s.Pod = pod(requests("1Gi")) }), want: why.PodNotReady,
		because: why.NoFreeMetaspace, names: []string{"2 of 3 Pods", "1024 Mi"}},
	{name: "a StatefulSet that waits for an outdated Pod", snapshot: statefulSet("old", nil),
		want: why.OutdatedPodNotReady, because: why.ImageNotAJar,
		names: []string{"Pod biz1-2", "StatefulSet biz1", "oss://"}},
	{name: "a StatefulSet that waits for a Pod of its template", snapshot: statefulSet("new", nil),
		want: why.RolloutStuck, because: why.ImageNotAJar},
	{name: "parallel StatefulSet",
		snapshot: statefulSet("old",
			func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }),
		want: why.RolloutStuck, because: why.ImageNotAJar},
	{name: "a Pod of a StatefulSet",
		snapshot: with(statefulSet("old", nil),
			func(s *why.Snapshot) { s.Target.Kind, s.Target.Name = why.KindPod, s.Pod.Name }),
		want: why.OutdatedPodNotReady, because: why.ImageNotAJar, names: []string{"Pod biz1-2"}},
	{name: "young Deployment", snapshot: deployment(func(d *appsv1.Deployment) {
		d.Status, d.CreationTimestamp = appsv1.DeploymentStatus{ObservedGeneration: 1}, past(time.Second)
	}), want: why.PodsNotMade, names: []string{"1s"}},
	{name: "missing Pods",
		snapshot: deployment(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1} }),
		want:     why.PodsNotMade, names: []string{"3 Pods"}},
	{name: "a DaemonSet without the environment", snapshot: daemonSet(func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Tolerations = d.Spec.Template.Spec.Tolerations[:1]
	}), want: why.DaemonSetNotTolerated, names: []string{"DESIRED", labels.TaintEnv + "=dev:NoExecute"}},
	{name: "a DaemonSet that no base fits",
		snapshot: daemonSet(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.NodeSelector[labels.BaseName] = "bsae" }),
		want:     why.DaemonSetWithoutBases, because: why.WrongBaseName, names: []string{"bsae"}},

	// Nodes.
	{name: "a base that is Ready", snapshot: ofNode(base(1, "base", "1.0.0")), want: why.NodeReady,
		names: []string{"base-1", "controller-1"}},
	{name: "an ordinary Node", snapshot: ofNode(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}),
		want: why.OrdinaryNode, names: []string{"worker"}},
	{name: "a base that is cordoned",
		snapshot: ofNode(base(1, "base", "1.0.0", func(n *corev1.Node) { n.Spec.Unschedulable = true })),
		want:     why.BaseCordoned, names: []string{"base-1"}},
	{name: "a base with little metaspace",
		snapshot: ofNode(base(1, "base", "1.0.0",
			nodeState(corev1.NodeMemoryPressure, corev1.ConditionTrue, "MetaspaceAboveThreshold",
				"more than 90% of the metaspace are committed"))), want: why.MetaspacePressure, names: []string{"90%"}},
	{name: "unreachable base as target", snapshot: ofNode(base(1, "base", "1.0.0", silent)), want: why.BaseSilent,
		names: []string{"no sign of life"}},
	{name: "base that the controller cannot observe, as target",
		snapshot: ofNode(base(1, "base", "1.0.0",
			nodeState("Observed", corev1.ConditionFalse, "ControllerSuspended", "it stood still"))),
		want: why.ControllerBlind, names: []string{"ControllerSuspended"}},
	{name: "a base without a controller", snapshot: ofNode(base(1, "base", "1.0.0"), controllers()),
		want: why.ControllerNotRunning, names: []string{"base-1"}},
}

func TestExplainRedactsCredentials(t *testing.T) {
	const url, redacted = "https://deploy:hunter2@host/biz1.jar?Signature=SECRET",
		"https://***@host/biz1.jar?Signature=***"
	s := refused(errcode.OtherUpstreamDecodeURLFailed, url, image("oss://deploy:hunter2@host/biz1.jar"))
	s.Events = []corev1.Event{event("uid-x", "Pod", "biz1-x", "SameVersionReplaced", "installed again from "+url)}
	s.Logs = map[string][]string{"biz1": {"2026-01-02 11:59:30.000 biz1:1.0.0 installBiz sent: " + url}}
	text := fmt.Sprint(why.Explain(s, now))
	if strings.Contains(text, "hunter2") || strings.Contains(text, "SECRET") || strings.Count(text, redacted) != 3 ||
		!strings.Contains(text, "oss://***@host/biz1.jar") {
		t.Errorf("the answer has credentials, or lacks a URL: %s", text)
	}
}

// TestRecreate checks that the advice for a Pod without an owner states that the Pod must be created again, if
// Kubernetes does not allow changes to the fields.
func TestRecreate(t *testing.T) {
	owned := func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "biz1"}} }
	wrong := selects(labels.BaseName, "bsae")
	for name, tt := range map[string]struct {
		snapshot *why.Snapshot
		want     bool
	}{
		"node selector":               {ofPod(pod(wrong)), true},
		"node selector with an owner": {ofPod(pod(wrong, owned)), false},
		"version":                     {checked(func(p *corev1.Pod) { p.Spec.Containers[0].Env = nil }), true},
		"tolerations":                 {ofPod(pod(func(p *corev1.Pod) { p.Spec.Tolerations = nil })), false},
	} {
		for l, end := range map[language.Language]string{
			language.English: "the Pod must be deleted and created again, because Kubernetes does not allow changes " +
				"to these fields",
			language.Chinese: "必须删除并重新创建该 Pod，因为 Kubernetes 不允许修改这些字段",
		} {
			if a := why.ExplainIn(l, tt.snapshot, now); strings.HasSuffix(a.Advice, end) != tt.want {
				t.Errorf("%s: the advice ends with %q: %t, want %t; advice: %s", name, end, !tt.want, tt.want, a.Advice)
			}
		}
	}
}

// TestYoung checks that a target is Young only if it is not Ready and was created less than ten seconds ago.
func TestYoung(t *testing.T) {
	of := func(age time.Duration, ready int32) bool {
		return why.Explain(deployment(
			func(d *appsv1.Deployment) { d.CreationTimestamp, d.Status.ReadyReplicas = past(age), ready }), now).Young
	}
	if got := []bool{of(time.Second, 0), of(11*time.Second, 0), of(time.Second, 3)}; !cmp.Equal(got,
		[]bool{true, false, false}) {
		t.Errorf("a second, eleven seconds, and Ready: %v", got)
	}
}

// TestExplainSituations checks, in every language, the answer to each of the situations.
func TestExplainSituations(t *testing.T) {
	shown := map[why.Reason]bool{}
	all := map[language.Language]*strings.Builder{language.English: {}, language.Chinese: {}}
	for _, tt := range situations {
		t.Run(tt.name, func(t *testing.T) {
			a := why.Explain(tt.snapshot, now)
			shown[a.Reason] = true
			if a.Reason != tt.want || a.Because != tt.because {
				t.Errorf("reason = %s, because = %q, want %s and %q; cause: %s", a.Reason, a.Because, tt.want,
					tt.because, a.Cause)
			}
			for _, name := range tt.names {
				if !strings.Contains(a.Cause, name) {
					t.Errorf("cause = %q, want it to contain %q", a.Cause, name)
				}
			}
			if !a.Ready && a.Advice == "" {
				t.Error("advice is empty")
			}
			if again := why.Explain(tt.snapshot, now); !cmp.Equal(a, again) {
				t.Errorf("second answer differs (-first +second):\n%s", cmp.Diff(a, again))
			}
			for l, b := range all {
				answer := why.ExplainIn(l, tt.snapshot, now)
				if text := fmt.Sprint(answer); argument.MatchString(text) {
					t.Errorf("answer in %s lacks an argument: %s", l, text)
				}
				if answer.Reason != a.Reason || answer.Because != a.Because || len(answer.Evidence) != len(a.Evidence) {
					t.Errorf("answer in %s = %+v, want the reasons and the facts of %+v", l, answer, a)
				}
				fmt.Fprintf(b, "%s: %s\n  %s\n  %s\n", tt.name, answer.Reason, answer.Cause, answer.Advice)
			}
		})
	}
	for _, r := range why.ReasonTexts() {
		if !shown[r.Reason] {
			t.Errorf("no situation has the reason %s", r.Reason)
		}
	}
	for l, b := range all {
		golden(t, fmt.Sprintf("testdata/answers.%s.txt", l), b.String())
	}
}

// argument matches a placeholder that was not replaced because the text got no value for it.
var argument = regexp.MustCompile(`\{[a-z][A-Za-z]*\}`)

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; rewrite it with -update (-want +got):\n%s", file, diff)
	}
}

func TestReasonTextsCoverAllReasons(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range regexp.MustCompile(`Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		want = append(want, m[1])
	}
	for _, r := range why.ReasonTexts() {
		got = append(got, string(r.Reason))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons with a text (-want +got):\n%s", diff)
	}
}

// TestReleasesLeft checks that the evidence contains the forecast for each base whose metaspace matters.
func TestReleasesLeft(t *testing.T) {
	pressure := nodeState(corev1.NodeMemoryPressure, corev1.ConditionTrue, "MetaspaceAboveThreshold", "")
	taint := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule})
	}
	left := func(n string) func(*corev1.Node) {
		return func(node *corev1.Node) { node.Annotations[labels.ReleasesLeft] = n }
	}
	for name, tc := range map[string]struct {
		snapshot *why.Snapshot
		want     string
	}{
		"base":            {ofNode(base(1, "base", "1.0.0", left("7"))), "releases left: 7"},
		"no history":      {ofNode(base(1, "base", "1.0.0")), ""},
		"memory pressure": {ofNode(base(1, "base", "1.0.0", pressure)), "releases left: unknown"},
		"nothing is left": {ofNode(base(1, "base", "1.0.0", left(labels.Unlimited))), "releases left: unlimited"},
		"Pod without space": {ofPod(pod(requests("160Mi")), bases(base(1, "base", "1.0.0", left("7")))),
			"releases left: 7"},
		"Pod and pressure": {ofPod(pod(), bases(base(1, "base", "1.0.0", pressure, taint, left("0")))),
			"releases left: 0"},
	} {
		var text strings.Builder
		for _, e := range why.Explain(tc.snapshot, now).Evidence {
			text.WriteString(e.Text + "\n")
		}
		if got := text.String(); !strings.Contains(got, tc.want) || tc.want == "" && strings.Contains(got, "releases") {
			t.Errorf("%s: the evidence lacks %q:\n%s", name, tc.want, got)
		}
	}
}
