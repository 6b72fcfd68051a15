package vpod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// createDeploymentPod creates a Pod of a Deployment. Each version has its own ReplicaSet. An empty node leaves the
// Pod unscheduled.
func (w *fixture) createDeploymentPod(name, deployment, version, node string, conditions ...corev1.PodCondition) {
	w.t.Helper()
	w.serial++
	_, err := w.api.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: metav1.Now().Rfc3339Copy(),
			Labels: map[string]string{componentLabels[w.serial%2]: labels.Module,
				appsv1.DefaultDeploymentUniqueLabelKey: "hash" + version},
			OwnerReferences: []metav1.OwnerReference{
				{Kind: "ReplicaSet", Name: deployment + "-hash" + version, Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{container("biz1", version)}},
		Status: corev1.PodStatus{Conditions: conditions},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// bind binds a Pod to the Node of the base, as the scheduler does.
func (w *fixture) bind(name string) {
	w.t.Helper()
	pod := w.pod(name)
	pod.Spec.NodeName = "vnode.a"
	w.update(pod)
}

// TestModuleStaysUntilSuccessorIsReady checks that an old module stays installed until the new Pod on its base is
// Ready. With maxUnavailable, a Deployment deletes old Pods before their bases have new Pods.
func TestModuleStaysUntilSuccessorIsReady(t *testing.T) {
	const (
		drained = api.Drain + 2*time.Second // includes the uninstall
		grace   = 30 * time.Second          // the grace period of the Pods
	)
	only := func(id string) map[string]string { return map[string]string{id: "activated"} }
	stuck := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable}

	for _, c := range []struct {
		name   string
		others func(w *fixture)
		stays  bool
	}{
		{"no other Pod", func(*fixture) {}, false},
		{"new Pod waits for a Node", func(w *fixture) { w.createDeploymentPod("new", "shop", "2", "") }, true},
		{"new Pod is unschedulable", func(w *fixture) { w.createDeploymentPod("new", "shop", "2", "", stuck) }, false},
		{"update in progress", func(w *fixture) {
			w.createDeploymentPod("new", "shop", "2", "vnode.b")
			w.createDeploymentPod("rest", "shop", "1", "vnode.c")
		}, true},
		{"update complete", func(w *fixture) { w.createDeploymentPod("new", "shop", "2", "vnode.b") }, false},
		{"Deployment scaled down", func(w *fixture) { w.createDeploymentPod("rest", "shop", "1", "vnode.c") }, false},
		{"other version belongs to another Deployment", func(w *fixture) {
			w.createDeploymentPod("new", "canary", "2", "vnode.b")
			w.createDeploymentPod("rest", "shop", "1", "vnode.c")
		}, false},
	} {
		runTest(t, c.name, Options{}, func(t *testing.T, w *fixture) {
			w.createDeploymentPod("old", "shop", "1", "vnode.a")
			w.advance(time.Second)
			w.wantSummary("old", "Running Ready")
			c.others(w)
			w.advance(time.Second)
			w.delete("old")
			w.advance(drained)
			if c.stays {
				wantEqual(t, "modules", only("biz1:1"), w.base.states())
				w.advance(grace - drained - plan.UninstallReserve/2)
			}
			w.wantSummary("old", "gone")
			wantEqual(t, "modules after the deletion", map[string]string{}, w.base.states())
		})
	}
	runTest(t, "new version is installed", Options{}, func(t *testing.T, w *fixture) {
		w.createDeploymentPod("old", "shop", "1", "vnode.a")
		w.advance(time.Second)
		w.createDeploymentPod("new", "shop", "2", "")
		w.delete("old")
		w.advance(10 * time.Second)
		w.base.change(func(b *fakeBase) { b.delay = 5 * time.Second })
		w.bind("new")
		w.advance(4 * time.Second)
		wantEqual(t, "modules during the install", only("biz1:1"), w.base.states())
		w.advance(20 * time.Second)
		w.wantSummary("new", "Running Ready")
		w.wantSummary("old", "gone")
		wantEqual(t, "modules", only("biz1:2"), w.base.states())
	})
	runTest(t, "update completes on other bases", Options{}, func(t *testing.T, w *fixture) {
		w.createDeploymentPod("old", "shop", "1", "vnode.a")
		w.createDeploymentPod("rest", "shop", "1", "vnode.c")
		w.createDeploymentPod("new", "shop", "2", "vnode.b")
		w.advance(time.Second)
		w.delete("old")
		w.advance(10 * time.Second)
		wantEqual(t, "modules during the update", only("biz1:1"), w.base.states())
		w.delete("rest")
		w.advance(drained)
		w.wantSummary("old", "gone")
	})
	runTest(t, "new version fails", Options{MaxAttempts: 2}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) {
			b.installAnswer = func(m arklet.Module) *arklet.Answer {
				if m.Version == "2" {
					return &arklet.Answer{Code: "FAILED", Message: "boom"}
				}
				return nil
			}
		})
		w.createDeploymentPod("old", "shop", "1", "vnode.a")
		w.advance(time.Second)
		w.createDeploymentPod("new", "shop", "2", "vnode.a")
		w.advance(time.Second)
		w.delete("old")
		w.advance(20 * time.Second)
		wantEqual(t, "modules", only("biz1:1"), w.base.states())
		w.advance(grace - 20*time.Second - plan.UninstallReserve/2)
		w.wantSummary("old", "gone")
	})
}
