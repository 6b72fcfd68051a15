package why

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// explainServing explains a Pod on a base that no controller serves, or whose heartbeats do not arrive.
func explainServing(v *explainer) *Answer {
	switch {
	case v.unbound():
		return nil
	case v.Node != nil:
		return base(v)
	case len(v.Unread) > 0:
		return nil
	}
	node := args{"node": v.Pod.Spec.NodeName}
	if v.podScheduled().Type == "" { // the scheduler has not bound the Pod
		return v.answer(msgNodeNameUnknown, node)
	}
	return v.answer(msgNodeGone, node)
}

// base explains the state of a base that no controller serves, or whose heartbeats do not arrive.
func base(v *explainer) *Answer {
	env, holder := v.Node.Labels[labels.Env], v.Node.Annotations[labels.Holder]
	ours, name := v.isOurs(v.Node), baseName(v.Node)
	observed, ready := nodeCondition(v.Node, api.ConditionObserved), nodeCondition(v.Node, corev1.NodeReady)
	switch {
	case ours && !v.controllerRuns(""):
		return v.answer(msgControllerNotRunning, args{"base": name, "last": v.lastController("")})
	case ours && !v.controllerRuns(env):
		var envs []string
		for _, c := range v.controllers {
			if c.runs {
				envs = append(envs, c.env)
			}
		}
		return v.answer(msgNoControllerForEnvironment, args{"base": name, "env": env, "envs": v.join(envs)})
	case ours && !slices.ContainsFunc(v.controllers, func(c controller) bool { return c.holder == holder && c.runs }):
		if holder == "" {
			return v.answer(msgBaseReleased, args{"base": name})
		}
		return v.answer(msgHolderNotRunning, args{"base": name, "controller": holder})
	case observed.Status == corev1.ConditionFalse:
		return v.answer(msgBaseNotObserved, args{"base": name, "age": v.ago(observed.LastTransitionTime.Time),
			"message": sentence(observed.Message), "reason": observed.Reason})
	case ready.Status != corev1.ConditionTrue:
		message := sentence(ready.Message)
		if ready.Reason != "" && ready.Reason != errcode.ModuleControllerBaseInstanceNotReady.Type() {
			message += " (" + ready.Reason + ")"
		}
		return v.answer(msgBaseNotReady,
			args{"base": name, "age": v.ago(ready.LastTransitionTime.Time), "message": message})
	}
	return nil
}

// explainLeaving explains a target whose base is being removed. For Pods, it is the last rule, because modules can
// still become Ready on a Node whose deletion is delayed by a finalizer.
func explainLeaving(v *explainer) *Answer {
	if v.Node == nil || v.Node.DeletionTimestamp == nil {
		return nil
	}
	return v.answer(msgBaseLeaving, args{"base": baseName(v.Node)})
}

func ordinaryNode(v *explainer) *Answer {
	if workload.IsBase(v.Node) {
		return nil
	}
	a := v.answer(msgOrdinaryNode, args{"node": v.Node.Name})
	a.Ready = nodeReady(v.Node)
	return a
}

func readyBase(v *explainer) *Answer {
	pressure, ready := nodeCondition(v.Node, corev1.NodeMemoryPressure), nodeCondition(v.Node, corev1.NodeReady)
	a := args{"base": baseName(v.Node), "node": v.Node.Name, "message": sentence(pressure.Message), "by": ""}
	switch {
	case v.Node.Spec.Unschedulable:
		return v.answer(msgBaseCordoned, a)
	case pressure.Status == corev1.ConditionTrue:
		return v.answer(msgMetaspacePressure, a)
	}
	if holder := v.Node.Annotations[labels.Holder]; holder != "" {
		a["by"] = v.in(partServedBy, args{"controller": holder})
	}
	since := ready.LastTransitionTime.Time
	a["age"], a["since"] = v.ago(since), clock(since)
	answer := v.answer(msgNodeReady, a)
	answer.Ready = true
	return answer
}

// isOurs reports whether a controller of this project has created the Node. Controllers of other projects do not write
// the holder annotation. isOurs returns false if the Leases of the controllers could not be read.
func (v *explainer) isOurs(n *corev1.Node) bool {
	_, named := n.Annotations[labels.Holder]
	return named && !v.ControllersUnread
}

// lastController describes, of the stopped controllers of an environment, the one that last renewed its Lease. If env
// is empty, it considers all environments. It returns "" if there is no stopped controller.
func (v *explainer) lastController(env string) string {
	var last controller
	for _, c := range v.controllers {
		if !c.runs && (env == "" || c.env == env) && (last.holder == "" || c.renewed.After(last.renewed)) {
			last = c
		}
	}
	if last.holder == "" {
		return ""
	}
	return v.in(partLastController, args{"controller": last.holder, "age": v.ago(last.renewed)})
}
