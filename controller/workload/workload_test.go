package workload

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/controller/errcode"
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
		{"Deployment without the peer strategy", map[string]string{newer + "component": "module-deployment"},
			verdict{}},
		{"strategy alone", map[string]string{newer + "strategy": "peer"}, verdict{}},
		{"peer", map[string]string{newer + "component": "module-deployment", newer + "strategy": "peer"},
			verdict{Peer: true}},
		{"peer, mixed prefixes",
			map[string]string{older + "component": "module-deployment", newer + "strategy": "peer"},
			verdict{Peer: true}},
		{"peer, older prefix", map[string]string{older + "component": "module-deployment", older + "strategy": "peer"},
			verdict{Peer: true}},
		{"peer of this environment",
			map[string]string{newer + "component": "module-deployment", newer + "strategy": "peer",
				newer + "env": "dev"}, verdict{Peer: true}},
		{"peer of another environment",
			map[string]string{newer + "component": "module-deployment", newer + "strategy": "peer",
				newer + "env": "test"}, verdict{}},
		{"another strategy", map[string]string{newer + "component": "module-deployment", newer + "strategy": "scale"},
			verdict{}},
		{"keeps its replicas",
			map[string]string{older + "component": "module-deployment", older + "strategy": "peer",
				older + "replicas-control": "true"}, verdict{Peer: true, KeepsReplicas: true}},
		{"does not keep them",
			map[string]string{older + "component": "module-deployment", older + "strategy": "peer",
				older + "replicas-control": "false"}, verdict{Peer: true}},
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

func TestMatchesTemplate(t *testing.T) {
	field := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}
	name := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	configMap := func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: key}}
	}
	template := func(annotation string, env corev1.EnvVar, more ...corev1.Container) corev1.PodTemplateSpec {
		env.Name = "BIZ_VERSION"
		containers := append([]corev1.Container{
			{Name: "m", Image: "https://modules.example/m.jar", Env: []corev1.EnvVar{env}}}, more...)
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"version": annotation}},
			Spec:       corev1.PodSpec{Containers: containers}}
	}
	for name, c := range map[string]struct {
		pod, template corev1.PodTemplateSpec
		want          bool
	}{
		"unchanged": {template("", corev1.EnvVar{Value: "1"}), template("", corev1.EnvVar{Value: "1"}),
			true},
		"an injected container": {template("", corev1.EnvVar{Value: "1"}, corev1.Container{Name: "injected"}),
			template("", corev1.EnvVar{Value: "1"}), true},
		"an additional module": {template("", corev1.EnvVar{Value: "1"}),
			template("", corev1.EnvVar{Value: "1"},
				corev1.Container{Name: "m2", Image: "https://modules.example/m2.jar"}), false},
		"an additional sidecar": {template("", corev1.EnvVar{Value: "1"}),
			template("", corev1.EnvVar{Value: "1"}, corev1.Container{Name: "agent", Image: "agent:2"}), true},
		"the name of the Pod": {template("", corev1.EnvVar{ValueFrom: name}),
			template("", corev1.EnvVar{ValueFrom: name}), true},
		"another version": {template("", corev1.EnvVar{Value: "1"}), template("", corev1.EnvVar{Value: "2"}),
			false},
		"the same annotation": {template("1", corev1.EnvVar{ValueFrom: field}),
			template("1", corev1.EnvVar{ValueFrom: field}), true},
		"another annotation": {template("1", corev1.EnvVar{ValueFrom: field}),
			template("2", corev1.EnvVar{ValueFrom: field}), false},
		"the same ConfigMap": {template("", corev1.EnvVar{ValueFrom: configMap("a")}),
			template("", corev1.EnvVar{ValueFrom: configMap("a")}), true},
		"another key of ConfigMap": {template("", corev1.EnvVar{ValueFrom: configMap("a")}),
			template("", corev1.EnvVar{ValueFrom: configMap("b")}), false},
	} {
		pod := &corev1.Pod{ObjectMeta: c.pod.ObjectMeta, Spec: c.pod.Spec}
		pod.Name = "p"
		if got := MatchesTemplate(pod, &c.template); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestCheck(t *testing.T) {
	const versionCode, urlCode = errcode.OtherUpstreamInvalidParameter, errcode.OtherUpstreamDecodeURLFailed
	meta := metav1.ObjectMeta{Annotations: map[string]string{"v": "1.0.0\t"}}
	container := func(version, image string) corev1.Container {
		return corev1.Container{Name: "biz1", Image: image, Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: version}}}
	}
	annotated := container("", "file:///m/biz1.jar")
	annotated.Env[0].ValueFrom = &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['v']"}}
	for name, tt := range map[string]struct {
		container corev1.Container
		code      errcode.Code
		cause     error
		values    string // parts of the expected error message, separated by |
	}{
		"valid":               {container("1.0.0", "file:///m/biz1.jar"), "", nil, ""},
		"over HTTPS":          {container("1.0.0", "https://h/biz1.jar?x=1"), "", nil, ""},
		"without .jar":        {container("1.0.0", "https://h/download?name=biz1"), "", nil, ""},
		"a query only":        {container("1.0.0", "https://h/?name=biz1"), "", nil, ""},
		"a host only":         {container("1.0.0", "https://u:secret@h"), urlCode, errNoJar, `"https://***@h"`},
		"no version":          {container("", "file:///m/biz1.jar"), versionCode, errEmpty, ""},
		"spaces around it":    {container(" 1.0.0", "file:///m/biz1.jar"), versionCode, errSpaces, `" 1.0.0"`},
		"a space in it":       {container("1.0 0", "file:///m/biz1.jar"), versionCode, errSpaces, `"1.0 0"`},
		"a tab in annotation": {annotated, versionCode, errSpaces, `"1.0.0\t"`},
		"a path":              {container("1.0.0", "/m/biz1.jar"), urlCode, errScheme, `"/m/biz1.jar"`},
		"an image":            {container("1.0.0", "repo/biz1.jar:1"), urlCode, errScheme, `"repo/biz1.jar:1"`},
		"no host":             {container("1.0.0", "https:///biz1.jar"), urlCode, errNoJar, `"https:///biz1.jar"`},
		"no URL":              {container("1.0.0", "http://h:x/biz1.jar"), urlCode, errNotURL, `":x"`},
	} {
		t.Run(name, func(t *testing.T) {
			checkInvalid(t, Check(&meta, tt.container), tt.code, tt.cause, tt.values)
		})
	}
}

// checkInvalid checks the error for a container biz1. A nil cause means that no error is expected.
func checkInvalid(t *testing.T, err error, code errcode.Code, cause error, values string) {
	t.Helper()
	if !errors.Is(err, cause) || err != nil && errcode.Of(err) != code {
		t.Fatalf("error %v, want code %q and cause %v", err, code, cause)
	}
	for value := range strings.SplitSeq(values+`|"biz1"`, "|") {
		if err != nil && (!strings.Contains(err.Error(), value) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("error %v, want %s and no password", err, value)
		}
	}
}

// TestStringLimits checks that a string of the maximum length is accepted and a longer string is rejected, and that
// error messages truncate long strings.
func TestStringLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	with := func(name, version, image string) corev1.Container {
		return corev1.Container{Name: name, Image: image, Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: version}}}
	}
	const jar = "https://h/biz1.jar"
	reference := func(n int) corev1.Container {
		c := with("biz1", "$(V)", jar)
		c.Env = append([]corev1.EnvVar{{Name: "V", Value: x(n)}}, c.Env...)
		return c
	}
	field := func(kind string, n int) (metav1.ObjectMeta, corev1.Container) {
		c := with("biz1", "", jar)
		c.Env[0].ValueFrom = &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata." + kind + "['v']"}}
		return metav1.ObjectMeta{Labels: map[string]string{"v": x(n)}, Annotations: map[string]string{"v": x(n)}}, c
	}
	resolved := func(n int) corev1.Container {
		c := with("biz1", "", jar)
		c.Env[0].ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "v"}}
		c, err := Resolve(&corev1.Pod{}, c, func(types.NamespacedName, string) (string, error) { return x(n), nil })
		if err != nil {
			t.Error(err)
		}
		return c
	}
	for name, c := range map[string]struct {
		at  func(n int) (metav1.ObjectMeta, corev1.Container)
		max int
	}{
		"name": {
			func(n int) (metav1.ObjectMeta, corev1.Container) { return metav1.ObjectMeta{}, with(x(n), "1", jar) },
			arklet.MaxName},
		"version": {
			func(n int) (metav1.ObjectMeta, corev1.Container) { return metav1.ObjectMeta{}, with("biz1", x(n), jar) },
			arklet.MaxName},
		"version by $(V)": {
			func(n int) (metav1.ObjectMeta, corev1.Container) { return metav1.ObjectMeta{}, reference(n) },
			arklet.MaxName},
		"version, annotated": {func(n int) (metav1.ObjectMeta, corev1.Container) { return field("annotations", n) },
			arklet.MaxName},
		"version, labelled": {func(n int) (metav1.ObjectMeta, corev1.Container) { return field("labels", n) },
			arklet.MaxName},
		"value of ConfigMap": {
			func(n int) (metav1.ObjectMeta, corev1.Container) { return metav1.ObjectMeta{}, resolved(n) },
			arklet.MaxName},
		"image": {func(n int) (metav1.ObjectMeta, corev1.Container) {
			return metav1.ObjectMeta{}, with("biz1", "1", jar+"?"+x(n-len(jar)-1))
		}, arklet.MaxURL},
	} {
		for n, ok := range map[int]bool{c.max: true, c.max + 1: false, 1 << 20: false} {
			meta, container := c.at(n)
			err := Check(&meta, container)
			if (err == nil) != ok || err != nil && len(err.Error()) > 600 {
				t.Errorf("%s of %d bytes: error %.700v", name, n, err)
			}
		}
	}
	for _, unprintable := range []string{"1\x00", "1\u202e", "1\u00a0", "1\xff"} {
		meta := metav1.ObjectMeta{}
		if Check(&meta, with("biz1", unprintable, jar)) == nil ||
			Check(&meta, with("biz1", "1", jar+unprintable)) == nil {
			t.Errorf("%q is accepted", unprintable)
		}
	}
	// The controller accepts in a module list every name that it accepts in a Pod.
	list, err := arklet.DecodeSimpleBiz(
		[]byte(`[{"name":"` + x(arklet.MaxName) + `","version":"` + x(arklet.MaxName) + `"}]`))
	if err != nil || len(list) != 1 {
		t.Errorf("a list with names of the maximum length has %d modules, error %v", len(list), err)
	}
}

// TestVersion checks that Version returns the value that the environment variable has in a running container.
func TestVersion(t *testing.T) {
	env := func(pairs ...string) (list []corev1.EnvVar) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	from := func(name string, s corev1.EnvVarSource) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: name, ValueFrom: &s}}
	}
	field := func(name, path string) []corev1.EnvVar {
		return from(name, corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}})
	}
	secret := corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}
	configMap := corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "c"},
			Key: "k"}}
	reference := env("BIZ_VERSION", "$(REF)")
	var doubled []corev1.EnvVar // the value of each variable is twice the value of the previous one
	for i := range 60 {
		doubled = append(doubled, env("V"+strconv.Itoa(i+1), strings.Repeat("$(V"+strconv.Itoa(i)+")", 2))...)
	}
	for name, tt := range map[string]struct {
		env    []corev1.EnvVar
		want   string
		cause  error
		values string // parts of the expected error message, separated by |
	}{
		"the last duplicate is used": {env("BIZ_VERSION", "1", "BIZ_VERSION", "2"), "2", nil, ""},
		"a reference": {env("R", "1.0.0", "BIZ_VERSION", "$(R)-SNAPSHOT"), "1.0.0-SNAPSHOT",
			nil, ""},
		"to a variable that comes later": {env("BIZ_VERSION", "$(R)", "R", "1"), "$(R)", nil, ""},
		"to a duplicate that precedes": {env("R", "1", "R", "2", "BIZ_VERSION", "$(R)", "R", "3"), "2", nil,
			""},
		"to the variable itself": {env("BIZ_VERSION", "1", "BIZ_VERSION", "$(BIZ_VERSION).5"), "1.5",
			nil, ""},
		"to an unknown variable": {env("BIZ_VERSION", "1-$(NONE)"), "1-$(NONE)", nil, ""},
		"through others": {env("A", "1", "B", "$(A).2", "BIZ_VERSION", "$(B).3"), "1.2.3", nil,
			""},
		"an expanded value is not expanded again": {env("A", "$$(B)", "B", "x", "BIZ_VERSION", "$(A)"), "$(B)", nil,
			""},
		"escaped":                          {env("R", "1", "BIZ_VERSION", "$$(R)-$$"), "$(R)-$", nil, ""},
		"not closed":                       {env("R", "1", "BIZ_VERSION", "$(R-$(R)"), "$(R-$(R)", nil, ""},
		"a dollar sign":                    {env("R", "1", "BIZ_VERSION", "a$b$$(R)$"), "a$b$(R)$", nil, ""},
		"a dollar sign before a reference": {env("R", "1", "BIZ_VERSION", "$x$(R)"), "$x1", nil, ""},
		"empty variables":                  {env("R", "", "BIZ_VERSION", "1$(R)"), "1", nil, ""},
		"doubled sixty times": {
			append(append(env("V0", "x"), doubled...), env("BIZ_VERSION", "$(V60)")...), "", errExpands, "256"},
		"empty and doubled sixty times": {append(append(env("V0", ""), doubled...), env("BIZ_VERSION", "1$(V60)")...),
			"1", nil, ""},
		"metadata.name":                {field("BIZ_VERSION", "metadata.name"), "pod", nil, ""},
		"metadata.namespace":           {field("BIZ_VERSION", "metadata.namespace"), "shop", nil, ""},
		"metadata.uid":                 {field("BIZ_VERSION", "metadata.uid"), "uid", nil, ""},
		"a label":                      {field("BIZ_VERSION", "metadata.labels['v']"), "2", nil, ""},
		"a reference to an annotation": {append(field("REF", "metadata.annotations['v']"), reference...), "3", nil, ""},
		"a label that is missing": {field("BIZ_VERSION", "metadata.labels['w']"), "", errNoField,
			"metadata.labels['w']"},
		"spec.nodeName":               {field("BIZ_VERSION", "spec.nodeName"), "", errSource, "spec.nodeName"},
		"a Secret":                    {from("BIZ_VERSION", secret), "", errSource, "Secret s"},
		"a reference to a Secret":     {append(from("REF", secret), reference...), "", errSource, "REF|Secret s"},
		"a Secret that is overridden": {append(from("BIZ_VERSION", secret), env("BIZ_VERSION", "1")...), "1", nil, ""},
		"a resource": {
			from("BIZ_VERSION", corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{}}), "", errSource,
			"resourceFieldRef"},
		"a file": {from("BIZ_VERSION", corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}), "", errSource,
			"a file"},
		"a ConfigMap": {from("BIZ_VERSION", configMap), "", ErrUnresolved, `"k"|"c"`},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "shop", Name: "pod", UID: "uid", Labels: map[string]string{"v": "2"},
				Annotations: map[string]string{"v": "3"}}
			got, err := Version(&meta, corev1.Container{Name: "biz1", Env: tt.env})
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			checkInvalid(t, err, errcode.OtherUpstreamInvalidParameter, tt.cause, tt.values)
		})
	}
	for _, list := range [][]corev1.EnvVar{nil, reference} {
		c := corev1.Container{Name: "biz1", Env: list, EnvFrom: []corev1.EnvFromSource{{}}}
		if err := CheckVersion(&metav1.ObjectMeta{}, c); !errors.Is(err, errEnvFrom) {
			t.Errorf("envFrom: error %v", err)
		}
	}
	for _, path := range []string{"metadata.name", "metadata.uid", "metadata.labels['pod-template-hash']"} {
		if err := CheckVersion(&metav1.ObjectMeta{}, corev1.Container{Env: field("BIZ_VERSION", path)}); !errors.Is(err,
			ErrUnresolved) {
			t.Errorf("%s of a template: error %v", path, err)
		}
	}
	if got := slices.Sorted(maps.Keys(
		VersionVariables(corev1.Container{
			Env: env("A", "1", "B", "$(A)", "C", "2", "BIZ_VERSION", "$(B)")}))); !slices.Equal(got,
		[]string{"A", "B", "BIZ_VERSION"}) {
		t.Errorf("variables %v", got)
	}
}

// TestResolveReferences checks that a version that combines the values of several ConfigMap keys is resolved as a
// whole.
func TestResolveReferences(t *testing.T) {
	fromMap := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: strings.ToUpper(key),
			ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key,
			}}}
	}
	c := corev1.Container{Name: "biz1",
		Env: []corev1.EnvVar{fromMap("m1", "a"), fromMap("m2", "b"), fromMap("m3", "unused"),
			{Name: "BIZ_VERSION", Value: "$(A).$(B)-$(A)"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	want := []Source{{types.NamespacedName{Namespace: "shop", Name: "m1"}, "a"},
		{types.NamespacedName{Namespace: "shop", Name: "m2"}, "b"}}
	if diff := cmp.Diff(want, VersionSources("shop", c)); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	resolved, err := Resolve(pod, c,
		func(name types.NamespacedName, key string) (string, error) { return key + "$$" + name.Name, nil })
	if got := ModuleOf(&pod.ObjectMeta, resolved).Version; err != nil || got != "a$$m1.b$$m2-a$$m1" {
		t.Errorf("version %q, error %v", got, err)
	}
}

// TestResolveOptional checks that an optional reference to a ConfigMap key overrides an earlier value only if the key
// exists.
func TestResolveOptional(t *testing.T) {
	from := func(optional bool) corev1.Container {
		return corev1.Container{Name: "biz1", Env: []corev1.EnvVar{
			{Name: "BIZ_VERSION", Value: "1"},
			{Name: "BIZ_VERSION",
				ValueFrom: &corev1.EnvVarSource{
					ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "k", Optional: &optional}}},
		}}
	}
	missing := errcode.New(errcode.OtherUpstreamInvalidParameter, "no such key")
	for _, tt := range []struct {
		optional bool
		value    string
		err      error
		want     string
		wantErr  error
	}{
		{true, "2", nil, "2", nil},
		{true, "", missing, "1", nil},
		{false, "", missing, "", missing},
		{true, "", errors.ErrUnsupported, "", errors.ErrUnsupported}, // any other error
	} {
		pod := &corev1.Pod{}
		c, err := Resolve(pod, from(tt.optional),
			func(types.NamespacedName, string) (string, error) { return tt.value, tt.err })
		if got := ModuleOf(&pod.ObjectMeta, c).Version; !errors.Is(err, tt.wantErr) || got != tt.want {
			t.Errorf("%+v: version %q, error %v", tt, got, err)
		}
	}
}

func TestModules(t *testing.T) {
	module := corev1.Container{Name: "biz1", Image: "https://h/biz1.jar",
		Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "1"}}}
	noVersion := corev1.Container{Name: "biz2", Image: "https://h/download?name=biz2"}
	noURL := corev1.Container{Name: "biz3", Image: "biz3.jar", Env: []corev1.EnvVar{{Name: "BIZ_VERSION"}}}
	agent := corev1.Container{Name: "agent", Image: "registry.example:5000/agent:1.4",
		Env: []corev1.EnvVar{{Name: "A"}}, EnvFrom: []corev1.EnvFromSource{{}}}
	for name, tt := range map[string]struct{ containers, modules, others []corev1.Container }{
		"modules, valid or invalid": {[]corev1.Container{module, noVersion, noURL},
			[]corev1.Container{module, noVersion, noURL}, nil},
		"a sidecar": {[]corev1.Container{agent, module}, []corev1.Container{module},
			[]corev1.Container{agent}},
		"a sidecar of an invalid module": {[]corev1.Container{noURL, agent}, []corev1.Container{noURL},
			[]corev1.Container{agent}},
		"no module": {[]corev1.Container{agent}, []corev1.Container{agent}, nil},
	} {
		modules, others := Modules(corev1.PodSpec{Containers: tt.containers})
		if diff := cmp.Diff([][]corev1.Container{tt.modules, tt.others},
			[][]corev1.Container{modules, others}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestResolve(t *testing.T) {
	selector := &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "versions"},
		Key: "biz1"}
	fromMap := corev1.Container{Name: "biz1", Image: "file:///m/biz1.jar", Env: []corev1.EnvVar{
		{Name: "A", Value: "1"}, {Name: "BIZ_VERSION", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: selector}},
	}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	running := func(id string) *corev1.Pod {
		p := pod.DeepCopy()
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "biz2", ContainerID: "arklet://10.0.0.1:biz2:9.9.9"}, {Name: "biz1", ContainerID: id}}
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
		"from the ConfigMap": {pod, fromMap, "2.0.0"},
		"not installed yet":  {running(""), fromMap, "2.0.0"},
		"installed version":  {running("arklet://10.0.0.1:biz1:1.0.0"), fromMap, "1.0.0"},
		"over IPv6":          {running("arklet://[fd00::1]:biz1:1.0.0"), fromMap, "1.0.0"},
		"of another kubelet": {running("containerd://abc:biz1:1.0.0"), fromMap, "2.0.0"},
		"a plain value stays": {pod,
			corev1.Container{Name: "biz1", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "3.0.0"}}}, "3.0.0"},
		"none at all stays so":    {pod, corev1.Container{Name: "biz1"}, ""},
		"a version with a prefix": {running("arklet://10.0.0.1:biz1:1:0"), fromMap, "1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(tt.pod, tt.container, value)
			if v := ModuleOf(&tt.pod.ObjectMeta, got).Version; err != nil || v != tt.want {
				t.Errorf("version %q, error %v, want %q", v, err, tt.want)
			}
		})
	}
	if v := fromMap.Env[1].Value; v != "" {
		t.Errorf("Resolve wrote %q into the Pod's own container", v)
	}
	refuse := errors.New("away")
	if _, err := Resolve(pod, fromMap,
		func(types.NamespacedName, string) (string, error) { return "", refuse }); !errors.Is(err, refuse) {
		t.Errorf("error %v", err)
	}
}

// sample returns the Deployment and the Node of the corrected Koupleless samples.
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
	withoutEnv := func(s *corev1.PodSpec) { s.Tolerations = s.Tolerations[:1] }
	tests := []struct {
		name   string
		addEnv string
		spec   func(*corev1.PodSpec)
		node   func(*corev1.Node)
		want   bool
	}{
		{"as it stands", "", nil, nil, true},
		{"another base version", "", nil, func(n *corev1.Node) { n.Labels["base.koupleless.io/version"] = "2.0.0" },
			false},
		{"affinity that cannot be parsed", "", func(s *corev1.PodSpec) {
			required := s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			required.NodeSelectorTerms[0].MatchExpressions[1].Operator = "Like"
		}, nil, false},
		{"no toleration", "dev", func(s *corev1.PodSpec) { s.Tolerations = nil }, nil, false},
		{"environment not tolerated", "", withoutEnv, nil, false},
		{"environment's toleration will be added", "dev", withoutEnv, nil, true},
		{"but only of this environment", "test", withoutEnv, nil, false},
		{"names another environment", "dev", func(s *corev1.PodSpec) { s.Tolerations[1].Value = "test" }, nil, false},
		{"cordoned for the moment", "", nil, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule})
		}, true},
		{"taint of another client", "", nil, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoSchedule})
		}, false},
		{"bound to this base", "", func(s *corev1.PodSpec) { s.NodeName = "elsewhere" },
			func(n *corev1.Node) { n.Name = "elsewhere" }, true},
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
	tolerant := corev1.PodSpec{
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists}}}
	got := []bool{NewPlacement(corev1.PodSpec{}, "").Cordoned(node), NewPlacement(tolerant, "").Cordoned(node),
		NewPlacement(corev1.PodSpec{}, "").Cordoned(&corev1.Node{})}
	if diff := cmp.Diff([]bool{true, false, false}, got); diff != "" {
		t.Errorf("a cordoned base for Pods, for those that tolerate it, and one that is not cordoned (-want +got):\n%s",
			diff)
	}
}

func TestContainerID(t *testing.T) {
	for id, want := range map[string]struct{ ip, module, version string }{
		"arklet://10.0.0.1:biz1:1.0.0":                      {"10.0.0.1", "biz1", "1.0.0"},
		"arklet://10.0.0.1:biz1:1:biz1:2":                   {"10.0.0.1", "biz1", "1:biz1:2"},
		"arklet://[2001:db8:cafe::1:cafe]:cafe:1.0.0":       {"2001:db8:cafe::1:cafe", "cafe", "1.0.0"},
		"arklet://[2001:db8:cafe::1:cafe]:cafe:1:cafe:2":    {"2001:db8:cafe::1:cafe", "cafe", "1:cafe:2"},
		"arklet://[2001:db8:cafe::1:cafe]:cafe:]:cafe:]:1.": {"2001:db8:cafe::1:cafe", "cafe", "]:cafe:]:1."},
	} {
		if got := ContainerID(want.ip, want.module, want.version); got != id {
			t.Errorf("%v has the ID %q, want %q", want, got, id)
		}
		if got := InstalledVersion(corev1.ContainerStatus{Name: want.module, ContainerID: id}); got != want.version {
			t.Errorf("%q has the version %q, want %q", id, got, want.version)
		}
	}
	for id, want := range map[string]string{
		"docker://10.0.0.1:cafe:1": "", "arklet://10.0.0.1:other:1": "", "arklet://[::1]:other:1": "", "": "",
	} {
		if got := InstalledVersion(corev1.ContainerStatus{Name: "cafe", ContainerID: id}); got != want {
			t.Errorf("%q has the version %q, want %q", id, got, want)
		}
	}
}
