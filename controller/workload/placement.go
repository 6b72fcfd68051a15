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

// Placement is where the Pods of a template may run, parsed once and asked for many Nodes. It may
// be used concurrently.
type Placement struct {
	affinity    nodeaffinity.RequiredNodeAffinity
	nodeName    string
	tolerations []corev1.Toleration
}

// NewPlacement reads the node selector, the required node affinity and the tolerations of a Pod
// spec.
//
// addEnv is the environment whose toleration the controller adds to a Pod that names no
// environment, as the examples of the operations guide (5.1, 5.2) do; empty if the controller adds
// none.
func NewPlacement(spec corev1.PodSpec, addEnv string) Placement {
	p := Placement{
		affinity:    nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}),
		nodeName:    spec.NodeName,
		tolerations: spec.Tolerations,
	}
	if addEnv != "" && !slices.ContainsFunc(spec.Tolerations, namesEnv) {
		p.tolerations = append(slices.Clip(p.tolerations), corev1.Toleration{
			Key: labels.TaintEnv, Operator: corev1.TolerationOpEqual, Value: addEnv, Effect: corev1.TaintEffectNoExecute,
		})
	}
	return p
}

// Fits reports whether the Pods may run on a Node. Taints that Kubernetes itself sets for the
// Node's state of the moment (node.kubernetes.io/...) do not count: whether a base is Ready is a
// question of its own, and so is whether it is cordoned. An affinity that cannot be parsed fits
// nothing, as for the scheduler.
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

// Untolerated returns a taint of a Node that keeps the Pods away, and whether there is one. It ignores the taints that Fits
// ignores.
func (p Placement) Untolerated(node *corev1.Node) (corev1.Taint, bool) {
	return scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, p.tolerations, keepsAway, false)
}

// Cordoned reports whether somebody keeps new Pods off a Node (kubectl cordon), and these too. Pods
// that are there stay.
func (p Placement) Cordoned(node *corev1.Node) bool {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return node.Spec.Unschedulable && !scheduling.TolerationsTolerateTaint(klog.Background(), p.tolerations, &cordon, false)
}

func namesEnv(t corev1.Toleration) bool { return t.Key == labels.TaintEnv }

func keepsAway(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(taint.Key, "node.kubernetes.io/")
}
