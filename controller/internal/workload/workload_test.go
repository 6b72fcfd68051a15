package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

func TestLabels(t *testing.T) {
	const newer, older = "virtual-kubelet.koupleless.io/", "module-controller.koupleless.io/"
	type verdict struct{ Module, Peer, KeepsReplicas bool }
	tests := []struct {
		name   string
		labels map[string]string
		want   verdict
	}{
		{"none", nil, verdict{}},
		{"module", map[string]string{newer + "component": "module"}, verdict{Module: true}},
		{"module, older prefix", map[string]string{older + "component": "module"}, verdict{Module: true}},
		{"Deployment that is no peer", map[string]string{newer + "component": "module-deployment"}, verdict{}},
		{"strategy alone", map[string]string{newer + "strategy": "peer"}, verdict{}},
		{"peer", map[string]string{newer + "component": "module-deployment", newer + "strategy": "peer"}, verdict{Peer: true}},
		{"peer, mixed prefixes", map[string]string{older + "component": "module-deployment", newer + "strategy": "peer"}, verdict{Peer: true}},
		{"peer, older prefix", map[string]string{older + "component": "module-deployment", older + "strategy": "peer"}, verdict{Peer: true}},
		{"peer of this environment", map[string]string{newer + "component": "module-deployment", newer + "strategy": "peer", newer + "env": "dev"}, verdict{Peer: true}},
		{"peer of another environment", map[string]string{newer + "component": "module-deployment", newer + "strategy": "peer", newer + "env": "test"}, verdict{}},
		{"another strategy", map[string]string{newer + "component": "module-deployment", newer + "strategy": "scale"}, verdict{}},
		{"keeps its replicas", map[string]string{older + "component": "module-deployment", older + "strategy": "peer", older + "replicas-control": "true"}, verdict{Peer: true, KeepsReplicas: true}},
		{"does not keep them", map[string]string{older + "component": "module-deployment", older + "strategy": "peer", older + "replicas-control": "false"}, verdict{Peer: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: tt.labels}}
			got := verdict{IsModule(tt.labels), IsPeer(d, "dev"), KeepsReplicas(d)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOf(t *testing.T) {
	meta := metav1.ObjectMeta{Annotations: map[string]string{"v": " 2 "}, Labels: map[string]string{"v": "3"}}
	fromField := func(path string) corev1.Container {
		return corev1.Container{Name: "biz1", Env: []corev1.EnvVar{{
			Name: "BIZ_VERSION", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}},
		}}}
	}
	tests := []struct {
		name      string
		container corev1.Container
		want      arklet.Module
	}{
		{"whole", corev1.Container{Name: "biz1", Image: "file:///m/biz1.jar", Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "BIZ_VERSION", Value: "1.0.0"}}}, arklet.Module{Name: "biz1", Version: "1.0.0", URL: "file:///m/biz1.jar"}},
		{"without a version", corev1.Container{Name: "biz1", Image: "file:///m/biz1.jar"}, arklet.Module{Name: "biz1", URL: "file:///m/biz1.jar"}},
		{"version in an annotation", fromField("metadata.annotations['v']"), arklet.Module{Name: "biz1", Version: "2"}},
		{"version in a label", fromField("metadata.labels['v']"), arklet.Module{Name: "biz1", Version: "3"}},
		{"version in another field", fromField("metadata.name"), arklet.Module{Name: "biz1"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Of(&meta, tt.container)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// sample returns the Deployment and the Node of the corrected samples.
func sample(t *testing.T, name string, into any) {
	t.Helper()
	text, err := deploy.Samples.ReadFile("samples/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := deploy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, into); err != nil {
		t.Fatal(err)
	}
}

func TestPlacement(t *testing.T) {
	expression := func(s *corev1.PodSpec) *corev1.NodeSelectorRequirement {
		return &s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[1]
	}
	withoutEnv := func(s *corev1.PodSpec) { s.Tolerations = s.Tolerations[:1] }
	tests := []struct {
		name   string
		addEnv string
		spec   func(*corev1.PodSpec)
		node   func(*corev1.Node)
		want   bool
	}{
		{"as it stands", "", nil, nil, true},
		{"another base version", "", nil, func(n *corev1.Node) { n.Labels["base.koupleless.io/version"] = "2.0.0" }, false},
		{"NotIn", "", func(s *corev1.PodSpec) { expression(s).Operator = corev1.NodeSelectorOpNotIn }, nil, false},
		{"Exists", "", func(s *corev1.PodSpec) {
			*expression(s) = corev1.NodeSelectorRequirement{Key: "base.koupleless.io/version", Operator: corev1.NodeSelectorOpExists}
		}, nil, true},
		{"node selector that fits", "", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"base.koupleless.io/name": "base"} }, nil, true},
		{"node selector that does not", "", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"base.koupleless.io/name": "other"} }, nil, false},
		{"affinity that cannot be parsed", "", func(s *corev1.PodSpec) { expression(s).Operator = "Like" }, nil, false},
		{"no affinity at all", "", func(s *corev1.PodSpec) { s.Affinity = nil }, nil, true},
		{"no toleration", "dev", func(s *corev1.PodSpec) { s.Tolerations = nil }, nil, false},
		{"environment not tolerated", "", withoutEnv, nil, false},
		{"environment's toleration will be added", "dev", withoutEnv, nil, true},
		{"but only of this environment", "test", withoutEnv, nil, false},
		{"names another environment", "dev", func(s *corev1.PodSpec) { s.Tolerations[1].Value = "test" }, nil, false},
		{"cordoned for the moment", "", nil, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule})
		}, true},
		{"somebody's own taint", "", nil, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoSchedule})
		}, false},
		{"a taint that only prefers", "", nil, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: corev1.TaintEffectPreferNoSchedule})
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deployment, node := &appsv1.Deployment{}, &corev1.Node{}
			sample(t, "module-deployment", deployment)
			sample(t, "vnode", node)
			spec := deployment.Spec.Template.Spec
			if tt.spec != nil {
				tt.spec(&spec)
			}
			if tt.node != nil {
				tt.node(node)
			}
			if got := NewPlacement(spec, tt.addEnv).Fits(node); got != tt.want {
				t.Errorf("Fits = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPlacementLeavesTheSpecAlone(t *testing.T) {
	tolerations := make([]corev1.Toleration, 1, 2)
	NewPlacement(corev1.PodSpec{Tolerations: tolerations}, "dev")
	if got := tolerations[:2][1]; got != (corev1.Toleration{}) {
		t.Errorf("NewPlacement wrote %v into the spec's slice", got)
	}
}

func BenchmarkFits(b *testing.B) {
	text, _ := deploy.Samples.ReadFile("samples/vnode.yaml")
	objects, err := deploy.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	node := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, node); err != nil {
		b.Fatal(err)
	}
	p := NewPlacement(corev1.PodSpec{
		NodeSelector: map[string]string{"base.koupleless.io/name": "base", "base.koupleless.io/version": "1.0.0"},
		Tolerations:  []corev1.Toleration{{Key: "schedule.koupleless.io/virtual-node", Operator: corev1.TolerationOpExists}},
	}, "dev")
	for b.Loop() {
		if !p.Fits(node) {
			b.Fatal("does not fit")
		}
	}
}
