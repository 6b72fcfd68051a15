package vpod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Pods of one workload share their containers in the cache; what differs stays each Pod's own.
func TestPodsShareWhatIsTheSame(t *testing.T) {
	pod := func(name, version string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "m", Image: "m.jar", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: version}}, VolumeMounts: []corev1.VolumeMount{{Name: "token"}}}},
			Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
		}}
		p.Name = name
		return p
	}
	transform := slim()
	var seen []*corev1.Pod
	for _, p := range []*corev1.Pod{pod("a", "1"), pod("b", "1"), pod("c", "2"), pod("d", "2")} {
		object, err := transform(p)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, object.(*corev1.Pod))
	}
	for i, want := range []*corev1.Pod{pod("a", "1"), pod("b", "1"), pod("c", "2"), pod("d", "2")} {
		want.Spec.Containers[0].VolumeMounts = nil
		if diff := cmp.Diff(want, seen[i]); diff != "" {
			t.Errorf("Pod %s (-want +got):\n%s", want.Name, diff)
		}
	}
	same := func(i, j int) (containers, tolerations bool) {
		return &seen[i].Spec.Containers[0] == &seen[j].Spec.Containers[0], &seen[i].Spec.Tolerations[0] == &seen[j].Spec.Tolerations[0]
	}
	for _, tc := range []struct {
		i, j       int
		containers bool
	}{{0, 1, true}, {1, 2, false}, {2, 3, true}} {
		if containers, tolerations := same(tc.i, tc.j); containers != tc.containers || !tolerations {
			t.Errorf("Pods %s and %s share their containers: %t, their tolerations: %t", seen[tc.i].Name, seen[tc.j].Name, containers, tolerations)
		}
	}
}
