package why

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/revision"
)

// workloadStatus explains a workload from the status of the workload itself, without its Pods.
func workloadStatus(v *explainer) *Answer {
	w := v.workload()
	switch {
	case w.meta.DeletionTimestamp != nil:
		return v.answer(msgWorkloadLeaving, args{"workload": v.name(), "age": v.ago(w.meta.DeletionTimestamp.Time),
			"finalizers": cmp.Or(strings.Join(w.meta.Finalizers, ", "), v.in(partNothing, nil))})
	case w.observed < w.meta.Generation:
		return v.answer(msgWorkloadNotSeen,
			args{"workload": v.name(), "observed": w.observed, "generation": w.meta.Generation})
	case w.desired != 0 && w.ready == w.desired && w.updated == w.desired && w.total == w.desired:
		a := v.answer(msgWorkloadReady, args{"workload": v.name(), "pods": v.count(int(w.ready), nounPod),
			"modules": modules(v.templatePod())})
		a.Ready = true
		return a
	case v.Deployment != nil && v.Deployment.Spec.Paused && w.updated != w.desired:
		return v.answer(msgDeploymentPaused,
			args{"workload": v.name(), "updated": w.updated, "desired": w.desired, "name": w.meta.Name})
	}
	return nil
}

// withoutReplicas explains a workload that requests no Pods. The tolerations that the controller adds to Pods do not
// help a DaemonSet, because the DaemonSet controller uses only the template to determine where to create Pods.
func withoutReplicas(v *explainer) *Answer {
	if v.workload().desired != 0 {
		return nil
	}
	if v.DaemonSet != nil {
		if p := v.place(v.templatePod(), nil); len(p.findings) > 0 && p.furthest == checkTaints {
			t, _ := p.taint("")
			return v.answer(msgDaemonSetNotTolerated, args{"workload": v.name(), "taint": t.ToString(),
				"bases": v.join(p.names()), "toleration": toleration(t)})
		}
		return v.because(msgDaemonSetWithoutBases, v.asPod(v.templatePod()).first(schedule), args{})
	}
	if !v.peer() {
		return v.answer(msgNoReplicas, args{"workload": v.name(), "kind": v.Target.Kind, "name": v.Target.Name})
	}
	placement := v.peerPlacement()
	if placement.placementOfPod().furthest > checkState {
		return v.answer(msgPeerNotFollowed,
			args{"workload": v.name(), "bases": v.join(placement.placementOfPod().names())})
	}
	return v.because(msgPeerWithoutBases, placement.first(schedule), args{})
}

// because returns the answer for a workload that is not Ready because of a Pod. It inserts the cause and the advice
// of the answer for this Pod.
func (v *explainer) because(m message, pod Answer, a args) *Answer {
	a["workload"], a["cause"], a["advice"] = v.name(), pod.Cause, pod.Advice
	answer := v.answer(m, a)
	answer.Because = pod.Reason
	return answer
}

// podSet contains the fields that Deployments, DaemonSets and StatefulSets have in common.
type podSet struct {
	meta     *metav1.ObjectMeta
	template *corev1.PodTemplateSpec
	observed int64
	// desired, updated, ready and total are numbers of Pods, from the spec and the status of the workload.
	desired, updated, ready, total int32
}

// workload returns the common fields of the workload in the Snapshot.
func (s *Snapshot) workload() podSet {
	switch {
	case s.Deployment != nil:
		d := s.Deployment
		return podSet{&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, ptr.Deref(d.Spec.Replicas, 1),
			d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.Replicas}
	case s.DaemonSet != nil:
		d := s.DaemonSet
		return podSet{&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, d.Status.DesiredNumberScheduled,
			d.Status.UpdatedNumberScheduled, d.Status.NumberReady, d.Status.CurrentNumberScheduled}
	case s.StatefulSet != nil:
		d := s.StatefulSet
		return podSet{&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, ptr.Deref(d.Spec.Replicas, 1),
			d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.Replicas}
	}
	return podSet{meta: &metav1.ObjectMeta{}, template: &corev1.PodTemplateSpec{}}
}

// blockingPod returns the Pod that a workload waits for. This is the oldest Pod of the current template that is not
// Ready. If there is no such Pod, it is the Pod that has been terminating for the longest time. blockingPod returns
// nil if the workload waits for no Pod.
func blockingPod(s *Snapshot) *corev1.Pod {
	newest := ""
	for _, rs := range s.ReplicaSets {
		if s.Deployment != nil && rs.Annotations[revision.Annotation] == s.Deployment.Annotations[revision.Annotation] {
			newest = rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	pods := slices.Clone(s.Pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		if s.StatefulSet != nil { // Kubernetes waits for them in the order of their ordinals
			return cmp.Or(cmp.Compare(ordinal(&a), ordinal(&b)), cmp.Compare(a.Name, b.Name))
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil && !podReady(p) && p.Status.Phase != corev1.PodFailed &&
			(newest == "" || p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == newest) {
			return p
		}
	}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			return &pods[i]
		}
	}
	return nil
}

// ordinal returns the ordinal at the end of the name of a StatefulSet Pod, or -1 if the name has no ordinal.
func ordinal(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// templatePod returns a Pod with the metadata and spec of the workload's template.
func (v *explainer) templatePod() *corev1.Pod {
	t := v.workload().template
	return &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
}

// asPod returns an explainer with a copy of this Snapshot whose target is the given Pod.
func (v *explainer) asPod(pod *corev1.Pod) *explainer {
	s := *v.Snapshot
	s.Pod, s.Target = pod, Target{Kind: KindPod, Namespace: pod.Namespace, Name: pod.Name}
	pods := newExplainer(&s, v.now)
	pods.language = v.language
	return pods
}

// peer reports whether the target is a peer Deployment, whose replicas the controller sets to the number of matching
// bases.
func (v *explainer) peer() bool {
	if v.Deployment == nil {
		return false
	}
	l := v.Deployment.Labels
	return labels.Value(l, labels.Component) == labels.ModuleDeployment &&
		labels.Value(l, labels.Strategy) == labels.Peer &&
		labels.Value(l, labels.ReplicasControl) != "true"
}

// peerPlacement returns an explainer whose target is a Pod of the peer Deployment. If the tolerations of the Pod name
// no environment, the Pod tolerates all environments, because the controller adds this toleration.
func (v *explainer) peerPlacement() *explainer {
	pod := v.templatePod()
	if len(environments(pod)) == 0 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: labels.TaintEnv, Operator: corev1.TolerationOpExists})
	}
	return v.asPod(pod)
}

// failedCreate is the reason of Events and conditions that report Pods that the API server rejects
// (k8s.io/kubernetes/pkg/controller, FailedCreatePodReason).
const failedCreate = "FailedCreate"

// podsNotCreated explains why the Pods of a workload do not exist: the API server rejects them.
func podsNotCreated(v *explainer) *Answer {
	w := v.workload()
	text := ""
	if v.Deployment != nil {
		for _, c := range v.Deployment.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				text = c.Message
			}
		}
	} else if e, found := v.event(string(w.meta.UID), failedCreate); found && w.total < w.desired {
		text = e.Message
	}
	if text == "" {
		return nil
	}
	m := msgPodsRefused
	if strings.Contains(text, "exceeded quota") {
		m = msgQuotaExceeded
	}
	return v.answer(m, args{"workload": v.name(), "message": sentence(text), "namespace": w.meta.Namespace})
}

// outdatedPodNotReady explains a StatefulSet with ordered Pods, one of which is from an earlier template and not
// Ready. Kubernetes does not replace such a Pod before it becomes Ready (kubernetes/kubernetes#67250).
func outdatedPodNotReady(v *explainer) *Answer {
	s, p := v.StatefulSet, v.Pod
	if s == nil || p == nil || podReady(p) || p.DeletionTimestamp != nil ||
		s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement ||
		s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && ordinal(p) < int(ptr.Deref(r.Partition, 0)) {
		return nil // it keeps the earlier template
	}
	revision := p.Labels[appsv1.ControllerRevisionHashLabelKey]
	if revision == "" || s.Status.UpdateRevision == "" || revision == s.Status.UpdateRevision {
		return nil
	}
	return v.because(msgOutdatedPodNotReady, *pod(v.asPod(p)),
		args{"pod": p.Name, "name": s.Name, "namespace": p.Namespace})
}

// waitsForPod explains a workload by the Pod that it waits for, or by its missing Pods.
func waitsForPod(v *explainer) *Answer {
	w := v.workload()
	a := args{"workload": v.name(), "ready": w.ready, "updated": w.updated, "desired": w.desired}
	if v.Pod != nil {
		m := msgPodNotReady
		if w.total > w.updated {
			m, a["ready"] = msgRolloutStuck, v.in(partPodsReady, args{"n": w.ready})
			if w.ready == 1 {
				a["ready"] = partPodReady
			}
		}
		a["pod"] = v.Pod.Name
		return v.because(m, *pod(v.asPod(v.Pod)), a)
	}
	if len(v.Pods) >= int(w.desired) {
		return nil
	}
	a["pods"], a["n"] = v.count(int(w.desired), nounPod), len(v.Pods)
	if v.now.Sub(w.meta.CreationTimestamp.Time) < young {
		a["age"] = v.ago(w.meta.CreationTimestamp.Time)
		return v.answer(msgPodsNotCreatedYet, a)
	}
	return v.answer(msgPodsNotCreated, a)
}
