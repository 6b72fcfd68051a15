package events

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestModuleVersion checks that events contain the same module version that the module controller uses.
func TestModuleVersion(t *testing.T) {
	const name = "BIZ_VERSION"
	plain := func(value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	field := func(path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	for what, tc := range map[string]struct {
		env  []corev1.EnvVar
		want string
	}{
		"a value": {[]corev1.EnvVar{{Name: "OTHER", Value: "9"}, plain("1.0.0")}, "1.0.0"},
		"a reference": {[]corev1.EnvVar{{Name: "R", Value: "1.0.0"}, plain("$(R)-SNAPSHOT")},
			"1.0.0-SNAPSHOT"},
		"an annotation": {[]corev1.EnvVar{field("metadata.annotations['koupleless.io/version']")},
			"2.0.0"},
		"a label":                       {[]corev1.EnvVar{field("metadata.labels['version']")}, "3.0.0"},
		"an annotation that is not":     {[]corev1.EnvVar{field("metadata.annotations['missing']")}, ""},
		"a label that is an annotation": {[]corev1.EnvVar{field("metadata.labels['koupleless.io/version']")}, ""},
		"another field":                 {[]corev1.EnvVar{field("metadata.name")}, ""},
		"another field, then a value":   {[]corev1.EnvVar{field("metadata.name"), plain("5")}, "5"},
		"two values":                    {[]corev1.EnvVar{plain("1"), plain("2")}, "2"},
		"another source": {
			[]corev1.EnvVar{{Name: name,
				ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}}}, ""},
		"none": {nil, ""},
	} {
		t.Run(what, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"koupleless.io/version": "2.0.0"},
					Labels: map[string]string{"version": "3.0.0"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "biz", Env: tc.env}}},
			}
			if diff := cmp.Diff([]ModuleRef{{Name: "biz", Version: tc.want}}, PodStateOf(pod).Modules); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
