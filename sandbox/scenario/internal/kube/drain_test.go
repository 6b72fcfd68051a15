package kube

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// TestEvict checks that Evict ignores Pods of DaemonSets and Pods that have ended, and retries evictions that a
// PodDisruptionBudget prevents.
func TestEvict(t *testing.T) {
	pod := func(name, owner string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)},
			Status: corev1.PodStatus{Phase: phase}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "x", Controller: ptr.To(true)}}
		}
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		api := typedfake.NewClientset(pod("bare", "", corev1.PodRunning), pod("owned", "ReplicaSet", corev1.PodPending),
			pod("daemon", "DaemonSet", corev1.PodRunning), pod("done", "", corev1.PodSucceeded),
			pod("failed", "Job", corev1.PodFailed))
		var asked []string
		refusals := 2
		api.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			e := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
			if a.GetSubresource() != "eviction" || *e.DeleteOptions.Preconditions.UID != types.UID(e.Name) {
				t.Errorf("%s of %+v", a.GetSubresource(), e)
			}
			asked = append(asked, e.Name)
			if e.Name == "bare" && refusals > 0 {
				refusals--
				return true, nil, apierrors.NewTooManyRequests("the budget is spent", 0)
			}
			return true, nil, nil
		})
		c := &Client{Typed: api}
		leaving, err := c.Evict(t.Context(), "node")
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"bare", "bare", "bare", "owned"}; !slices.Equal(asked, want) {
			t.Errorf("evicted %q, want %q", asked, want)
		}
		if len(leaving) != 2 || leaving[0].Name != "bare" || leaving[1].Name != "owned" {
			t.Errorf("unexpected Pods: %v", leaving)
		}

		refusals = 1 << 30
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Evict(ctx, "node"); !apierrors.IsTooManyRequests(err) {
			t.Errorf("eviction that is rejected for a minute: %v", err)
		}
	})
}
