package controller

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

func TestLacksEnv(t *testing.T) {
	tolerate := func(key string) func(*appsv1.DaemonSet) {
		return func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Tolerations = append(d.Spec.Template.Spec.Tolerations,
				corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
	}
	for name, tt := range map[string]struct {
		change func(*appsv1.DaemonSet)
		want   bool
	}{
		"no environment":          {func(*appsv1.DaemonSet) {}, true},
		"this environment":        {tolerate("schedule.koupleless.io/node-env"), false},
		"tolerates all taints":    {tolerate(""), false},
		"no modules":              {func(d *appsv1.DaemonSet) { d.Spec.Template.Labels = nil }, false},
		"does not tolerate bases": {func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Tolerations = nil }, false},
		"label of another environment": {func(d *appsv1.DaemonSet) {
			d.Labels["virtual-kubelet.koupleless.io/env"] = "test"
		},
			false},
		"label of this environment": {func(d *appsv1.DaemonSet) {
			d.Labels["virtual-kubelet.koupleless.io/env"] = "dev"
		},
			true},
	} {
		d := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d", Labels: map[string]string{}}}
		d.Spec.Template.Labels = map[string]string{"virtual-kubelet.koupleless.io/component": "module"}
		d.Spec.Template.Spec.Tolerations = []corev1.Toleration{
			{Key: "schedule.koupleless.io/virtual-node", Operator: corev1.TolerationOpExists}}
		tt.change(d)
		if got := lacksEnv(d, "dev"); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// TestWarnAboutDeployments checks that a Deployment that lacks the strategy label gets one Event, and another one only
// after a change of its specification or labels.
func TestWarnAboutDeployments(t *testing.T) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	events := record.NewFakeRecorder(10)
	if err := warnAboutDeployments(factory.Apps().V1().Deployments(), "dev", events); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	deployments := client.AppsV1().Deployments("default")
	write := func(generation int64, labels map[string]string) {
		t.Helper()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d", Generation: generation,
			Labels: labels}}
		_, err := deployments.Create(t.Context(), d, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const prefix = "module-controller.koupleless.io/" // as in the documentation
	peer := map[string]string{prefix + "component": "module-deployment"}
	with := func(label, value string) map[string]string {
		labels := maps.Clone(peer)
		labels[prefix+label] = value
		return labels
	}
	write(1, peer)
	write(1, with("strategy", "peer"))
	write(2, with("env", "prod"))
	write(3, with("replicas-control", "true"))
	write(4, nil)
	write(4, peer)
	write(4, maps.Clone(peer)) // no change
	write(5, peer)
	for range 3 {
		if e := <-events.Events; !strings.Contains(e, "NoPeerStrategy") {
			t.Errorf("Event %q", e)
		}
	}
	synced := make(chan struct{})
	if _, err := factory.Apps().V1().Deployments().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(any) { close(synced) }}); err != nil {
		t.Fatal(err)
	}
	if err := deployments.Delete(t.Context(), "d", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-synced
	if n := len(events.Events); n > 0 {
		t.Errorf("%d further Events, such as %q", n, <-events.Events)
	}
}
