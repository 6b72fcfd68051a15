package peer

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/workload"
)

// replicas returns how many replicas a Deployment should have that has some now, and when to ask
// again without waiting for a change; 0 means not at all.
//
// It is the number of Ready bases that the placement fits. Bases that stopped being Ready less than
// grace ago keep it from shrinking, but never make it grow.
func replicas(have int32, placement workload.Placement, nodes []*corev1.Node, now time.Time, grace time.Duration) (want int32, again time.Duration) {
	var ready, recent int32
	for _, node := range nodes {
		if !workload.IsBase(node) || node.DeletionTimestamp != nil || !placement.Fits(node) {
			continue
		}
		if isReady(node) {
			ready++
			continue
		}
		if left := grace - now.Sub(notReadySince(node)); left > 0 {
			recent++
			if again == 0 || left < again {
				again = left
			}
		}
	}
	want = max(ready, min(have, ready+recent))
	if want == ready {
		again = 0
	}
	return want, again
}

func isReady(node *corev1.Node) bool { return readiness(node).Status == corev1.ConditionTrue }

// notReadySince returns when a Node that is not Ready stopped being so. A Node that has never said
// anything of it counts from its creation.
func notReadySince(node *corev1.Node) time.Time {
	if since := readiness(node).LastTransitionTime; !since.IsZero() {
		return since.Time
	}
	return node.CreationTimestamp.Time
}

func readiness(node *corev1.Node) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}
	return corev1.NodeCondition{}
}
