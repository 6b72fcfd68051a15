package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// liveness precedes the rules of commands: the container of a module that failed its liveness probe waits as if its image
// had changed. The controller records the Event when the Pod turns Not Ready, to the second.
func liveness(v *view) *Answer {
	e, found := v.event(string(v.Pod.UID), api.ReasonLivenessFailed)
	turned := podCondition(v.Pod, corev1.PodReady).LastTransitionTime.Time
	if v.unbound() || !found || events.LastTime(&e).Before(turned.Add(-2*time.Second)) {
		return nil
	}
	return &Answer{Reason: LivenessProbeFailing,
		Cause: fmt.Sprintf("the liveness probe of the Pod fails on %s, so the module is uninstalled and "+
			"installed again%s", v.onBase(), v.lastProbe()),
		Advice: "check the answer of the module at the path of its livenessProbe"}
}

// health explains a Pod whose modules are installed: a readiness probe fails, or a readiness gate is not True.
func health(v *view) *Answer {
	ready := podCondition(v.Pod, corev1.ContainersReady)
	for _, s := range v.Pod.Status.ContainerStatuses {
		if !s.Ready && s.State.Running != nil && ready.Status == corev1.ConditionFalse {
			return &Answer{Reason: ReadinessProbeFailing,
				Cause: fmt.Sprintf("%s is active on %s, and its readiness probe keeps it from being Ready: %s%s",
					s.Name, v.onBase(), sentence(ready.Message), v.lastProbe()),
				Advice: "check path and port of its readinessProbe, and the answer of the module there; the port of " +
					"the base's web listener is in the annotation " + labels.WebPort}
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
	return &Answer{Reason: ReadinessGateMissing,
		Cause: fmt.Sprintf("the modules of the Pod serve on %s, and the readiness gate %s is not True", v.onBase(),
			strings.Join(missing, ", ")),
		Advice: "check the program that sets this condition of the Pod, or remove the gate from the template"}
}

// lastProbe returns the newest Event of a probe in parentheses.
func (v *view) lastProbe() string {
	if e, found := v.event(string(v.Pod.UID), api.ReasonUnhealthy); found {
		return fmt.Sprintf(" (%s ago: %s)", v.ago(events.LastTime(&e)), sentence(e.Message))
	}
	return ""
}
