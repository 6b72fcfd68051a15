package why

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// nodeRules are for a Node, or the base behind it.
var nodeRules = slices.Concat([]rule{{OrdinaryNode, func(v *view) *finding {
	if workload.IsBase(v.Node) {
		return nil
	}
	return &finding{ready: nodeReady(v.Node), cause: fmt.Sprintf("%s is an ordinary Node and no base: it lacks the label %s=%s", v.Node.Name, labels.Component, labels.Vnode),
		advice: "see: kubectl describe node " + v.Node.Name}
}}, leavingRule}, baseRules, []rule{
	{BaseCordoned, func(v *view) *finding {
		return when(v.Node.Spec.Unschedulable, baseName(v.Node)+" is Ready and cordoned: it takes no new Pods, and those that are there stay", "kubectl uncordon "+v.Node.Name)
	}},
	{MetaspacePressure, func(v *view) *finding {
		c := nodeCondition(v.Node, corev1.NodeMemoryPressure)
		return when(c.Status == corev1.ConditionTrue, fmt.Sprintf("%s is Ready and has little metaspace left: %s", baseName(v.Node), sentence(c.Message)),
			"take modules off the base, or start it with a larger -XX:MaxMetaspaceSize")
	}},
	{NodeReady, func(v *view) *finding {
		c := nodeCondition(v.Node, corev1.NodeReady)
		by := ""
		if holder := v.Node.Annotations[labels.Holder]; holder != "" {
			by = ", and the controller " + holder + " serves it"
		}
		return &finding{ready: true, cause: fmt.Sprintf("%s is Ready for %s, since %s%s", baseName(v.Node), v.ago(c.LastTransitionTime.Time), clock(c.LastTransitionTime.Time), by)}
	}},
})
