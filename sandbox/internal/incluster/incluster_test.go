package incluster

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

var options = Options{
	Replicas: 2, Env: "test",
	Broker:   Broker{Host: "172.18.0.1", Port: "8883", Username: "u", Password: "p", CA: []byte("authority")},
	Kubelet:  Kubelet{Cert: []byte("c"), Key: []byte("k"), ClientCA: []byte("a")},
	Settings: map[string]string{"MODULE_DRAIN": "1s", "VNODE_WORKER_NUM": "9"},
}

// Everything that kustomization.yaml names is applied, in its order, and the Deployment after the Secrets that it reads.
func TestManifests(t *testing.T) {
	objects, err := manifests(options)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+" "+o.GetName())
		if o.GetLabels()[cluster.ManagedBy] != cluster.MarkName {
			t.Errorf("%s %s does not bear the sandbox's label", o.GetKind(), o.GetName())
		}
	}
	want := []string{
		"Namespace koupleless-system", "CustomResourceDefinition modules.koupleless.io", "ClusterRole module-controller",
		"Role module-controller", "ServiceAccount module-controller", "ClusterRoleBinding module-controller",
		"RoleBinding module-controller", "Service module-controller",
		"Secret module-controller", "Secret module-controller-kubelet", "Deployment module-controller",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile("../../../controller/deploy/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(resources, "deployment.yaml") {
		text = bytes.ReplaceAll(text, []byte("  - "+file+"\n"), nil)
	}
	if left := bytes.Count(text, []byte("  - ")); left != 0 {
		t.Errorf("%d resources of kustomization.yaml are not applied:\n%s", left, text)
	}
}

func TestDeploymentHasTheSandboxsSettings(t *testing.T) {
	objects, err := manifests(options)
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[len(objects)-1].Object, &d); err != nil {
		t.Fatal(err)
	}
	original, err := parse("deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, after := variables(t, original[0]), variables(t, objects[len(objects)-1])
	changed := map[string]string{}
	for name, value := range after {
		if before[name] != value {
			changed[name] = value
		}
		delete(before, name)
	}
	want := map[string]string{
		"ENV": "test", "MQTT_BROKER": "172.18.0.1", "MQTT_PORT": "8883", "MQTT_CA_PATH": "/etc/module-controller/broker/ca.crt",
		"KUBELET_PROXY_ENABLED": "true", "MODULE_DRAIN": "1s", "VNODE_WORKER_NUM": "9",
	}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if len(before) > 0 {
		t.Errorf("variables of the manifests are gone: %v", before)
	}
	c := d.Spec.Template.Spec.Containers[0]
	if *d.Spec.Replicas != 2 || c.Image != ImageName || c.ImagePullPolicy != corev1.PullNever {
		t.Errorf("%d replicas of %s, pulled %s", *d.Spec.Replicas, c.Image, c.ImagePullPolicy)
	}
}

func TestOtherSecretsAreOtherPods(t *testing.T) {
	first := digestOf(options)
	if digestOf(options) != first {
		t.Error("the same Secrets have two digests")
	}
	other := options
	other.Broker.Username, other.Broker.Password = "up", ""
	if digestOf(other) == first {
		t.Error("another password has the same digest")
	}
	objects, err := manifests(other)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := unstructured.NestedString(objects[len(objects)-1].Object, "spec", "template", "metadata", "annotations", secretsAnnotation)
	if err != nil || got != digestOf(other) {
		t.Errorf("the Pods bear %q (%v), want %q", got, err, digestOf(other))
	}
}

// variables of the only container; those from elsewhere are told by where.
func variables(t *testing.T, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if _, twice := all[e.Name]; twice {
			t.Errorf("%s is set twice", e.Name)
		}
		all[e.Name] = e.Value
		if e.ValueFrom != nil {
			all[e.Name] = e.ValueFrom.String()
		}
	}
	return all
}

func TestState(t *testing.T) {
	deployment := func(ready int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
	}
	pod := func(podName string, status corev1.PodStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName, Labels: map[string]string{nameLabel: name}}, Status: status}
	}
	waiting := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull", Message: "the image is not there"}}}}}
	ended := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}}
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no room"}}}
	ready := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Ready: true}}}
	for testName, tc := range map[string]struct {
		objects []runtime.Object
		want    State
	}{
		"all ready":      {[]runtime.Object{deployment(2), pod("a", ready), pod("b", ready)}, State{Wanted: 2, Ready: 2}},
		"no image":       {[]runtime.Object{deployment(1), pod("a", ready), pod("b", waiting)}, State{Wanted: 2, Ready: 1, Reason: "Pod b: ErrImageNeverPull: the image is not there"}},
		"it has crashed": {[]runtime.Object{deployment(1), pod("b", ended)}, State{Wanted: 2, Ready: 1, Reason: "Pod b ended with exit status 3"}},
		"no room":        {[]runtime.Object{deployment(0), pod("b", unscheduled)}, State{Wanted: 2, Reason: "Pod b: no room"}},
		"nothing": {nil, State{Wanted: 2,
			Reason: `looking at the controller's Deployment: deployments.apps "module-controller" not found`}},
	} {
		t.Run(testName, func(t *testing.T) {
			c := &Controller{o: options, client: fake.NewClientset(tc.objects...)}
			if diff := cmp.Diff(tc.want, c.State(t.Context())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettled(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 2, ReadyReplicas: 2, UpdatedReplicas: 2, Replicas: 2}}
	if !settled(d) {
		t.Error("all Pods are ready and it is not settled")
	}
	for name, spoil := range map[string]func(*appsv1.DeploymentStatus){
		"of earlier settings": func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 },
		"one is not ready":    func(s *appsv1.DeploymentStatus) { s.ReadyReplicas = 1 },
		"one is old":          func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 1 },
		"one is still there":  func(s *appsv1.DeploymentStatus) { s.Replicas = 3 },
	} {
		other := d.DeepCopy()
		spoil(&other.Status)
		if settled(other) {
			t.Errorf("%s, and it is settled", name)
		}
	}
}

func TestBuildImageTakesStaticProgramsOnly(t *testing.T) {
	dir := t.TempDir()
	program, dynamic := filepath.Join(dir, "program"), filepath.Join(dir, "dynamic")
	for path, segment := range map[string]elf.ProgType{program: elf.PT_LOAD, dynamic: elf.PT_INTERP} { // the latter names the system's loader
		var text bytes.Buffer
		for _, part := range []any{
			elf.Header64{
				Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
				Type:  uint16(elf.ET_EXEC), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
			},
			elf.Prog64{Type: uint32(segment)},
		} {
			if err := binary.Write(&text, binary.LittleEndian, part); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, text.Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	built, err := BuildImage(program, dir)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, built); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(archive.Bytes(), []byte(ImageName)) {
		t.Error("the archive does not name the image")
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{script: "it is no program for Linux", dynamic: "it needs libraries", filepath.Join(dir, "none"): "no such file"} {
		if _, err := BuildImage(path, dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--controller host") {
			t.Errorf("%s: error %v, want %q and what to do", path, err, want)
		}
	}
}
