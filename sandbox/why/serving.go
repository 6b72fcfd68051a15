package why

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// servingRules are for a Pod on a base: which controller serves the base, and whether its heartbeats arrive.
var servingRules = append(guarded((*view).bound, rule{NodeGone, func(v *view) *finding {
	return when(v.Node == nil && len(v.Unread) == 0,
		fmt.Sprintf("the Pod is bound to %s, and there is no such Node: its base is gone, or was never there", v.Pod.Spec.NodeName),
		"delete the Pod; its workload makes another one for a base that is there")
}}), guarded((*view).boundToNode, baseRules...)...)

// baseRules are for the base of a Pod, or that is asked about.
var baseRules = []rule{
	{ControllerNotRunning, func(v *view) *finding {
		return when(!v.live("") && v.ours(v.Node),
			fmt.Sprintf("no module controller runs, so nobody tells %s what to do%s", baseName(v.Node), v.lastController("")), startController)
	}},
	{NoControllerForEnvironment, func(v *view) *finding {
		env := v.Node.Labels[labels.Env]
		var envs []string
		for _, c := range v.controllers {
			if c.live {
				envs = append(envs, c.env)
			}
		}
		return when(!v.live(env) && v.ours(v.Node),
			fmt.Sprintf("%s is of the environment %s, and no controller of that one runs; there are controllers of %s", baseName(v.Node), env, some(envs)),
			fmt.Sprintf("start a controller with ENV=%s, or delete the Node if the base has moved to another environment", env))
	}},
	{NobodyServesBase, func(v *view) *finding {
		holder := v.Node.Annotations[labels.Holder]
		cause := fmt.Sprintf("%s is served by nobody at the moment: a controller gave it away", baseName(v.Node))
		if holder != "" {
			cause = fmt.Sprintf("%s is served by the controller %s, which does not renew its Lease any more", baseName(v.Node), holder)
		}
		serves := slices.ContainsFunc(v.controllers, func(c controller) bool { return c.holder == holder && c.live })
		return when(!serves && v.ours(v.Node), cause, "wait some seconds: another controller takes it when it has heard the base; if none does, look at their logs")
	}},
	{ControllerBlind, func(v *view) *finding {
		c := nodeCondition(v.Node, api.ConditionObserved)
		return when(c.Status == corev1.ConditionFalse,
			fmt.Sprintf("the controller has received nothing from %s for %s: %s (%s)", baseName(v.Node), v.ago(c.LastTransitionTime.Time), sentence(c.Message), c.Reason),
			"check the connection between controller and bases, the broker first, and that the bases still run (in a sandbox: koupsandbox base list); the Pods keep their state until the base reports again")
	}},
	{BaseSilent, func(v *view) *finding {
		c := nodeCondition(v.Node, corev1.NodeReady)
		said := sentence(c.Message)
		if c.Reason != "" && c.Reason != errcode.ModuleControllerBaseInstanceNotReady.Type() {
			said += " (" + c.Reason + ")"
		}
		return when(c.Status != corev1.ConditionTrue, fmt.Sprintf("%s is not Ready for %s: %s", baseName(v.Node), v.ago(c.LastTransitionTime.Time), said),
			"check that the base runs and reaches the broker or the controller; otherwise the controller deletes its Node, and Kubernetes the Pods on it")
	}},
}

// leavingRule comes last for Pods: the deletion of a Node that somebody holds keeps no module from being Ready.
var leavingRule = rule{BaseLeaving, func(v *view) *finding {
	return when(v.Node.DeletionTimestamp != nil, fmt.Sprintf("the Node of %s is being deleted, and its Pods go with it", baseName(v.Node)),
		"wait for the Pod that takes its place; a Node that is held by a finalizer goes when that is taken away")
}}

const startController = "start the module controller; in a sandbox: koupsandbox component start module-controller"

// ours reports whether it is known that a controller of this project created a Node, and which controllers run. Other
// controllers write no holder.
func (v *view) ours(n *corev1.Node) bool {
	_, named := n.Annotations[labels.Holder]
	return named && !v.ControllersUnread
}

// lastController returns what is known of the last controller that ran in an environment; empty is any.
func (v *view) lastController(env string) string {
	var last controller
	for _, c := range v.controllers {
		if !c.live && (env == "" || c.env == env) && (last.holder == "" || c.renewed.After(last.renewed)) {
			last = c
		}
	}
	if last.holder == "" {
		return ""
	}
	return fmt.Sprintf("; %s renewed its Lease %s ago for the last time", last.holder, v.ago(last.renewed))
}
