package why

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// serving explains a Pod on a base without a controller, or whose heartbeats do not arrive.
func serving(v *view) *Answer {
	switch {
	case v.unbound():
		return nil
	case v.Node != nil:
		return base(v)
	case len(v.Unread) > 0:
		return nil
	}
	if v.scheduler().Type == "" { // the scheduler has not bound the Pod
		return &Answer{Reason: NodeGone,
			Cause: fmt.Sprintf("the Pod or its template sets nodeName: %s, and no Node has this name",
				v.Pod.Spec.NodeName),
			Advice: "remove nodeName, and select bases by their labels, for example by " + corev1.LabelHostname +
				" in the nodeSelector"}
	}
	return &Answer{Reason: NodeGone,
		Cause: fmt.Sprintf("the Pod is bound to %s, and this Node does not exist: its base was removed, "+
			"or never existed", v.Pod.Spec.NodeName),
		Advice: "delete the Pod; its workload creates another one on an existing base"}
}

// base explains a base without a controller, or whose heartbeats do not arrive.
func base(v *view) *Answer {
	env, holder := v.Node.Labels[labels.Env], v.Node.Annotations[labels.Holder]
	ours, name := v.ours(v.Node), baseName(v.Node)
	observed, ready := nodeCondition(v.Node, api.ConditionObserved), nodeCondition(v.Node, corev1.NodeReady)
	switch {
	case ours && !v.live(""):
		return &Answer{Reason: ControllerNotRunning,
			Cause:  fmt.Sprintf("no module controller is running to manage %s%s", name, v.lastController("")),
			Advice: startController}
	case ours && !v.live(env):
		var envs []string
		for _, c := range v.controllers {
			if c.live {
				envs = append(envs, c.env)
			}
		}
		return &Answer{Reason: NoControllerForEnvironment,
			Cause: fmt.Sprintf(
				"%s belongs to the environment %s, which has no running controller; controllers are running for %s",
				name, env, some(envs)),
			Advice: fmt.Sprintf(
				"start a controller with ENV=%s, or delete the Node if the base has moved to another environment", env)}
	case ours && !slices.ContainsFunc(v.controllers, func(c controller) bool { return c.holder == holder && c.live }):
		cause := fmt.Sprintf("no controller serves %s at the moment: its controller has released it", name)
		if holder != "" {
			cause = fmt.Sprintf("%s is served by the controller %s, which no longer renews its Lease", name, holder)
		}
		return &Answer{Reason: NobodyServesBase, Cause: cause,
			Advice: "wait a few seconds: another controller takes over the base after its next heartbeat; otherwise check the logs of the controllers"}
	case observed.Status == corev1.ConditionFalse:
		return &Answer{Reason: ControllerBlind,
			Cause: fmt.Sprintf("the controller has received nothing from %s for %s: %s (%s)", name,
				v.ago(observed.LastTransitionTime.Time), sentence(observed.Message), observed.Reason),
			Advice: "check the connection between controller and bases, the broker first, and that the bases still run (in a sandbox: koupsandbox base list); the Pods keep their state until the base reports again"}
	case ready.Status != corev1.ConditionTrue:
		message := sentence(ready.Message)
		if ready.Reason != "" && ready.Reason != errcode.ModuleControllerBaseInstanceNotReady.Type() {
			message += " (" + ready.Reason + ")"
		}
		return &Answer{Reason: BaseSilent,
			Cause:  fmt.Sprintf("%s is not Ready for %s: %s", name, v.ago(ready.LastTransitionTime.Time), message),
			Advice: "check that the base runs and reaches the broker or the controller; otherwise the controller deletes its Node, and Kubernetes the Pods on it"}
	}
	return nil
}

// leaving is the last rule for Pods, because modules can become Ready on a Node whose deletion a finalizer delays.
func leaving(v *view) *Answer {
	if v.Node == nil || v.Node.DeletionTimestamp == nil {
		return nil
	}
	return &Answer{Reason: BaseLeaving,
		Cause: fmt.Sprintf("the Node of %s is being deleted, with its Pods", baseName(v.Node)),
		Advice: "wait for the Pod that replaces it; if the Node has a finalizer, its deletion ends when the " +
			"finalizer is removed"}
}

func ordinaryNode(v *view) *Answer {
	if workload.IsBase(v.Node) {
		return nil
	}
	return &Answer{Reason: OrdinaryNode, Ready: nodeReady(v.Node),
		Cause: fmt.Sprintf("%s is an ordinary Node, not a base: it does not have the label %s=%s", v.Node.Name,
			labels.Component, labels.Vnode),
		Advice: "see: kubectl describe node " + v.Node.Name}
}

func readyBase(v *view) *Answer {
	name, pressure, ready := baseName(v.Node), nodeCondition(v.Node, corev1.NodeMemoryPressure), nodeCondition(v.Node,
		corev1.NodeReady)
	switch {
	case v.Node.Spec.Unschedulable:
		return &Answer{Reason: BaseCordoned,
			Cause:  name + " is Ready and cordoned: it accepts no new Pods, and keeps its existing Pods",
			Advice: "kubectl uncordon " + v.Node.Name}
	case pressure.Status == corev1.ConditionTrue:
		return &Answer{Reason: MetaspacePressure,
			Cause:  fmt.Sprintf("%s is Ready and has little metaspace left: %s", name, sentence(pressure.Message)),
			Advice: "uninstall modules, or start the base with a larger -XX:MaxMetaspaceSize"}
	}
	by := ""
	if holder := v.Node.Annotations[labels.Holder]; holder != "" {
		by = ", and the controller " + holder + " serves it"
	}
	since := ready.LastTransitionTime.Time
	return &Answer{Reason: NodeReady, Ready: true,
		Cause: fmt.Sprintf("%s is Ready for %s, since %s%s", name, v.ago(since), clock(since), by)}
}

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
	return fmt.Sprintf("; %s last renewed its Lease %s ago", last.holder, v.ago(last.renewed))
}
