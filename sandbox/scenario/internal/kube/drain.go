package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Cordon marks a Node as unschedulable if on is true, and as schedulable otherwise.
func (c *Client) Cordon(ctx context.Context, node string, on bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on)
	if _, err := c.Typed.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: FieldManager}); err != nil {
		return fmt.Errorf("cordoning Node %s: %w", node, err)
	}
	return nil
}

// Evict evicts the Pods of a Node, except Pods of DaemonSets and Pods that have ended, and returns the evicted Pods.
// While a PodDisruptionBudget prevents an eviction, Evict blocks and retries every 500 ms, until ctx ends.
func (c *Client) Evict(ctx context.Context, node string) (leaving []corev1.Pod, err error) {
	pods, err := c.Typed.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of Node %s: %w", node, err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "DaemonSet" ||
			p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if err := c.evict(ctx, p); err != nil {
			return nil, fmt.Errorf("evicting Pod %s from Node %s: %w", p.Name, node, err)
		}
		leaving = append(leaving, *p)
	}
	return leaving, nil
}

func (c *Client) evict(ctx context.Context, p *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))},
	}
	var refused error
	err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := c.Typed.PolicyV1().Evictions(p.Namespace).Evict(ctx, eviction)
		switch {
		// evicted, deleted, or replaced by another Pod
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return true, nil
		case apierrors.IsTooManyRequests(err):
			refused = err
			return false, nil
		}
		return false, err
	})
	if ctx.Err() != nil && refused != nil {
		return refused
	}
	return err
}
