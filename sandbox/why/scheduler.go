package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retriedWithin is how long the scheduler takes at most to retry a Pod after a relevant change: its longest backoff
// plus a few seconds.
const retriedWithin = 15 * time.Second

// explainRejected explains a Pod that fits a base by labels, taints, state and free resources, but that the scheduler
// has rejected or has not tried to schedule. The rules match messages of the scheduler plugins
// (k8s.io/kubernetes/pkg/scheduler/framework/plugins).
func explainRejected(v *explainer) *Answer {
	message := v.schedulerMessage()
	contains := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(message, text) })
	}
	name := v.Pod.Spec.SchedulerName
	switch {
	case contains(`persistentvolumeclaim "`, "unbound immediate PersistentVolumeClaims"):
		return v.answer(msgClaimUnbound, args{"claims": strings.Join(claims(v.Pod), ", "), "message": message,
			"advice": v.withoutClaims(), "namespace": v.Pod.Namespace})
	case contains("persistentvolume", "PersistentVolume", "persistent volumes", "volume node affinity", "volume zone",
		"max volume count", "free storage", "storageclass"):
		return v.answer(msgVolumeUnavailable, args{"message": message, "advice": v.withoutClaims()})
	case contains("topology spread constraints (missing required label)"):
		return v.answer(msgSpreadLabelMissing, args{"keys": v.spreadOver(), "message": message})
	case contains("didn't match pod topology spread constraints"):
		return v.answer(msgTopologySpread, args{"keys": v.spreadOver(), "message": message})
	case contains("didn't match pod affinity rules"):
		return v.answer(msgPodAffinity, nil)
	case contains("anti-affinity rules"):
		return v.answer(msgAntiAffinity, nil)
	case contains("free ports"):
		return v.answer(msgHostPortTaken, nil)
	case contains("Too many pods"):
		return v.answer(msgTooManyPods, nil)
	case name != "" && name != corev1.DefaultSchedulerName && v.podScheduled().Type == "":
		return v.answer(msgUnknownScheduler, args{"scheduler": name})
	}
	if a := notScheduledYet(v); a != nil {
		return a
	}
	return v.answer(msgSchedulerRefuses, args{"message": cmp.Or(message, v.in(partSchedulerSilent, nil)),
		"base": baseName(v.placementOfPod().decisive[0].base)})
}

// podScheduled returns the PodScheduled condition of the Pod, which contains the scheduler's last message.
func (v *explainer) podScheduled() corev1.PodCondition {
	return podCondition(v.Pod, corev1.PodScheduled)
}

// schedulerMessage returns the scheduler's last message without the parts about preemption and resource claims.
func (v *explainer) schedulerMessage() string {
	message := v.podScheduled().Message
	for _, end := range []string{"preemption:", "no new claims to deallocate"} {
		message, _, _ = strings.Cut(message, end)
	}
	return sentence(strings.TrimRight(message, " ,"))
}

// claims returns the names of the PersistentVolumeClaims that the Pod uses.
func claims(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}

// withoutClaims returns the advice for a module Pod that uses PersistentVolumeClaims.
func (v *explainer) withoutClaims() string {
	if name, is := ownerOf(v.Pod, "StatefulSet"); is {
		return v.in(partClaimsOfStatefulSet, args{"name": name})
	}
	return v.in(partClaimsOfPod, nil)
}

// ownerOf returns the name of the object that controls the Pod if this object is of the given kind. Otherwise, it
// returns false.
func ownerOf(p *corev1.Pod, kind string) (string, bool) {
	o := metav1.GetControllerOf(p)
	if o == nil || o.Kind != kind {
		return "", false
	}
	return o.Name, true
}

// spreadOver returns the topology keys of the Pod's topology spread constraints.
func (v *explainer) spreadOver() string {
	var keys []string
	for _, c := range v.Pod.Spec.TopologySpreadConstraints {
		keys = append(keys, c.TopologyKey)
	}
	return v.join(keys)
}

// notScheduledYet explains a Pod that the scheduler has not tried to schedule yet, or not again since the last change
// of a base that fits the Pod.
func notScheduledYet(v *explainer) *Answer {
	fitting := v.placementOfPod().decisive
	switch tried := v.podScheduled().Type != ""; {
	case !tried && len(v.Pod.Spec.ResourceClaims) > 0:
		return v.answer(msgResourceClaims, nil)
	case !tried:
		return v.answer(msgNotScheduledYet,
			args{"age": v.ago(v.Pod.CreationTimestamp.Time), "base": baseName(fitting[0].base)})
	}
	for _, d := range fitting {
		if age := v.now.Sub(changed(d.base)); age < retriedWithin {
			return v.answer(msgNotScheduledAgain, args{"base": baseName(d.base), "age": age.Round(time.Second),
				"message": v.schedulerMessage()})
		}
	}
	return nil
}

// changed returns the last time at which a Node changed in a way that can make a Pod fit. Such changes are the
// creation of the Node, its becoming Ready, and changes of labels, taints or schedulability by kubectl. It does not
// detect that Pods on the Node were deleted.
func changed(n *corev1.Node) time.Time {
	last := n.CreationTimestamp.Time
	if t := nodeCondition(n, corev1.NodeReady).LastTransitionTime.Time; t.After(last) {
		last = t
	}
	for _, m := range n.ManagedFields {
		if strings.HasPrefix(m.Manager, "kubectl") && m.Subresource == "" && m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last
}
