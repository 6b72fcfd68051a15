package why

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retriedWithin is the maximum time in which the scheduler retries a Pod after a relevant change: its longest
// backoff plus a few seconds.
const retriedWithin = 15 * time.Second

// messageRules are for a Pod that a base fits by labels, taints, state and free resources, but that the scheduler
// rejects for another reason. The patterns match the texts of its plugins
// (k8s.io/kubernetes/pkg/scheduler/framework/plugins).
var messageRules = []rule{
	{ClaimUnbound, schedulerSays(`persistentvolumeclaim "|unbound immediate PersistentVolumeClaims`, func(v *view, _ []string) *finding {
		return &finding{cause: fmt.Sprintf("a persistent volume claim of the Pod (%s) does not exist, or is not bound to a volume; the scheduler reports: %s", strings.Join(claims(v.Pod), ", "), v.refusal()),
			advice: withoutClaims(v) + ", or create the claim and bind it to a volume: kubectl get pvc -n " + v.Pod.Namespace}
	})},
	{VolumeUnavailable, schedulerSays(`persistentvolume|PersistentVolume|persistent volumes|volume node affinity|volume zone|max volume count|free storage|storageclass`, func(v *view, _ []string) *finding {
		return &finding{cause: "no base meets the volume requirements of the Pod; the scheduler reports: " + v.refusal(), advice: withoutClaims(v)}
	})},
	{TopologySpread, schedulerSays(`topology spread constraints \(missing required label\)`, func(v *view, _ []string) *finding {
		return &finding{cause: fmt.Sprintf("the Pod must be spread over %s, and no base that fits otherwise has that label; the scheduler reports: %s", spreadOver(v.Pod), v.refusal()),
			advice: "use the topologyKey " + corev1.LabelHostname + ", or label the Nodes of the bases"}
	})},
	{TopologySpread, schedulerSays(`didn't match pod topology spread constraints`, func(v *view, _ []string) *finding {
		return &finding{cause: fmt.Sprintf("on every base that fits otherwise, the Pod would break a topology spread constraint (over %s); the scheduler reports: %s", spreadOver(v.Pod), v.refusal()),
			advice: "set whenUnsatisfiable: ScheduleAnyway, increase maxSkew, or add a base; cordoned bases count as topology domains, unless the constraint has nodeTaintsPolicy: Honor"}
	})},
	{PodAffinity, schedulerGives(`didn't match pod affinity rules`, "no base that fits otherwise has a Pod that the required Pod affinity selects",
		"correct the labelSelector of the podAffinity, start the Pods that it selects, or make the affinity preferred")},
	{AntiAffinity, schedulerGives(`anti-affinity rules`, "every base that fits otherwise already has a Pod that an anti-affinity separates from this Pod",
		"add a base, or make the anti-affinity preferred; an update with maxSurge needs one more base than there are replicas")},
	{HostPortTaken, schedulerGives(`free ports`, "every base that fits otherwise already has a Pod with the same hostPort", "remove the hostPort, which has no effect for a module, or add a base")},
	{NoFreeResources, schedulerGives(`Too many pods`, "every base that fits otherwise already has its maximum number of Pods", "add a base, or remove modules")},
}

// schedulerRules are for a Pod that no other rule explains.
var schedulerRules = []rule{
	{UnknownScheduler, func(v *view) *finding {
		name := v.Pod.Spec.SchedulerName
		return when(name != "" && name != corev1.DefaultSchedulerName && v.scheduler().Type == "",
			fmt.Sprintf("the scheduler %s has not tried to schedule the Pod", name), "remove schedulerName, or check that this scheduler runs")
	}},
	{NotScheduledYet, notScheduledYet},
	{SchedulerRefuses, func(v *view) *finding {
		p := v.placed()
		if len(p.decisive) == 0 {
			return nil
		}
		return &finding{cause: fmt.Sprintf("the scheduler finds no Node for the Pod: %s; labels, taints, state and free resources of %s fit, and no further reason is known", cmp.Or(v.refusal(), "it gives no reason"), baseName(p.decisive[0].base)),
			advice: "resolve the reasons that the scheduler gives; if the cluster has just changed, run the command again"}
	}},
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

// schedulerSays restricts a rule to a message of the scheduler.
func schedulerSays(pattern string, find func(v *view, match []string) *finding) func(*view) *finding {
	text := regexp.MustCompile(pattern)
	return func(v *view) *finding {
		if match := text.FindStringSubmatch(v.refusal()); match != nil {
			return find(v, match)
		}
		return nil
	}
}

// schedulerGives restricts a rule with a fixed finding to a message of the scheduler.
func schedulerGives(pattern, cause, advice string) func(*view) *finding {
	return schedulerSays(pattern, func(*view, []string) *finding { return &finding{cause: cause, advice: advice} })
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
		return fmt.Sprintf("a module uses no volumes: remove the claims from StatefulSet %s; Kubernetes refuses to change volumeClaimTemplates, so delete and create the StatefulSet again", name)
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

// notScheduledYet is for a Pod that the scheduler has not tried, or has not tried again since the last change of a
// base that fits.
func notScheduledYet(v *view) *finding {
	p := v.placed()
	if len(p.decisive) == 0 {
		return nil
	}
	if v.scheduler().Type == "" && len(v.Pod.Spec.ResourceClaims) > 0 {
		return &finding{cause: "the scheduler does not try to schedule the Pod before its resource claims exist", advice: "a module uses no devices: remove resourceClaims from the Pod or its template"}
	}
	if v.scheduler().Type == "" {
		return &finding{cause: fmt.Sprintf("the scheduler has not tried to schedule the Pod for %s; %s fits", v.ago(v.Pod.CreationTimestamp.Time), baseName(p.decisive[0].base)),
			advice: "check that kube-scheduler runs; in a sandbox: koupsandbox status"}
	}
	for _, d := range p.decisive {
		if age := v.now.Sub(changed(d.base)); age < retriedWithin {
			return &finding{cause: fmt.Sprintf("%s fits since a change %s ago, and the scheduler has not tried the Pod again; it last reported: %s", baseName(d.base), age.Round(time.Second), v.refusal()),
				advice: "wait a few seconds: the scheduler tries again after a change"}
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
