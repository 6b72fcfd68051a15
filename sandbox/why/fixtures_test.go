package why_test

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// now is the current time in all tests.
var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func past(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// base returns the Node of a Ready base. Its host name is base-NUMBER, and it reports the given base name and
// version.
func base(number int, name, version string, change ...func(*corev1.Node)) corev1.Node {
	host := fmt.Sprintf("base-%d", number)
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "vnode." + host + "-id",
			Labels: map[string]string{labels.Component: labels.Vnode, labels.Env: "dev", labels.BaseName: name,
				labels.OlderBaseName: name,
				labels.BaseVersion:   version, labels.OlderBaseVersion: version, corev1.LabelHostname: host},
			Annotations: map[string]string{labels.Identity: host + "-id", labels.Holder: "controller-1",
				labels.Fence: "1"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: labels.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
			{Key: labels.TaintEnv, Value: "dev", Effect: corev1.TaintEffectNoExecute},
		}},
	}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi"),
		corev1.ResourceCPU: resource.MustParse("4")}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "BaseActivated",
			LastTransitionTime: past(time.Hour)},
		{Type: "Observed", Status: corev1.ConditionTrue, Reason: "TunnelUp", LastTransitionTime: past(time.Hour)},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, LastTransitionTime: past(time.Hour)},
	}
	for _, f := range change {
		f(&n)
	}
	return n
}

// nodeState sets a condition of a Node that changed two minutes ago.
func nodeState(kind corev1.NodeConditionType, status corev1.ConditionStatus,
	reason, message string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			if c := &n.Status.Conditions[i]; c.Type == kind {
				c.Status, c.Reason, c.Message, c.LastTransitionTime = status, reason, message, past(2*time.Minute)
			}
		}
	}
}

var silent = nodeState(corev1.NodeReady, corev1.ConditionUnknown, "BaseInstanceNotReady",
	"no sign of life of the base since 2026-01-02T11:58:00Z")

// template returns a Pod template with a module. Its Pods must run on bases with the name base.
func template(change ...func(*corev1.Pod)) corev1.PodTemplateSpec {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"app": "biz1", labels.Component: labels.Module}}}
	p.Spec = corev1.PodSpec{
		NodeSelector: map[string]string{labels.BaseName: "base"},
		Tolerations: []corev1.Toleration{
			{Key: labels.TaintVirtualNode, Operator: corev1.TolerationOpExists},
			{Key: labels.TaintEnv, Operator: corev1.TolerationOpEqual, Value: "dev",
				Effect: corev1.TaintEffectNoExecute},
		},
		Containers: []corev1.Container{
			{Name: "biz1", Image: "https://host/biz1-1.0.0-ark-biz.jar",
				Env: []corev1.EnvVar{{Name: labels.VersionEnv, Value: "1.0.0"}}}},
	}
	for _, f := range change {
		f(&p)
	}
	return corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

// pod returns a module Pod that the scheduler has rejected.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	t := template()
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.Name, p.UID, p.CreationTimestamp = "default", "biz1-x", "uid-x", past(time.Minute)
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			LastTransitionTime: past(time.Minute)}}
	for _, f := range change {
		f(p)
	}
	return p
}

// on binds a Pod to a base.
func on(number int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = fmt.Sprintf("vnode.base-%d-id", number)
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: past(time.Minute)}}
		p.Status.StartTime = ptr.To(past(time.Minute))
	}
}

// waits sets the state of the first container to waiting.
func waits(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: p.Spec.Containers[0].Name,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		condition(corev1.PodReady, corev1.ConditionFalse, reason, message)(p)
	}
}

// runs sets the state of the first container to running. ready determines whether the container and the Pod are
// Ready.
func runs(ready bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "biz1", Ready: ready,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: past(time.Minute)}}}}
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		condition(corev1.ContainersReady, status, "", "")(p)
		condition(corev1.PodReady, status, "", "")(p)
	}
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message,
			LastTransitionTime: past(time.Minute)}
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == kind {
				p.Status.Conditions[i] = c
				return
			}
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
}

// deleted marks a Pod as deleted ten seconds before now, with a grace period of 30 s.
func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(20*time.Second))), ptr.To[int64](
		30)
}

func requests(memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
}

// asks sets a resource request of the first container.
func asks(name corev1.ResourceName, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(amount)}
	}
}

// refusedBy sets the message with which the scheduler rejects the Pod. reason is the scheduler's reason in this
// message.
func refusedBy(reason string) func(*corev1.Pod) {
	return condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available: "+reason+
		". no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for "+
		"scheduling, 2 No preemption victims found for incoming pod.")
}

func spread(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule}}
	}
}

func claim(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	}
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
}

// statefulSet returns a StatefulSet with three Pods. The third Pod has the given revision and an invalid image.
func statefulSet(revision string, change func(*appsv1.StatefulSet)) *why.Snapshot {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "biz1", UID: "uid-s",
		Generation: 1}}
	s.Spec.Replicas, s.Spec.Template = ptr.To[int32](3), template()
	s.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 2,
		UpdateRevision: "new"}
	if change != nil {
		change(s)
	}
	p := pod(on(1), image("oss://host/biz1.jar"), waits(failure("no URL", errcode.OtherUpstreamDecodeURLFailed)))
	p.Name, p.Labels[appsv1.ControllerRevisionHashLabelKey] = "biz1-2", revision
	return ofPod(p, func(snapshot *why.Snapshot) {
		snapshot.Target, snapshot.StatefulSet = why.Target{Kind: why.KindStatefulSet, Namespace: "default",
			Name: "biz1"}, s
	})
}

func image(url string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = url }
}

func version(from *corev1.EnvVarSource, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: labels.VersionEnv, Value: value, ValueFrom: from}}
	}
}

// referring makes the version of the module refer to an environment variable whose value is from a ConfigMap.
func referring(p *corev1.Pod) {
	p.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "R", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "v"},
				Key: "k"}}},
		{Name: labels.VersionEnv, Value: "$(R)"},
	}
}

// affinity adds a required node affinity with the given terms to a Pod.
func affinity(terms ...[]corev1.NodeSelectorRequirement) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		s := &corev1.NodeSelector{}
		for _, t := range terms {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: t})
		}
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
	}
}

func in(key string, values ...string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}
}

func selects(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// controller returns the Lease of a module controller.
func controller(holder, env string, renewed time.Duration) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{labels.Component: labels.ControllerLease, labels.Env: env}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-renewed)))},
	}
}

// event returns an Event about an object that occurred five seconds ago.
func event(uid types.UID, kind, name, reason, message string) corev1.Event {
	return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: uid},
		Type:   corev1.EventTypeWarning,
		Reason: reason, Message: message, LastTimestamp: past(5 * time.Second)}
}

// ofPod returns a Snapshot whose target is a Pod, with two bases and a controller.
func ofPod(p *corev1.Pod, change ...func(*why.Snapshot)) *why.Snapshot {
	s := &why.Snapshot{
		Target: why.Target{Kind: why.KindPod, Namespace: p.Namespace, Name: p.Name}, Pod: p,
		Bases:       []corev1.Node{base(1, "base", "1.0.0"), base(2, "order", "1.0.0")},
		Controllers: []coordinationv1.Lease{controller("controller-1", "dev", time.Second)},
	}
	for _, f := range change {
		f(s)
	}
	for i := range s.Bases {
		if s.Bases[i].Name == p.Spec.NodeName && s.Node == nil {
			s.Node = &s.Bases[i]
		}
	}
	return s
}

func bases(all ...corev1.Node) func(*why.Snapshot) {
	return func(s *why.Snapshot) { s.Bases = all }
}

func controllers(all ...coordinationv1.Lease) func(*why.Snapshot) {
	return func(s *why.Snapshot) { s.Controllers = all }
}

func events(all ...corev1.Event) func(*why.Snapshot) {
	return func(s *why.Snapshot) { s.Events = all }
}

func log(lines ...string) func(*why.Snapshot) {
	return func(s *why.Snapshot) { s.Logs = map[string][]string{"biz1": lines} }
}

// ofNode returns a Snapshot whose target is a Node.
func ofNode(n corev1.Node, change ...func(*why.Snapshot)) *why.Snapshot {
	s := &why.Snapshot{Target: why.Target{Kind: why.KindNode, Name: n.Name}, Node: &n, Bases: []corev1.Node{n},
		Controllers: []coordinationv1.Lease{controller("controller-1", "dev", time.Second)}}
	for _, f := range change {
		f(s)
	}
	return s
}

// deployment returns a Snapshot whose target is a Deployment with three Ready replicas.
func deployment(change ...func(*appsv1.Deployment)) *why.Snapshot {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "biz1", UID: "uid-d",
		Generation: 1}}
	d.Spec.Replicas, d.Spec.Template = ptr.To[int32](3), template()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3}
	for _, f := range change {
		f(d)
	}
	return &why.Snapshot{Target: why.Target{Kind: why.KindDeployment, Namespace: "default", Name: "biz1"},
		Deployment:  d,
		Bases:       []corev1.Node{base(1, "base", "1.0.0")},
		Controllers: []coordinationv1.Lease{controller("controller-1", "dev", time.Second)}}
}

func peer(d *appsv1.Deployment) {
	d.Labels = map[string]string{labels.Component: labels.ModuleDeployment, labels.Strategy: labels.Peer}
	d.Spec.Replicas = ptr.To[int32](0)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1}
}

// daemonSet returns a Snapshot whose target is a DaemonSet that requests no Pods.
func daemonSet(change ...func(*appsv1.DaemonSet)) *why.Snapshot {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "biz1", UID: "uid-ds",
		Generation: 1}}
	d.Spec.Template, d.Status.ObservedGeneration = template(), 1
	for _, f := range change {
		f(d)
	}
	return &why.Snapshot{Target: why.Target{Kind: why.KindDaemonSet, Namespace: "default", Name: "biz1"}, DaemonSet: d,
		Bases:       []corev1.Node{base(1, "base", "1.0.0")},
		Controllers: []coordinationv1.Lease{controller("controller-1", "dev", time.Second)}}
}

// with applies a change to a Snapshot and returns it.
func with(s *why.Snapshot, change func(*why.Snapshot)) *why.Snapshot {
	change(s)
	return s
}
