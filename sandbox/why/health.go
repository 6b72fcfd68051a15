package why

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// liveness explains a Pod whose liveness probe has failed. This rule must precede the rules about commands, because
// the container status of such a module is the same as after a change of its image. The time of the Event is the time
// at which the Pod became Not Ready, with a resolution of one second.
func liveness(v *explainer) *Answer {
	e, found := v.event(string(v.Pod.UID), api.ReasonLivenessFailed)
	turned := podCondition(v.Pod, corev1.PodReady).LastTransitionTime.Time
	if v.unbound() || !found || events.LastTime(&e).Before(turned.Add(-2*time.Second)) {
		return nil
	}
	return v.answer(msgLivenessProbeFailing, args{"base": v.onBase(), "probe": v.lastProbe()})
}

// health explains a Pod that is not Ready although its modules are installed: a readiness probe fails, or a readiness
// gate is not True.
func health(v *explainer) *Answer {
	ready := podCondition(v.Pod, corev1.ContainersReady)
	for _, s := range v.Pod.Status.ContainerStatuses {
		if !s.Ready && s.State.Running != nil && ready.Status == corev1.ConditionFalse {
			return v.answer(msgReadinessProbeFailing, args{"module": s.Name, "base": v.onBase(),
				"message": sentence(ready.Message), "probe": v.lastProbe()})
		}
	}
	var missing []string
	for _, g := range v.Pod.Spec.ReadinessGates {
		if podCondition(v.Pod, g.ConditionType).Status != corev1.ConditionTrue {
			missing = append(missing, string(g.ConditionType))
		}
	}
	if len(missing) == 0 || ready.Status != corev1.ConditionTrue {
		return nil
	}
	slices.Sort(missing)
	return v.answer(msgReadinessGateMissing, args{"base": v.onBase(), "gates": strings.Join(missing, ", ")})
}

// lastProbe returns the newest Event about a failed probe, in parentheses. It returns "" if there is none.
func (v *explainer) lastProbe() string {
	if e, found := v.event(string(v.Pod.UID), api.ReasonUnhealthy); found {
		return v.in(partProbeFailed, args{"age": v.ago(events.LastTime(&e)), "message": sentence(e.Message)})
	}
	return ""
}
