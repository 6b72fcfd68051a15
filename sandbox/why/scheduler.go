package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retriedWithin is the maximum time in which the scheduler retries a Pod after a relevant change: its longest
// backoff plus a few seconds.
const retriedWithin = 15 * time.Second

// rejected explains a Pod that a base fits by labels, taints, state and free resources, or that the scheduler has not
// tried. The rules match the texts of the scheduler's plugins (k8s.io/kubernetes/pkg/scheduler/framework/plugins).
func rejected(v *view) *Answer {
	message := v.refusal()
	says := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(message, text) })
	}
	name := v.Pod.Spec.SchedulerName
	switch {
	case says(`persistentvolumeclaim "`, "unbound immediate PersistentVolumeClaims"):
		return &Answer{Reason: ClaimUnbound,
			Cause: fmt.Sprintf(
				"a persistent volume claim of the Pod (%s) does not exist, or is not bound to a volume; the scheduler reports: %s", strings.Join(claims(v.Pod), ", "), message),
			Advice: withoutClaims(v) + ", or create the claim and bind it to a volume: kubectl get pvc -n " +
				v.Pod.Namespace}
	case says("persistentvolume", "PersistentVolume", "persistent volumes", "volume node affinity", "volume zone",
		"max volume count", "free storage", "storageclass"):
		return &Answer{Reason: VolumeUnavailable,
			Cause:  "no base meets the volume requirements of the Pod; the scheduler reports: " + message,
			Advice: withoutClaims(v)}
	case says("topology spread constraints (missing required label)"):
		return &Answer{Reason: TopologySpread,
			Cause: fmt.Sprintf(
				"the Pod must be spread over %s, and no base that fits otherwise has that label; the scheduler reports: %s", spreadOver(v.Pod), message),
			Advice: "use the topologyKey " + corev1.LabelHostname + ", or label the Nodes of the bases"}
	case says("didn't match pod topology spread constraints"):
		return &Answer{Reason: TopologySpread,
			Cause: fmt.Sprintf(
				"on every base that fits otherwise, the Pod would break a topology spread constraint (over %s); the scheduler reports: %s", spreadOver(v.Pod), message),
			Advice: "set whenUnsatisfiable: ScheduleAnyway, increase maxSkew, or add a base; cordoned bases count as topology domains, unless the constraint has nodeTaintsPolicy: Honor"}
	case says("didn't match pod affinity rules"):
		return &Answer{Reason: PodAffinity,
			Cause:  "no base that fits otherwise has a Pod that the required Pod affinity selects",
			Advice: "correct the labelSelector of the podAffinity, start the Pods that it selects, or make the affinity preferred"}
	case says("anti-affinity rules"):
		return &Answer{Reason: AntiAffinity,
			Cause:  "every base that fits otherwise already has a Pod that an anti-affinity separates from this Pod",
			Advice: "add a base, or make the anti-affinity preferred; an update with maxSurge needs one more base than there are replicas"}
	case says("free ports"):
		return &Answer{Reason: HostPortTaken,
			Cause:  "every base that fits otherwise already has a Pod with the same hostPort",
			Advice: "remove the hostPort, which has no effect for a module, or add a base"}
	case says("Too many pods"):
		return &Answer{Reason: NoFreeResources,
			Cause:  "every base that fits otherwise already has its maximum number of Pods",
			Advice: "add a base, or remove modules"}
	case name != "" && name != corev1.DefaultSchedulerName && v.scheduler().Type == "":
		return &Answer{Reason: UnknownScheduler,
			Cause:  fmt.Sprintf("the scheduler %s has not tried to schedule the Pod", name),
			Advice: "remove schedulerName, or check that this scheduler runs"}
	}
	if a := notScheduledYet(v); a != nil {
		return a
	}
	return &Answer{Reason: SchedulerRefuses,
		Cause: fmt.Sprintf("the scheduler finds no Node for the Pod: %s; labels, taints, state and free resources "+
			"of %s fit, and no further reason is known", cmp.Or(message, "it gives no reason"),
			baseName(v.placed().decisive[0].base)),
		Advice: "resolve the reasons that the scheduler gives; if the cluster has just changed, run the command again"}
}

// scheduler returns the condition PodScheduled of the Pod, with the scheduler's last message.
func (v *view) scheduler() corev1.PodCondition { return podCondition(v.Pod, corev1.PodScheduled) }

// refusal returns the scheduler's last message, without its parts about preemption and resource claims.
func (v *view) refusal() string {
	message := v.scheduler().Message
	for _, end := range []string{"preemption:", "no new claims to deallocate"} {
		message, _, _ = strings.Cut(message, end)
	}
	return sentence(strings.TrimRight(message, " ,"))
}

// claims returns the names of the Pod's claims.
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

// withoutClaims is the advice for a module with claims.
func withoutClaims(v *view) string {
	if name, is := ownerOf(v.Pod, "StatefulSet"); is {
		return fmt.Sprintf("a module uses no volumes: remove the claims from StatefulSet %s; Kubernetes refuses to "+
			"change volumeClaimTemplates, so delete and create the StatefulSet again", name)
	}
	return "a module uses no volumes: remove the claims from the volumes of the Pod or its template"
}

// ownerOf returns the name of the Pod's controller, and whether that controller has the kind.
func ownerOf(p *corev1.Pod, kind string) (string, bool) {
	o := metav1.GetControllerOf(p)
	if o == nil || o.Kind != kind {
		return "", false
	}
	return o.Name, true
}

// spreadOver returns the topology keys of the Pod's spread constraints.
func spreadOver(p *corev1.Pod) string {
	var keys []string
	for _, c := range p.Spec.TopologySpreadConstraints {
		keys = append(keys, c.TopologyKey)
	}
	return some(keys)
}

// notScheduledYet explains a Pod that the scheduler has not tried, or has not tried again since the last change of a
// base that fits.
func notScheduledYet(v *view) *Answer {
	fitting := v.placed().decisive
	switch tried := v.scheduler().Type != ""; {
	case !tried && len(v.Pod.Spec.ResourceClaims) > 0:
		return &Answer{Reason: NotScheduledYet,
			Cause:  "the scheduler does not try to schedule the Pod before its resource claims exist",
			Advice: "a module uses no devices: remove resourceClaims from the Pod or its template"}
	case !tried:
		return &Answer{Reason: NotScheduledYet,
			Cause: fmt.Sprintf("the scheduler has not tried to schedule the Pod for %s; %s fits",
				v.ago(v.Pod.CreationTimestamp.Time), baseName(fitting[0].base)),
			Advice: "check that kube-scheduler runs; in a sandbox: koupsandbox status"}
	}
	for _, d := range fitting {
		if age := v.now.Sub(changed(d.base)); age < retriedWithin {
			return &Answer{Reason: NotScheduledYet,
				Cause: fmt.Sprintf(
					"%s fits since a change %s ago, and the scheduler has not tried the Pod again; it "+
						"last reported: %s", baseName(d.base), age.Round(time.Second), v.refusal()),
				Advice: "wait a few seconds: the scheduler tries again after a change"}
		}
	}
	return nil
}

// changed returns when a Node last changed in a way that can make a Pod fit: it was created, became
// Ready, or kubectl changed its labels, taints or schedulability. It does not detect deletions of Pods.
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
