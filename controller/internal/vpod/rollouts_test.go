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

// member makes a Pod of a Deployment: version 1 and 2 have a ReplicaSet each. An empty node leaves
// it to the scheduler.
func (w *world) member(name, deployment, version, node string, conditions ...corev1.PodCondition) {
	w.t.Helper()
	w.serial++
	_, err := w.api.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: metav1.Now().Rfc3339Copy(),
			Labels: map[string]string{spellings[w.serial%2]: labels.Module,
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

// bind puts a Pod on the base's Node, as the scheduler does.
func (w *world) bind(name string) {
	w.t.Helper()
	pod := w.pod(name)
	pod.Spec.NodeName = "vnode.a"
	w.update(pod)
}

// A Deployment that may make Pods unavailable deletes an old one before its base has the new one.
func TestModuleStaysUntilItsSuccessorServes(t *testing.T) {
	const (
		drained = api.Drain + 2*time.Second // and a look more
		grace   = 30 * time.Second          // of the Pods
	)
	only := func(id string) map[string]string { return map[string]string{id: "activated"} }
	stuck := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable}

	for _, c := range []struct {
		name   string
		others func(w *world)
		stays  bool
	}{
		{"nobody comes", func(*world) {}, false},
		{"one waits for a Node", func(w *world) { w.member("new", "shop", "2", "") }, true},
		{"one waits for this Pod to go", func(w *world) { w.member("new", "shop", "2", "", stuck) }, false},
		{"the update has come a part of the way", func(w *world) {
			w.member("new", "shop", "2", "vnode.b")
			w.member("rest", "shop", "1", "vnode.c")
		}, true},
		{"the update is through", func(w *world) { w.member("new", "shop", "2", "vnode.b") }, false},
		{"the Deployment has shrunk", func(w *world) { w.member("rest", "shop", "1", "vnode.c") }, false},
		{"another Deployment has the other version", func(w *world) {
			w.member("new", "canary", "2", "vnode.b")
			w.member("rest", "shop", "1", "vnode.c")
		}, false},
	} {
		in(t, c.name, Options{}, func(t *testing.T, w *world) {
			w.member("old", "shop", "1", "vnode.a")
			w.pass(time.Second)
			w.wantShow("old", "Running Ready")
			c.others(w)
			w.pass(time.Second)
			w.delete("old")
			w.pass(drained)
			if c.stays {
				wantDiff(t, "modules", only("biz1:1"), w.base.states())
				w.pass(grace - drained - plan.LastMoment/2)
			}
			w.wantShow("old", "gone")
			wantDiff(t, "modules in the end", map[string]string{}, w.base.states())
		})
	}
	in(t, "the new version comes", Options{}, func(t *testing.T, w *world) {
		w.member("old", "shop", "1", "vnode.a")
		w.pass(time.Second)
		w.member("new", "shop", "2", "")
		w.delete("old")
		w.pass(10 * time.Second)
		w.base.with(func(b *fakeBase) { b.delay = 5 * time.Second })
		w.bind("new")
		w.pass(4 * time.Second)
		wantDiff(t, "modules while it is installed", only("biz1:1"), w.base.states())
		w.pass(20 * time.Second)
		w.wantShow("new", "Running Ready")
		w.wantShow("old", "gone")
		wantDiff(t, "modules", only("biz1:2"), w.base.states())
	})
	in(t, "the rest of the update goes elsewhere", Options{}, func(t *testing.T, w *world) {
		w.member("old", "shop", "1", "vnode.a")
		w.member("rest", "shop", "1", "vnode.c")
		w.member("new", "shop", "2", "vnode.b")
		w.pass(time.Second)
		w.delete("old")
		w.pass(10 * time.Second)
		wantDiff(t, "modules while it goes on", only("biz1:1"), w.base.states())
		w.delete("rest")
		w.pass(drained)
		w.wantShow("old", "gone")
	})
	in(t, "the new version fails", Options{MaxAttempts: 2}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) {
			b.fail = func(m arklet.Module) *arklet.Answer {
				if m.Version == "2" {
					return &arklet.Answer{Code: "FAILED", Message: "boom"}
				}
				return nil
			}
		})
		w.member("old", "shop", "1", "vnode.a")
		w.pass(time.Second)
		w.member("new", "shop", "2", "vnode.a")
		w.pass(time.Second)
		w.delete("old")
		w.pass(20 * time.Second)
		wantDiff(t, "modules", only("biz1:1"), w.base.states())
		w.pass(grace - 20*time.Second - plan.LastMoment/2)
		w.wantShow("old", "gone")
	})
}
