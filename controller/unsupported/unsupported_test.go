package unsupported

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// fullPodSpec is a Pod spec that contains every field that is ignored on a base.
func fullPodSpec() corev1.PodSpec {
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}
	}
	security := &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0)}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	return corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "kube-api-access-abcde"}, {Name: "data"}, {Name: "more"},
			{Name: "claim", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}},
		},
		InitContainers:        []corev1.Container{{Name: "init"}},
		EphemeralContainers:   []corev1.EphemeralContainer{{}},
		RestartPolicy:         corev1.RestartPolicyNever,
		ActiveDeadlineSeconds: ptr.To[int64](10),
		DNSPolicy:             corev1.DNSDefault, DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"198.18.0.1"}},
		ServiceAccountName: "robot",
		HostNetwork:        true, HostPID: true, HostIPC: true, HostUsers: ptr.To(false),
		ShareProcessNamespace: ptr.To(true),
		SecurityContext:       security, RuntimeClassName: ptr.To("gvisor"),
		ImagePullSecrets:  []corev1.LocalObjectReference{{Name: "regcred"}},
		HostAliases:       []corev1.HostAlias{{}},
		SetHostnameAsFQDN: ptr.To(true), HostnameOverride: ptr.To("h"),
		ResourceClaims: []corev1.PodResourceClaim{{}},
		Resources:      &corev1.ResourceRequirements{Limits: limits},
		Containers: []corev1.Container{{
			Name: "biz1", Image: "https://h/biz1.jar", Command: []string{"sh"}, Args: []string{"-c"},
			WorkingDir: "/tmp",
			EnvFrom:    []corev1.EnvFromSource{{}},
			Env: []corev1.EnvVar{
				{Name: "R", Value: "1"}, {Name: "DB", Value: "x"}, {Name: "BIZ_VERSION", Value: "$(R)"},
				{Name: "MORE", Value: "y"},
			},
			Resources:          corev1.ResourceRequirements{Limits: limits, Claims: []corev1.ResourceClaim{{}}},
			RestartPolicy:      ptr.To(corev1.ContainerRestartPolicyNever),
			RestartPolicyRules: []corev1.ContainerRestartRule{{}},
			StartupProbe:       probe(), ReadinessProbe: probe(), LivenessProbe: probe(),
			Lifecycle: &corev1.Lifecycle{
				PostStart:  &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}},
				PreStop:    &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}},
				StopSignal: ptr.To(corev1.SIGTERM),
			},
			TerminationMessagePath: "/x", TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			ImagePullPolicy: corev1.PullAlways, SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
			Stdin: true, StdinOnce: true, TTY: true,
		}, {
			Name: "agent", Image: "registry.example/agent:1.4", Command: []string{"agent"},
		}, {
			Name: "biz2", Image: "https://h/biz2.jar", LivenessProbe: &corev1.Probe{
				ProbeHandler:                  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}},
				TerminationGracePeriodSeconds: ptr.To[int64](5), TimeoutSeconds: 31,
			},
		}},
	}
}

func TestOf(t *testing.T) {
	httpGet := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}},
		PeriodSeconds: 3, TimeoutSeconds: 30}
	requests := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi"),
		"example.com/slots": resource.MustParse("1")}
	supported := corev1.PodSpec{ // with the defaults of an API server
		Volumes: []corev1.Volume{{Name: "kube-api-access-abcde"}}, RestartPolicy: corev1.RestartPolicyAlways,
		DNSPolicy:          corev1.DNSClusterFirst,
		ServiceAccountName: "default", DeprecatedServiceAccount: "default",
		SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
		TerminationGracePeriodSeconds: ptr.To[int64](30), EnableServiceLinks: ptr.To(true), Priority: ptr.To[int32](0),
		PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
		Hostname:         "stock-0", Subdomain: "stock", HostUsers: ptr.To(true), ShareProcessNamespace: ptr.To(false),
		HostAliases: []corev1.HostAlias{},
		Containers: []corev1.Container{{
			Name: "biz1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			Env:                    []corev1.EnvVar{{Name: "BIZ_VERSION"}},
			VolumeMounts:           []corev1.VolumeMount{{Name: "kube-api-access-abcde"}},
			ImagePullPolicy:        corev1.PullIfNotPresent,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			Resources: corev1.ResourceRequirements{Requests: requests,
				Limits: corev1.ResourceList{"example.com/slots": resource.MustParse("1")}},
			ResizePolicy: []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired}},
			ReadinessProbe: httpGet, LivenessProbe: httpGet,
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}},
		}},
	}
	const everything = "volumes, persistentVolumeClaim, initContainers, command, args, workingDir, envFrom, env, " +
		"limits, resourceClaims, restartPolicy, " +
		"restartPolicyRules, livenessProbe, readinessProbe, startupProbe, postStart, preStop, stopSignal, " +
		"terminationMessagePath, terminationMessagePolicy, " +
		"imagePullPolicy, securityContext, stdin, stdinOnce, tty, sidecars, probe.timeoutSeconds, " +
		"probe.terminationGracePeriodSeconds, ephemeralContainers, " +
		"activeDeadlineSeconds, dnsPolicy, serviceAccountName, hostNetwork, hostPID, hostIPC, shareProcessNamespace, " +
		"imagePullSecrets, hostAliases, dnsConfig, " +
		"runtimeClassName, setHostnameAsFQDN, hostUsers, hostnameOverride"
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"nothing":          {corev1.PodSpec{}, ""},
		"everything":       {fullPodSpec(), everything},
		"supported fields": {supported, ""},
		"each name once per list": {corev1.PodSpec{Containers: []corev1.Container{
			{StartupProbe: httpGet, Args: []string{"x"}}, {StartupProbe: httpGet},
		}}, "args, startupProbe"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, List(Of(tt.spec))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfPod(t *testing.T) {
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	for _, tt := range []struct{ annotation, want string }{
		{"", "limits, job"},
		{"LimitRanger plugin set: cpu request for container biz1", "limits, job"},
		{"LimitRanger plugin set: cpu request for container biz1; cpu limit for container biz1", "job"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: limits}}}}
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Controller: ptr.To(true)}}
		pod.Annotations = map[string]string{"kubernetes.io/limit-ranger": tt.annotation}
		if diff := cmp.Diff(tt.want, List(OfPod(pod))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.annotation, diff)
		}
	}
}

// TestTableHasRuleForEachField checks that the table contains the type of each field whose parts are checked.
func TestTableHasRuleForEachField(t *testing.T) {
	// see walker.walkParts
	list := map[reflect.Type]bool{reflect.TypeFor[corev1.EnvVar](): true, reflect.TypeFor[corev1.Volume](): true}
	for of, rules := range table {
		fields := map[string]bool{}
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue // inline
			}
			fields[name] = true
			kind := f.Type
			for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
				kind = kind.Elem()
			}
			r, known := rules[name]
			switch {
			case !known:
				t.Errorf("%s.%s has no rule; add one", of.Name(), name)
			case r.checkFields && r.reason == "" && table[kind] == nil && !list[kind]:
				t.Errorf("the type of %s.%s is not in the table", of.Name(), name)
			}
		}
		for name := range rules {
			if !fields[name] {
				t.Errorf("%s has no field %s", of.Name(), name)
			}
		}
	}
}

func TestEveryNameIsReportedWithPathAndReason(t *testing.T) {
	named := map[string]bool{}
	for _, f := range append(Of(fullPodSpec()), Job, VolumeClaimTemplates) {
		named[f.Name] = true
		if f.Why == "" || f.Path == "" {
			t.Errorf("%+v is not complete", f)
		}
		if f.Name == "env" && f.Path != "spec.containers[0].env[1]" ||
			f.Name == "persistentVolumeClaim" && f.Path != "spec.volumes[3]" {
			t.Errorf("%s is reported at %s", f.Name, f.Path)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(Names)), slices.Sorted(maps.Keys(named))); diff != "" {
		t.Errorf("names without a field, and fields without a name (-want +got):\n%s", diff)
	}
}

// TestNamesAreDocumented checks that each name in Names is in the first cell of a table row in the reference.
func TestNamesAreDocumented(t *testing.T) {
	for _, file := range []string{"../../docs/en/reference/modules.md", "../../docs/zh/reference/modules.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cells strings.Builder
		for row := range strings.Lines(string(text)) {
			if cell, isRow := strings.CutPrefix(row, "| "); isRow {
				cell, _, _ = strings.Cut(cell, " |")
				cells.WriteString(cell)
			}
		}
		for name := range Names {
			if name != Job.Name && !strings.Contains(cells.String(), "`"+name+"`") {
				t.Errorf("%s does not document %s", file, name)
			}
		}
	}
}
