package workload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// Placement determines on which Nodes the Pods of a template can run. Its methods may be called concurrently.
type Placement struct {
	affinity    nodeaffinity.RequiredNodeAffinity
	nodeName    string
	tolerations []corev1.Toleration
}

// NewPlacement returns the placement for the node selector, the required node affinity and the tolerations of a Pod
// spec. addEnv is the environment whose toleration the controller adds to Pods that tolerate no environment; empty if
// the controller adds no toleration.
func NewPlacement(spec corev1.PodSpec, addEnv string) Placement {
	p := Placement{
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}),
		nodeName:    spec.NodeName,
		tolerations: spec.Tolerations,
	}
	if addEnv != "" && !Tolerates(spec.Tolerations, labels.TaintEnv) {
		p.tolerations = append(slices.Clip(p.tolerations), EnvToleration(addEnv))
	}
	return p
}

// Fits reports whether the Pods can run on a Node. It ignores the taints that Kubernetes sets for the current state
// of a Node (node.kubernetes.io/...). If the node affinity cannot be parsed, the Pods fit no Node.
func (p Placement) Fits(node *corev1.Node) bool {
	if p.nodeName != "" && p.nodeName != node.Name {
		return false
	}
	if match, err := p.affinity.Match(node); err != nil || !match {
		return false
	}
	_, untolerated := p.Untolerated(node)
	return !untolerated
}

// Untolerated returns a taint of a Node that the Pods do not tolerate. found is false if the Pods tolerate all taints
// of the Node. It ignores the same taints as Fits.
func (p Placement) Untolerated(node *corev1.Node) (taint corev1.Taint, found bool) {
	return scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, p.tolerations, isRelevant,
		false)
}

// Cordoned reports whether a Node is cordoned and the Pods do not tolerate the taint that cordoned Nodes have.
func (p Placement) Cordoned(node *corev1.Node) bool {
	return node.Spec.Unschedulable && !p.toleratesNoSchedule(corev1.TaintNodeUnschedulable)
}

// UnderMemoryPressure reports whether a Node has the taint for memory pressure and the Pods do not tolerate it.
// Kubernetes adds the toleration to Pods that request resources.
func (p Placement) UnderMemoryPressure(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeMemoryPressure
	}) && !p.toleratesNoSchedule(corev1.TaintNodeMemoryPressure)
}

func (p Placement) toleratesNoSchedule(key string) bool {
	taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
	return scheduling.TolerationsTolerateTaint(klog.Background(), p.tolerations, &taint, false)
}

// Tolerates reports whether one of the tolerations has the key of a taint, with any value, or tolerates all taints.
func Tolerates(tolerations []corev1.Toleration, taint string) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		return t.Key == taint || t.Key == "" && t.Operator == corev1.TolerationOpExists
	})
}

// EnvToleration returns the toleration for the taint of an environment.
func EnvToleration(env string) corev1.Toleration {
	return corev1.Toleration{
		Key: labels.TaintEnv, Operator: corev1.TolerationOpEqual, Value: env, Effect: corev1.TaintEffectNoExecute,
	}
}

// isRelevant reports whether a taint can prevent a Pod from running on a Node regardless of the current state of the
// Node.
func isRelevant(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(taint.Key, "node.kubernetes.io/")
}
