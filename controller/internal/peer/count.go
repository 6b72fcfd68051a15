package peer

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// recheckCordoned is the delay before the bases are counted again if the count includes a cordoned base because of
// its Pod. The delay is needed because the deletion of a Pod does not trigger a new count.
const recheckCordoned = 10 * time.Second

// bases counts the bases that match the Pods of a Deployment.
type bases struct {
	placement workload.Placement
	nodes     []*corev1.Node
	// runs reports whether a Node has a Pod that was created from the current template of the Deployment.
	runs func(node *corev1.Node) bool
}

// replicas returns the number of replicas that a Deployment should have, and the delay before replicas must be called
// again if nothing changes; 0 means that another call is not necessary. current is the current number of replicas.
//
// The result is the number of Ready bases that fit the placement. Bases that have been Not Ready for less than the
// grace period, and cordoned bases with a Pod of the current template, prevent a reduction of the replicas.
func (b bases) replicas(current int32, now time.Time, grace time.Duration) (want int32, recheckAfter time.Duration) {
	var ready, retained int32
	later := func(d time.Duration) {
		retained++
		if recheckAfter == 0 || d < recheckAfter {
			recheckAfter = d
		}
	}
	for _, node := range b.nodes {
		if !workload.IsBase(node) || node.DeletionTimestamp != nil || !b.placement.Fits(node) {
			continue
		}
		cordoned := b.placement.Cordoned(node)
		if cordoned && !b.runs(node) {
			continue
		}
		switch left := grace - now.Sub(notReadySince(node)); {
		case isReady(node) && cordoned:
			later(recheckCordoned)
		case isReady(node):
			ready++
		case left > 0:
			later(left)
		}
	}
	want = max(ready, min(current, ready+retained))
	if want == ready {
		recheckAfter = 0
	}
	return want, recheckAfter
}

// isCurrentPodOf reports whether a Pod belongs to a Deployment and was created from its current template.
func isCurrentPodOf(pod *corev1.Pod, d *appsv1.Deployment) bool {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil || pod.Namespace != d.Namespace || pod.DeletionTimestamp != nil ||
		!selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	template := d.Spec.Template
	return contains(pod.Labels, template.Labels) && contains(pod.Annotations, template.Annotations) &&
		sameModules(pod.Spec, template.Spec)
}

// sameModules reports whether a Pod has exactly the modules of a template, with the same images and environment
// variables. It ignores sidecars and variables that admission has added to the Pod.
func sameModules(pod, template corev1.PodSpec) bool {
	have, _ := workload.Modules(pod)
	want, _ := workload.Modules(template)
	return slices.EqualFunc(have, want, func(a, b corev1.Container) bool {
		return a.Name == b.Name && a.Image == b.Image && !slices.ContainsFunc(b.Env, func(variable corev1.EnvVar) bool {
			return !slices.ContainsFunc(a.Env,
				func(v corev1.EnvVar) bool { return equality.Semantic.DeepEqual(v, variable) })
		})
	})
}

// contains reports whether the map actual contains all entries of the map required.
func contains(actual, required map[string]string) bool {
	return labels.SelectorFromSet(required).Matches(labels.Set(actual))
}

func isReady(node *corev1.Node) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// notReadySince returns the time when a Node became Not Ready. If the Node has no Ready condition, or the condition
// has no transition time, it returns the creation time.
func notReadySince(node *corev1.Node) time.Time {
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return node.CreationTimestamp.Time
}
