package why

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// nodeRules are for a Node, or the base behind it.
var nodeRules = []rule{
	{OrdinaryNode, ordinaryNode},
	{BaseLeaving, onNode(baseLeaving)},
	{ControllerNotRunning, onNode(controllerNotRunning)},
	{NoControllerForEnvironment, onNode(noControllerForEnvironment)},
	{NobodyServesBase, onNode(nobodyServes)},
	{ControllerBlind, onNode(controllerBlind)},
	{BaseSilent, onNode(baseSilent)},
	{BaseCordoned, nodeCordoned},
	{MetaspacePressure, metaspacePressure},
	{NodeReady, nodeIsReady},
}

func ordinaryNode(v *view) *finding {
	if workload.IsBase(v.Node) {
		return nil
	}
	return &finding{ready: nodeReady(v.Node), cause: fmt.Sprintf("%s is an ordinary Node and no base: it lacks the label %s=%s", v.Node.Name, labels.Component, labels.Vnode),
		advice: "see: kubectl describe node " + v.Node.Name}
}

func nodeCordoned(v *view) *finding {
	if !v.Node.Spec.Unschedulable {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s is Ready and cordoned: it takes no new Pods, and those that are there stay", baseName(v.Node)), advice: "kubectl uncordon " + v.Node.Name}
}

func metaspacePressure(v *view) *finding {
	c := nodeCondition(v.Node, corev1.NodeMemoryPressure)
	if c.Status != corev1.ConditionTrue {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s is Ready and has little metaspace left: %s", baseName(v.Node), sentence(c.Message)),
		advice: "take modules off the base, or start it with a larger -XX:MaxMetaspaceSize"}
}

func nodeIsReady(v *view) *finding {
	c := nodeCondition(v.Node, corev1.NodeReady)
	if c.Status != corev1.ConditionTrue {
		return nil
	}
	by := ""
	if holder := v.Node.Annotations[labels.Holder]; holder != "" {
		by = ", and the controller " + holder + " serves it"
	}
	return &finding{ready: true, cause: fmt.Sprintf("%s is Ready for %s, since %s%s", baseName(v.Node), v.ago(c.LastTransitionTime.Time), clock(c.LastTransitionTime.Time), by)}
}
