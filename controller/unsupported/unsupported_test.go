package unsupported

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// whole has every field that a module ignores.
func whole() corev1.PodSpec {
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}
	}
	return corev1.PodSpec{
		InitContainers:      []corev1.Container{{Name: "init"}},
		EphemeralContainers: []corev1.EphemeralContainer{{}},
		Volumes:             []corev1.Volume{{Name: "kube-api-access-abcde"}, {Name: "data"}},
		RestartPolicy:       corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name: "biz1", Command: []string{"sh"}, Args: []string{"-c"},
			EnvFrom:      []corev1.EnvFromSource{{}},
			Env:          []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "1.0.0"}, {Name: "DB", Value: "x"}, {Name: "MORE", Value: "y"}},
			StartupProbe: probe(), ReadinessProbe: probe(), LivenessProbe: probe(),
			Lifecycle: &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}},
				PreStop:   &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}},
			},
		}},
	}
}

func TestOf(t *testing.T) {
	httpGet := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}}}
	supported := corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "kube-api-access-abcde"}}, RestartPolicy: corev1.RestartPolicyAlways,
		Containers: []corev1.Container{{
			Name: "biz1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}, Env: []corev1.EnvVar{{Name: "BIZ_VERSION"}},
			ReadinessProbe: httpGet, LivenessProbe: httpGet,
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}},
		}},
	}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		done bool
		want string
	}{
		"nothing": {corev1.PodSpec{}, false, ""},
		"everything": {whole(), true, "initContainers, ephemeralContainers, volumes, restartPolicy, command, args, envFrom, env, startupProbe, " +
			"readinessProbe, livenessProbe, postStart, preStop"},
		"what is done for real": {supported, true, ""},
		"what is not done":      {supported, false, "readinessProbe, livenessProbe, preStop"},
		"each name once": {corev1.PodSpec{Containers: []corev1.Container{
			{StartupProbe: httpGet, Args: []string{"x"}}, {StartupProbe: httpGet},
		}}, true, "args, startupProbe"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, List(Of(tt.spec, Options{VersionEnv: "BIZ_VERSION", HTTPProbes: tt.done, PreStopSleep: tt.done}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Who keeps the names of volumes only finds the same.
func TestAsked(t *testing.T) {
	got := Asked([]corev1.Volume{{Name: "kube-api-access-x"}, {Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}})
	if diff := cmp.Diff([]corev1.Volume{{Name: "data"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Asked([]corev1.Volume{{Name: "kube-api-access-x"}}); got != nil {
		t.Errorf("nobody asked for %v", got)
	}
}

// Each field says where it stands and what becomes of it, and each name is that of some field.
func TestNames(t *testing.T) {
	named := map[string]bool{Job.Name: true}
	for _, f := range append(Of(whole(), Controller), Job) {
		named[f.Name] = true
		if f.Why == "" || f.Path == "" {
			t.Errorf("%+v is not whole", f)
		}
		if f.Name == "env" && f.Path != "spec.containers[0].env[1]" {
			t.Errorf("the variable that is ignored stands at %s", f.Path)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(Names)), slices.Sorted(maps.Keys(named))); diff != "" {
		t.Errorf("names that no field has, fields without a name (-want +got):\n%s", diff)
	}
}

// The table of the documents has each of them.
func TestDocuments(t *testing.T) {
	for _, file := range []string{"../../docs/en/reference/modules.md", "../../docs/zh/reference/modules.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name := range Names {
			if name != Job.Name && !strings.Contains(string(text), "| `"+name+"` |") {
				t.Errorf("%s does not say what becomes of %s", file, name)
			}
		}
	}
}
