package workload

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

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

// A Pod meets a template that asks for the same modules, wherever their versions stand.
func TestMeets(t *testing.T) {
	field := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}
	configMap := func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: key}}
	}
	template := func(annotation string, env corev1.EnvVar, more ...corev1.Container) corev1.PodTemplateSpec {
		env.Name = "BIZ_VERSION"
		containers := append([]corev1.Container{{Name: "m", Image: "https://modules.example/m.jar", Env: []corev1.EnvVar{env}}}, more...)
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"version": annotation}}, Spec: corev1.PodSpec{Containers: containers}}
	}
	for name, c := range map[string]struct {
		pod, template corev1.PodTemplateSpec
		want          bool
	}{
		"as it is":                 {template("", corev1.EnvVar{Value: "1"}), template("", corev1.EnvVar{Value: "1"}), true},
		"an injected container":    {template("", corev1.EnvVar{Value: "1"}, corev1.Container{Name: "injected"}), template("", corev1.EnvVar{Value: "1"}), true},
		"a module more":            {template("", corev1.EnvVar{Value: "1"}), template("", corev1.EnvVar{Value: "1"}, corev1.Container{Name: "m2"}), false},
		"another version":          {template("", corev1.EnvVar{Value: "1"}), template("", corev1.EnvVar{Value: "2"}), false},
		"the same annotation":      {template("1", corev1.EnvVar{ValueFrom: field}), template("1", corev1.EnvVar{ValueFrom: field}), true},
		"another annotation":       {template("1", corev1.EnvVar{ValueFrom: field}), template("2", corev1.EnvVar{ValueFrom: field}), false},
		"the same ConfigMap":       {template("", corev1.EnvVar{ValueFrom: configMap("a")}), template("", corev1.EnvVar{ValueFrom: configMap("a")}), true},
		"another key of ConfigMap": {template("", corev1.EnvVar{ValueFrom: configMap("a")}), template("", corev1.EnvVar{ValueFrom: configMap("b")}), false},
	} {
		pod := &corev1.Pod{ObjectMeta: c.pod.ObjectMeta, Spec: c.pod.Spec}
		if got := Meets(pod, &c.template); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestPreStopSleep(t *testing.T) {
	handler := func(h corev1.LifecycleHandler) corev1.Container {
		return corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: &h}}
	}
	got := []time.Duration{
		PreStopSleep(corev1.Container{}), PreStopSleep(corev1.Container{Lifecycle: &corev1.Lifecycle{}}),
		PreStopSleep(handler(corev1.LifecycleHandler{Exec: &corev1.ExecAction{}})),
		PreStopSleep(handler(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 7}})),
	}
	if diff := cmp.Diff([]time.Duration{0, 0, 0, 7 * time.Second}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	meta := metav1.ObjectMeta{Annotations: map[string]string{"v": "1.0.0\t"}}
	container := func(version, image string) corev1.Container {
		return corev1.Container{Name: "biz1", Image: image, Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: version}}}
	}
	annotated := container("", "file:///m/biz1.jar")
	annotated.Env[0].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['v']"}}
	for name, tt := range map[string]struct {
		container corev1.Container
		want      string
	}{
		"all is well":         {container("1.0.0", "file:///m/biz1.jar"), ""},
		"over HTTPS":          {container("1.0.0", "https://h/biz1.jar?x=1"), ""},
		"no version":          {container("", "file:///m/biz1.jar"), `OtherUpstream.InvalidParameter: container "biz1" has no environment variable BIZ_VERSION, which names the module's version; check the parameters`},
		"spaces around it":    {container(" 1.0.0", "file:///m/biz1.jar"), `OtherUpstream.InvalidParameter: BIZ_VERSION of container "biz1" is " 1.0.0": a version has no spaces; check the parameters`},
		"a space in it":       {container("1.0 0", "file:///m/biz1.jar"), `OtherUpstream.InvalidParameter: BIZ_VERSION of container "biz1" is "1.0 0": a version has no spaces; check the parameters`},
		"a tab in annotation": {annotated, `OtherUpstream.InvalidParameter: BIZ_VERSION of container "biz1" is "1.0.0\t": a version has no spaces; check the parameters`},
		"a path":              {container("1.0.0", "/m/biz1.jar"), `OtherUpstream.DecodeURLFailed: image "/m/biz1.jar" of container "biz1" is no file://, http:// or https:// URL of a module's jar; check that the URL is valid`},
		"an image":            {container("1.0.0", "repo/biz1.jar:1"), `OtherUpstream.DecodeURLFailed: image "repo/biz1.jar:1" of container "biz1" is no file://, http:// or https:// URL of a module's jar; check that the URL is valid`},
		"no host":             {container("1.0.0", "https:///biz1.jar"), `OtherUpstream.DecodeURLFailed: image "https:///biz1.jar" of container "biz1" names no jar; check that the URL is valid`},
		"no URL":              {container("1.0.0", "http://h:x/biz1.jar"), `OtherUpstream.DecodeURLFailed: image "http://h:x/biz1.jar" of container "biz1" is no URL: parse "http://h:x/biz1.jar": invalid port ":x" after host; check that the URL is valid`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Check(&meta, tt.container); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	selector := &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: "biz1"}
	fromMap := corev1.Container{Name: "biz1", Image: "file:///m/biz1.jar", Env: []corev1.EnvVar{
		{Name: "A", Value: "1"}, {Name: "BIZ_VERSION", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: selector}},
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	running := func(id string) *corev1.Pod {
		p := pod.DeepCopy()
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "biz2", ContainerID: "arklet://10.0.0.1:biz2:9.9.9"}, {Name: "biz1", ContainerID: id}}
		return p
	}
	value := func(name types.NamespacedName, key string) (string, error) {
		if name.String() != "shop/versions" || key != "biz1" {
			return "", errors.New("asked for " + name.String() + " " + key)
		}
		return "2.0.0", nil
	}
	for name, tt := range map[string]struct {
		pod       *corev1.Pod
		container corev1.Container
		want      string
	}{
		"from the ConfigMap":      {pod, fromMap, "2.0.0"},
		"not installed yet":       {running(""), fromMap, "2.0.0"},
		"as it was installed":     {running("arklet://10.0.0.1:biz1:1.0.0"), fromMap, "1.0.0"},
		"over IPv6":               {running("arklet://fd00::1:biz1:1.0.0"), fromMap, "1.0.0"},
		"of another kubelet":      {running("containerd://abc:biz1:1.0.0"), fromMap, "2.0.0"},
		"a plain value stays":     {pod, corev1.Container{Name: "biz1", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "3.0.0"}}}, "3.0.0"},
		"none at all stays so":    {pod, corev1.Container{Name: "biz1"}, ""},
		"a version with a prefix": {running("arklet://10.0.0.1:biz1:1:0"), fromMap, "1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(tt.pod, tt.container, value)
			if v := Of(&tt.pod.ObjectMeta, got).Version; err != nil || v != tt.want {
				t.Errorf("version %q, error %v, want %q", v, err, tt.want)
			}
		})
	}
	if v := fromMap.Env[1].Value; v != "" {
		t.Errorf("Resolve wrote %q into the Pod's own container", v)
	}
	refuse := errors.New("away")
	if _, err := Resolve(pod, fromMap, func(types.NamespacedName, string) (string, error) { return "", refuse }); !errors.Is(err, refuse) {
		t.Errorf("error %v", err)
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
		{"bound to this base", "", func(s *corev1.PodSpec) { s.NodeName = "elsewhere" }, func(n *corev1.Node) { n.Name = "elsewhere" }, true},
		{"bound to another one", "", func(s *corev1.PodSpec) { s.NodeName = "elsewhere" }, nil, false},
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

func TestCordoned(t *testing.T) {
	node := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	tolerant := corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists}}}
	got := []bool{NewPlacement(corev1.PodSpec{}, "").Cordoned(node), NewPlacement(tolerant, "").Cordoned(node), NewPlacement(corev1.PodSpec{}, "").Cordoned(&corev1.Node{})}
	if diff := cmp.Diff([]bool{true, false, false}, got); diff != "" {
		t.Errorf("a cordoned base for Pods, for those that tolerate it, and one that is not cordoned (-want +got):\n%s", diff)
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
