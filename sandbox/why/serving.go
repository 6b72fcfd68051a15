package why

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// servingRules are for a Pod on a base: who serves it, and is it heard.
var servingRules = []rule{
	{NodeGone, bound(nodeGone)},
	{ControllerNotRunning, bound(onNode(controllerNotRunning))},
	{NoControllerForEnvironment, bound(onNode(noControllerForEnvironment))},
	{NobodyServesBase, bound(onNode(nobodyServes))},
	{ControllerBlind, bound(onNode(controllerBlind))},
	{BaseSilent, bound(onNode(baseSilent))},
}

// leavingRules come last: the deletion of a Node that somebody holds keeps no module from being Ready.
var leavingRules = []rule{{BaseLeaving, bound(onNode(baseLeaving))}}

// bound restricts a rule to Pods on a base.
func bound(find func(*view) *finding) func(*view) *finding {
	return func(v *view) *finding {
		if v.Pod.Spec.NodeName == "" {
			return nil
		}
		return find(v)
	}
}

// onNode restricts a rule to what has a Node.
func onNode(find func(*view) *finding) func(*view) *finding {
	return func(v *view) *finding {
		if v.Node == nil {
			return nil
		}
		return find(v)
	}
}

func nodeGone(v *view) *finding {
	if v.Node != nil || len(v.Unread) > 0 {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the Pod is bound to %s, and there is no such Node: its base is gone, or was never there", v.Pod.Spec.NodeName),
		advice: "delete the Pod; its workload makes another one for a base that is there"}
}

// markedByOurs tells whether a controller of this project has made a Node: others write no holder.
func (v *view) markedByOurs(n *corev1.Node) bool {
	_, named := n.Annotations[labels.Holder]
	return named
}

// lastController says what is known of the controller that was the last to run; empty is any environment.
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

func controllerNotRunning(v *view) *finding {
	if v.live("") || !v.controllersRead() || !v.markedByOurs(v.Node) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("no module controller runs, so nobody tells %s what to do%s", baseName(v.Node), v.lastController("")),
		advice: "start the module controller; in a sandbox: koupsandbox component start module-controller"}
}

func noControllerForEnvironment(v *view) *finding {
	env := v.Node.Labels[labels.Env]
	if v.live(env) || !v.controllersRead() || !v.markedByOurs(v.Node) {
		return nil
	}
	var envs []string
	for _, c := range v.controllers {
		if c.live {
			envs = append(envs, c.env)
		}
	}
	return &finding{cause: fmt.Sprintf("%s is of the environment %s, and no controller of that one runs; there are controllers of %s", baseName(v.Node), env, some(envs)),
		advice: fmt.Sprintf("start a controller with ENV=%s, or delete the Node if the base has moved to another environment", env)}
}

func nobodyServes(v *view) *finding {
	holder, named := v.Node.Annotations[labels.Holder]
	if !named || !v.controllersRead() || slices.ContainsFunc(v.controllers, func(c controller) bool { return c.holder == holder && c.live }) {
		return nil
	}
	cause := fmt.Sprintf("%s is served by nobody at the moment: a controller gave it away", baseName(v.Node))
	if holder != "" {
		cause = fmt.Sprintf("%s is served by the controller %s, which does not renew its Lease any more", baseName(v.Node), holder)
	}
	return &finding{cause: cause, advice: "wait some seconds: another controller takes it when it has heard the base; if none does, look at their logs"}
}

func controllerBlind(v *view) *finding {
	c := nodeCondition(v.Node, api.ConditionObserved)
	if c.Status != corev1.ConditionFalse {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the controller has received nothing from %s for %s: %s (%s)", baseName(v.Node), v.ago(c.LastTransitionTime.Time), sentence(c.Message), c.Reason),
		advice: "check the connection between controller and bases, the broker first, and that the bases still run (in a sandbox: koupsandbox base list); the Pods keep their state until the base reports again"}
}

func baseSilent(v *view) *finding {
	c := nodeCondition(v.Node, corev1.NodeReady)
	if c.Status == corev1.ConditionTrue {
		return nil
	}
	said := sentence(c.Message)
	if c.Reason != "" && c.Reason != errcode.ModuleControllerBaseInstanceNotReady.Type() {
		said += " (" + c.Reason + ")"
	}
	return &finding{cause: fmt.Sprintf("%s is not Ready for %s: %s", baseName(v.Node), v.ago(c.LastTransitionTime.Time), said),
		advice: "check that the base runs and reaches the broker or the controller; otherwise the controller deletes its Node, and Kubernetes the Pods on it"}
}

func baseLeaving(v *view) *finding {
	if v.Node.DeletionTimestamp == nil {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the Node of %s is being deleted, and its Pods go with it", baseName(v.Node)),
		advice: "wait for the Pod that takes its place; a Node that is held by a finalizer goes when that is taken away"}
}
