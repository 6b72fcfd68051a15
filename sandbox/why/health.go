package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// livenessRule precedes the rules of commands: the container of a module that failed its liveness probe waits as if its
// image had changed. The controller records the Event when the Pod turns Not Ready, to the second.
var livenessRule = rule{LivenessProbeFailing, func(v *view) *finding {
	e, there := v.event(string(v.Pod.UID), api.ReasonLivenessFailed)
	turned := podCondition(v.Pod, corev1.PodReady).LastTransitionTime.Time
	return when(there && !eventTime(e).Before(turned.Add(-2*time.Second)),
		fmt.Sprintf("the liveness probe of the Pod fails on %s, so the module is uninstalled and installed again%s", v.onBase(), v.lastProbe()),
		"look at what the module answers to the path of its livenessProbe")
}}

// healthRules are for a Pod whose modules are installed.
var healthRules = []rule{
	{ReadinessProbeFailing, func(v *view) *finding {
		name, message := v.probed()
		return when(name != "", fmt.Sprintf("%s is active on %s, and its readiness probe keeps it from being Ready: %s%s", name, v.onBase(), message, v.lastProbe()),
			"look at path and port of its readinessProbe, and at what the module answers there; the port of the base's web listener is in the annotation "+labels.WebPort)
	}},
	{ReadinessGateMissing, func(v *view) *finding {
		var missing []string
		for _, g := range v.Pod.Spec.ReadinessGates {
			if podCondition(v.Pod, g.ConditionType).Status != corev1.ConditionTrue {
				missing = append(missing, string(g.ConditionType))
			}
		}
		slices.Sort(missing)
		return when(len(missing) > 0 && podCondition(v.Pod, corev1.ContainersReady).Status == corev1.ConditionTrue,
			fmt.Sprintf("the modules of the Pod serve on %s, and the readiness gate %s is not True", v.onBase(), strings.Join(missing, ", ")),
			"look at the program that sets this condition of the Pod, or leave the gate out of the template")
	}},
}

// probed returns the container whose module is active and whose probe has not succeeded, and why: the condition has
// the reason api.ReasonContainersNotReady.
func (v *view) probed() (container, message string) {
	c := podCondition(v.Pod, corev1.ContainersReady)
	for _, s := range v.Pod.Status.ContainerStatuses {
		if !s.Ready && s.State.Running != nil && c.Status == corev1.ConditionFalse {
			return s.Name, sentence(c.Message)
		}
	}
	return "", ""
}

// lastProbe is the newest Event of a probe, in brackets.
func (v *view) lastProbe() string {
	if e, there := v.event(string(v.Pod.UID), api.ReasonUnhealthy); there {
		return fmt.Sprintf(" (%s ago: %s)", v.ago(eventTime(e)), sentence(e.Message))
	}
	return ""
}
