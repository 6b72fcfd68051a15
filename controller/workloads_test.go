package controller

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
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
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		factory := informers.NewSharedInformerFactory(client, 0)
		events := record.NewFakeRecorder(10)
		if err := warnAboutDeployments(factory.Apps().V1().Deployments(), "dev", events); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer factory.Shutdown()
		defer stop()
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		const prefix = "module-controller.koupleless.io/" // as in the documentation
		with := func(label, value string) map[string]string {
			return map[string]string{prefix + "component": "module-deployment", prefix + label: value}
		}
		lacking := with("component", "module-deployment")
		for i, step := range []struct {
			generation int64
			labels     map[string]string
			event      bool
		}{
			{1, lacking, true}, {1, lacking, false}, {2, lacking, true},
			{2, with("strategy", "peer"), false}, {2, with("env", "prod"), false},
			{2, with("replicas-control", "true"), false}, {2, nil, false}, {2, lacking, true},
		} {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d",
				Generation: step.generation, Labels: step.labels}}
			write := func() (err error) {
				if i == 0 {
					_, err = client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{})
					return err
				}
				_, err = client.AppsV1().Deployments("default").Update(ctx, d, metav1.UpdateOptions{})
				return err
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			event := ""
			select {
			case event = <-events.Events:
			default:
			}
			if strings.Contains(event, "NoPeerStrategy") != step.event {
				t.Errorf("step %d: Event %q, want one: %t", i, event, step.event)
			}
		}
	})
}
