package kind

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

const (
	// vnodeLabel is the label that the Nodes of bases bear, with the value vnodeValue.
	vnodeLabel = "virtual-kubelet.koupleless.io/component"
	vnodeValue = "vnode"
)

// keepOff makes every DaemonSet that would follow the bases' Nodes, because it tolerates their taint, stay off them: no kubelet is
// there to run its Pods, which would be Pending for ever.
func keepOff(ctx context.Context, client kubernetes.Interface) error {
	list, err := client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the DaemonSets of the system: %w", err)
	}
	for _, d := range list.Items {
		api := client.AppsV1().DaemonSets(d.Namespace)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			current, err := api.Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil || !restrict(current) {
				return err
			}
			_, err = api.Update(ctx, current, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("keeping DaemonSet %s/%s off the Nodes of bases: %w", d.Namespace, d.Name, err)
		}
	}
	return nil
}

// restrict tells whether it has changed d.
func restrict(d *appsv1.DaemonSet) bool {
	spec := &d.Spec.Template.Spec
	if !toleratesAll(spec.Tolerations) {
		return false
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	changed := false
	for i := range (*required).NodeSelectorTerms { // one of them must hold, so each says it
		term := &(*required).NodeSelectorTerms[i]
		if excludes(term.MatchExpressions) {
			continue
		}
		term.MatchExpressions = append(term.MatchExpressions,
			corev1.NodeSelectorRequirement{Key: vnodeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{vnodeValue}})
		changed = true
	}
	return changed
}

func toleratesAll(tolerations []corev1.Toleration) bool {
	for _, t := range tolerations {
		if t.Key == "" && t.Operator == corev1.TolerationOpExists {
			return true
		}
	}
	return false
}

func excludes(requirements []corev1.NodeSelectorRequirement) bool {
	for _, r := range requirements {
		if r.Key == vnodeLabel && (r.Operator == corev1.NodeSelectorOpNotIn || r.Operator == corev1.NodeSelectorOpDoesNotExist) {
			return true
		}
	}
	return false
}
