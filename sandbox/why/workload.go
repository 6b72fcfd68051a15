package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/revision"
)

// workloadStatus explains a workload by its own status.
func workloadStatus(v *view) *Answer {
	w := v.workload()
	switch {
	case w.meta.DeletionTimestamp != nil:
		return &Answer{Reason: WorkloadLeaving,
			Cause: fmt.Sprintf("%s is being deleted for %s, held by %s", v.name(),
				v.ago(w.meta.DeletionTimestamp.Time), cmp.Or(strings.Join(w.meta.Finalizers, ", "), "nothing")),
			Advice: "wait until its Pods are deleted; koupsandbox why pod/NAME explains a Pod"}
	case w.observed < w.meta.Generation:
		return &Answer{Reason: WorkloadNotSeen,
			Cause: fmt.Sprintf(
				"kube-controller-manager has not processed %s since its last change: generation %d of %d", v.name(),
				w.observed, w.meta.Generation),
			Advice: "check that kube-controller-manager is running; in a sandbox: koupsandbox status"}
	case w.desired != 0 && w.ready == w.desired && w.updated == w.desired && w.total == w.desired:
		return &Answer{Reason: WorkloadReady, Ready: true,
			Cause: fmt.Sprintf("%s is Ready: %s of %s", v.name(), plain.Count(int(w.ready), "Pod"),
				modules(v.templatePod()))}
	case v.Deployment != nil && v.Deployment.Spec.Paused && w.updated != w.desired:
		return &Answer{Reason: DeploymentPaused,
			Cause: fmt.Sprintf("%s is paused: %d of %d Pods have its current template", v.name(), w.updated,
				w.desired),
			Advice: "kubectl rollout resume deployment " + w.meta.Name}
	}
	return nil
}

// withoutReplicas explains a workload that wants no Pods. A DaemonSet creates Pods by its template alone; tolerations
// that the controller adds to Pods have no effect.
func withoutReplicas(v *view) *Answer {
	if v.workload().desired != 0 {
		return nil
	}
	if v.DaemonSet != nil {
		if p := place(v.templatePod(), v.Bases, nil); len(p.verdicts) > 0 && p.furthest == linkTaints {
			t, _ := p.taint("")
			return &Answer{Reason: DaemonSetNotTolerated,
				Cause: fmt.Sprintf(
					"%s creates no Pods (DESIRED is 0): its template does not tolerate the taint %s of %s", v.name(),
					t.ToString(), p.names()),
				Advice: "add " + toleration(t) +
					" to spec.template.spec.tolerations; tolerations that the controller adds to Pods have no effect " +
					"on a DaemonSet"}
		}
		a := v.asPod(v.templatePod()).first(schedule)
		return &Answer{Reason: DaemonSetWithoutBases, Because: a.Reason,
			Cause:  fmt.Sprintf("%s creates no Pods (DESIRED is 0), since no base fits: %s", v.name(), a.Cause),
			Advice: a.Advice}
	}
	if !v.peer() {
		return &Answer{Reason: NoReplicas, Cause: v.name() + " wants no Pods: its replicas are 0",
			Advice: fmt.Sprintf("kubectl scale %s %s --replicas 1", v.Target.Kind, v.Target.Name)}
	}
	placement := v.peerPlacement()
	if placement.placed().furthest > linkState {
		return &Answer{Reason: PeerNotFollowed,
			Cause: fmt.Sprintf("the replicas of %s should follow the bases, and are 0 although %s fits", v.name(),
				placement.placed().names()),
			Advice: "check that a module controller of its environment is running with " +
				"ENABLE_MODULE_DEPLOYMENT_CONTROLLER"}
	}
	a := placement.first(schedule)
	return &Answer{Reason: PeerWithoutBases, Because: a.Reason,
		Cause:  fmt.Sprintf("the replicas of %s follow the bases that fit, and there is none: %s", v.name(), a.Cause),
		Advice: a.Advice}
}

// podSet is the common part of the three kinds of workloads.
type podSet struct {
	meta     *metav1.ObjectMeta
	template *corev1.PodTemplateSpec
	observed int64
	// desired, updated, ready and total count Pods.
	desired, updated, ready, total int32
}

// workload returns the workload of the Snapshot.
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

// decides is the Pod that a workload waits for: of those that it wants now, the oldest that is not
// Ready; else the one that has been leaving for the longest. nil if there is none.
func decides(s *Snapshot) *corev1.Pod {
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

// ordinal returns the number at the end of the name of a StatefulSet's Pod; -1 if there is none.
func ordinal(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// templatePod is a Pod of the template, to be compared with bases.
func (v *view) templatePod() *corev1.Pod {
	t := v.workload().template
	return &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
}

// asPod concludes about a Pod of this Snapshot as if it had been asked about.
func (v *view) asPod(pod *corev1.Pod) *view {
	s := *v.Snapshot
	s.Pod, s.Target = pod, Target{Kind: KindPod, Namespace: pod.Namespace, Name: pod.Name}
	return newView(&s, v.now)
}

// peer reports whether the controller sets the replicas of the Deployment to the number of bases.
func (v *view) peer() bool {
	if v.Deployment == nil {
		return false
	}
	l := v.Deployment.Labels
	return labels.Value(l, labels.Component) == labels.ModuleDeployment &&
		labels.Value(l, labels.Strategy) == labels.Peer &&
		labels.Value(l, labels.ReplicasControl) != "true"
}

// peerPlacement compares a Pod of a peer Deployment with the bases. The environment does not count if
// it names none: the controller adds that toleration.
func (v *view) peerPlacement() *view {
	pod := v.templatePod()
	if len(environments(pod)) == 0 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: labels.TaintEnv, Operator: corev1.TolerationOpExists})
	}
	return v.asPod(pod)
}

// failedCreate is the reason of Events and conditions about Pods that the API server refuses
// (k8s.io/kubernetes/pkg/controller, FailedCreatePodReason).
const failedCreate = "FailedCreate"

// podsNotCreated explains Pods that the API server refuses.
func podsNotCreated(v *view) *Answer {
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
	a := &Answer{Reason: PodsRefused, Cause: fmt.Sprintf("Pods of %s are refused: %s", v.name(), sentence(text)),
		Advice: "correct the template, or ask the owner of the policy"}
	if strings.Contains(text, "exceeded quota") {
		a.Reason, a.Advice = QuotaExceeded, "free resources of the quota, or raise it: kubectl get resourcequota -n "+
			w.meta.Namespace
	}
	return a
}

// outdatedPodNotReady explains an ordered StatefulSet whose Pod of an earlier template is not Ready. Kubernetes does not
// replace it before it is (kubernetes/kubernetes#67250).
func outdatedPodNotReady(v *view) *Answer {
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
	a := pod(v.asPod(p))
	return &Answer{Reason: OutdatedPodNotReady, Because: a.Reason,
		Cause: fmt.Sprintf("Pod %s was created from an earlier template of StatefulSet %s, and Kubernetes does not "+
			"replace it before it is Ready: %s", p.Name, s.Name, a.Cause),
		Advice: fmt.Sprintf("kubectl delete pod %s -n %s; Kubernetes creates it again from the current template",
			p.Name, p.Namespace)}
}

// waitsForPod explains a workload by the Pod that it waits for, or by missing Pods.
func waitsForPod(v *view) *Answer {
	w := v.workload()
	if v.Pod != nil {
		reason, state := PodNotReady, fmt.Sprintf("%s has %d of %d Pods Ready", v.name(), w.ready, w.desired)
		if w.total > w.updated {
			reason, state = RolloutStuck, fmt.Sprintf("the update of %s has %d of %d Pods, and %d are Ready", v.name(),
				w.updated, w.desired, w.ready)
		}
		a := pod(v.asPod(v.Pod))
		return &Answer{Reason: reason, Because: a.Reason,
			Cause: fmt.Sprintf("%s; it waits for Pod %s: %s", state, v.Pod.Name, a.Cause), Advice: a.Advice}
	}
	if len(v.Pods) >= int(w.desired) {
		return nil
	}
	a := &Answer{Reason: PodsNotMade,
		Cause: fmt.Sprintf("%s wants %s, and %d exist", v.name(), plain.Count(int(w.desired), "Pod"), len(v.Pods))}
	if v.now.Sub(w.meta.CreationTimestamp.Time) < young {
		a.Cause += "; it was created " + v.ago(w.meta.CreationTimestamp.Time) + " ago"
		a.Advice = "run the command again in a few seconds"
		return a
	}
	a.Cause += "; neither its conditions nor its Events give a reason"
	a.Advice = "check the log of kube-controller-manager; in a sandbox: koupsandbox logs kube-controller-manager"
	return a
}
