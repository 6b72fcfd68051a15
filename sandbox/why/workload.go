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
)

// workloadRules are for what makes Pods.
var workloadRules = []rule{
	{WorkloadLeaving, workloadLeaving},
	{WorkloadNotSeen, workloadNotSeen},
	{WorkloadReady, workloadReady},
	{DeploymentPaused, paused},
	{PeerWithoutBases, peerWithoutBases},
	{PeerNotFollowed, peerNotFollowed},
	{NoReplicas, noReplicas},
	{DaemonSetNotTolerated, daemonSetNotTolerated},
	{DaemonSetWithoutBases, daemonSetWithoutBases},
	{QuotaExceeded, notCreated(true)},
	{PodsRefused, notCreated(false)},
	{OutdatedPodNotReady, outdatedPodNotReady},
	{RolloutStuck, waitsForPod(true)},
	{PodNotReady, waitsForPod(false)},
	{PodsNotMade, podsNotMade},
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
		return podSet{&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, ptr.Deref(d.Spec.Replicas, 1), d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.Replicas}
	case s.DaemonSet != nil:
		d := s.DaemonSet
		return podSet{&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, d.Status.DesiredNumberScheduled, d.Status.UpdatedNumberScheduled, d.Status.NumberReady, d.Status.CurrentNumberScheduled}
	case s.StatefulSet != nil:
		d := s.StatefulSet
		return podSet{&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, ptr.Deref(d.Spec.Replicas, 1), d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.Replicas}
	}
	return podSet{meta: &metav1.ObjectMeta{}, template: &corev1.PodTemplateSpec{}}
}

// decides is the Pod that a workload waits for: of those that it wants now, the oldest that is not
// Ready; else the one that has been leaving for the longest. nil if there is none.
func decides(s *Snapshot) *corev1.Pod {
	newest := ""
	for _, rs := range s.ReplicaSets {
		const revision = "deployment.kubernetes.io/revision" // k8s.io/kubectl/pkg/util/deployment
		if s.Deployment != nil && rs.Annotations[revision] == s.Deployment.Annotations[revision] {
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
		if p.DeletionTimestamp == nil && !podReady(p) && p.Status.Phase != corev1.PodFailed && (newest == "" || p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == newest) {
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

func workloadLeaving(v *view) *finding {
	m := v.workload().meta
	if m.DeletionTimestamp == nil {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s is being deleted for %s, held by %s", v.name(), v.ago(m.DeletionTimestamp.Time), cmp.Or(strings.Join(m.Finalizers, ", "), "nothing")),
		advice: "wait until its Pods are gone; ask why for one of them"}
}

func workloadNotSeen(v *view) *finding {
	w := v.workload()
	if w.observed >= w.meta.Generation {
		return nil
	}
	return &finding{cause: fmt.Sprintf("kube-controller-manager has not looked at %s since its last change: generation %d of %d", v.name(), w.observed, w.meta.Generation),
		advice: "look whether kube-controller-manager runs; in a sandbox: koupsandbox status"}
}

func workloadReady(v *view) *finding {
	w := v.workload()
	if w.desired == 0 || w.ready != w.desired || w.updated != w.desired || w.total != w.desired {
		return nil
	}
	return &finding{ready: true, cause: fmt.Sprintf("%s is Ready: %s of %s", v.name(), count(int(w.ready), "Pod"), modulesOf(w.template))}
}

func modulesOf(t *corev1.PodTemplateSpec) string { return modules(&corev1.Pod{Spec: t.Spec}) }

func paused(v *view) *finding {
	if v.Deployment == nil || !v.Deployment.Spec.Paused {
		return nil
	}
	w := v.workload()
	if w.updated == w.desired {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s is paused: %d of %d Pods are of its template as it is now", v.name(), w.updated, w.desired),
		advice: "kubectl rollout resume deployment " + w.meta.Name}
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

// peer tells whether the replicas of the Deployment follow the bases (controller/internal/peer).
func (v *view) peer() bool {
	if v.Deployment == nil {
		return false
	}
	l := v.Deployment.Labels
	return labels.Value(l, labels.Component) == labels.ModuleDeployment && labels.Value(l, labels.Strategy) == labels.Peer &&
		labels.Value(l, labels.ReplicasControl) != "true"
}

// peerPlacement compares a Pod of a peer Deployment with the bases. The environment does not count if
// it names none: the controller adds that toleration.
func (v *view) peerPlacement() *view {
	pod := v.templatePod()
	if _, named := namesEnvironment(pod); !named {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: labels.TaintEnv, Operator: corev1.TolerationOpExists})
	}
	return v.asPod(pod)
}

func peerWithoutBases(v *view) *finding {
	if !v.peer() || v.workload().desired > 0 {
		return nil
	}
	sub := v.peerPlacement()
	if sub.placed().furthest > linkState {
		return nil
	}
	a := sub.first(scheduleRules)
	return &finding{because: a.Reason, cause: fmt.Sprintf("the replicas of %s follow the bases that its Pods may run on, and there is none: %s", v.name(), a.Cause), advice: a.Advice}
}

func peerNotFollowed(v *view) *finding {
	if !v.peer() || v.workload().desired > 0 {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the replicas of %s are to follow the bases, and are 0 although %s would do", v.name(), v.peerPlacement().placed().names()),
		advice: "look whether a module controller of its environment runs with ENABLE_MODULE_DEPLOYMENT_CONTROLLER"}
}

func noReplicas(v *view) *finding {
	w := v.workload()
	if v.DaemonSet != nil || w.desired > 0 {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s asks for no Pods: its replicas are 0", v.name()),
		advice: fmt.Sprintf("kubectl scale %s %s --replicas 1", v.Target.Kind, w.meta.Name)}
}

// daemonSetNotTolerated: a DaemonSet makes Pods by its template alone; what the controller adds to
// Pods is no help (controller/internal/notice/daemonsets.go).
func daemonSetNotTolerated(v *view) *finding {
	if v.DaemonSet == nil || v.workload().desired > 0 {
		return nil
	}
	p := place(v.templatePod(), v.Bases, nil)
	if len(p.verdicts) == 0 || p.furthest != linkTaints {
		return nil
	}
	t, _ := p.taint("")
	return &finding{cause: fmt.Sprintf("%s makes no Pod (DESIRED is 0): its template does not tolerate the taint %s of %s", v.name(), t.ToString(), p.names()),
		advice: "add " + toleration(t) + " to spec.template.spec.tolerations; what the controller adds to Pods comes too late for a DaemonSet"}
}

func daemonSetWithoutBases(v *view) *finding {
	if v.DaemonSet == nil || v.workload().desired > 0 {
		return nil
	}
	a := v.asPod(v.templatePod()).first(scheduleRules)
	return &finding{because: a.Reason, cause: fmt.Sprintf("%s makes no Pod (DESIRED is 0), since no base fits: %s", v.name(), a.Cause), advice: a.Advice}
}

// failedCreate is the reason of Events and conditions about Pods that the API server refuses
// (k8s.io/kubernetes/pkg/controller, FailedCreatePodReason).
const failedCreate = "FailedCreate"

// notCreated is for Pods that the API server refuses: by a quota, or for another reason.
func notCreated(quota bool) func(*view) *finding {
	return func(v *view) *finding {
		w := v.workload()
		text := ""
		if v.Deployment != nil {
			for _, c := range v.Deployment.Status.Conditions {
				if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
					text = c.Message
				}
			}
		} else if e, there := v.event(string(w.meta.UID), failedCreate); there && w.total < w.desired {
			text = e.Message
		}
		if text == "" || strings.Contains(text, "exceeded quota") != quota {
			return nil
		}
		advice := "correct what the API server refuses in the template, or ask whoever has set the rule"
		if quota {
			advice = "free something of the quota, or raise it: kubectl get resourcequota -n " + w.meta.Namespace
		}
		return &finding{cause: fmt.Sprintf("Pods of %s are refused: %s", v.name(), sentence(text)), advice: advice}
	}
}

// outdatedPodNotReady is for an ordered StatefulSet whose Pod of an earlier template is not Ready:
// Kubernetes waits until it is, and does not replace it (kubernetes/kubernetes#67250).
func outdatedPodNotReady(v *view) *finding {
	s, p := v.StatefulSet, v.Pod
	if s == nil || p == nil || podReady(p) || p.DeletionTimestamp != nil || s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement ||
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
	a := v.asPod(p).first(podRules)
	return &finding{because: a.Reason, cause: fmt.Sprintf("Pod %s was created from an earlier template of StatefulSet %s, and Kubernetes does not replace it before it is Ready: %s", p.Name, s.Name, a.Cause),
		advice: fmt.Sprintf("kubectl delete pod %s -n %s; Kubernetes creates it again from the current template", p.Name, p.Namespace)}
}

// waitsForPod names the Pod that decides, during an update or without one.
func waitsForPod(update bool) func(*view) *finding {
	return func(v *view) *finding {
		if v.Pod == nil {
			return nil
		}
		w := v.workload()
		if older := w.total > w.updated; older != update {
			return nil
		}
		a := v.asPod(v.Pod).first(podRules)
		what := fmt.Sprintf("%s has %d of %d Pods Ready", v.name(), w.ready, w.desired)
		if update {
			what = fmt.Sprintf("the update of %s has %d of %d Pods, and %d are Ready", v.name(), w.updated, w.desired, w.ready)
		}
		return &finding{because: a.Reason, cause: fmt.Sprintf("%s; Pod %s decides: %s", what, v.Pod.Name, a.Cause), advice: a.Advice}
	}
}

func podsNotMade(v *view) *finding {
	w := v.workload()
	if len(v.Pods) >= int(w.desired) {
		return nil
	}
	cause := fmt.Sprintf("%s wants %s, and %d exist", v.name(), count(int(w.desired), "Pod"), len(v.Pods))
	if v.now.Sub(w.meta.CreationTimestamp.Time) < young {
		return &finding{cause: cause + "; it was created " + v.ago(w.meta.CreationTimestamp.Time) + " ago", advice: "run the command again in a few seconds"}
	}
	return &finding{cause: cause + "; neither its conditions nor its Events give a reason",
		advice: "look at the log of kube-controller-manager; in a sandbox: koupsandbox logs kube-controller-manager"}
}
