package controller

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
