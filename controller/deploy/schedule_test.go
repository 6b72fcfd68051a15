package deploy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// schedulingProblem returns the reason why the scheduler would not place a Pod on a Node. The reason is empty if the
// scheduler would place the Pod.
func schedulingProblem(spec corev1.PodSpec, node *corev1.Node) string {
	match, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}).Match(node)
	if err != nil || !match {
		return fmt.Sprintf("node affinity does not match labels %v (%v)", node.Labels, err)
	}
	taint, found := scheduling.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, spec.Tolerations, nil,
		false)
	if found {
		return "taint " + taint.ToString() + " is not tolerated"
	}
	return ""
}
