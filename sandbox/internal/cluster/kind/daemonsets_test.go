package kind

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestKeepOff(t *testing.T) {
	everything := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	off := corev1.NodeSelectorRequirement{Key: vnodeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{vnodeValue}}
	linux := corev1.NodeSelectorRequirement{Key: "kubernetes.io/os", Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}
	terms := func(list ...[]corev1.NodeSelectorRequirement) *corev1.Affinity {
		s := &corev1.NodeSelector{}
		for _, l := range list {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: l})
		}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
	}
	type requirements = []corev1.NodeSelectorRequirement
	for name, tc := range map[string]struct {
		tolerations  []corev1.Toleration
		before, want *corev1.Affinity
		updates      int
	}{
		"tolerates everything":           {everything, nil, terms(requirements{off}), 1},
		"has an affinity of its own":     {everything, terms(requirements{linux}), terms(requirements{linux, off}), 1},
		"has two, either of which holds": {everything, terms(requirements{linux}, requirements{}), terms(requirements{linux, off}, requirements{off}), 1},
		"stays off already":              {everything, terms(requirements{off}), terms(requirements{off}), 0},
		"tolerates one taint only":       {[]corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "n"}}
			d.Spec.Template.Spec.Tolerations, d.Spec.Template.Spec.Affinity = tc.tolerations, tc.before
			client := fake.NewClientset(d)
			if err := keepOff(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			got, err := client.AppsV1().DaemonSets("n").Get(t.Context(), "d", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Spec.Template.Spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			updates := 0
			for _, a := range client.Actions() {
				if a.GetVerb() == "update" {
					updates++
				}
			}
			if updates != tc.updates {
				t.Errorf("%d updates, want %d", updates, tc.updates)
			}
		})
	}
}
