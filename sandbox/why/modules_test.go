package why

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

func TestModulesExcludesSidecars(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "agent", Image: "agent:1"},
		{Name: "biz1", Image: "https://h/biz1.jar", Env: []corev1.EnvVar{{Name: labels.VersionEnv, Value: "1"}}},
	}}}
	if got := modules(p); got != "biz1" {
		t.Errorf("modules = %q, want biz1", got)
	}
}
