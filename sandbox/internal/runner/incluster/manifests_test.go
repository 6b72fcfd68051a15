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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

var settings = Settings{
	Replicas: 2, Env: "test", Proxy: "http://u:secret@172.18.0.1:3128", Token: "t",
	Broker:    Broker{Host: "172.18.0.1", Port: "8883", Username: "u", Password: "p", CA: []byte("ca")},
	Kubelet:   Kubelet{Cert: []byte("c"), Key: []byte("k"), ClientCA: []byte("a")},
	Variables: map[string]string{"MODULE_DRAIN": "1s", "VNODE_WORKER_NUM": "9"},
}

// TestManifests checks that manifests returns all objects in the order in kustomization.yaml, then the Secrets, then
// the Deployments that use the Secrets.
func TestManifests(t *testing.T) {
	objects, err := manifests(settings)
	check.Must(t, err)
	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+" "+o.GetName())
		if o.GetLabels()[cluster.ManagedBy] != cluster.MarkName {
			t.Errorf("%s %s does not have the label of the sandbox", o.GetKind(), o.GetName())
		}
	}
	want := []string{
		"Namespace koupleless-system", "CustomResourceDefinition modules.koupleless.io",
		"ClusterRole module-controller",
		"Role module-controller", "ServiceAccount module-controller", "ClusterRoleBinding module-controller",
		"RoleBinding module-controller", "Service module-controller",
		"Secret module-controller", "Secret module-controller-kubelet", "Deployment module-controller",
		"Deployment module-controller-2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile("../../../../controller/deploy/kustomization.yaml")
	check.Must(t, err)
	for _, file := range append(resources, "deployment.yaml", "networkpolicy.yaml") {
		text = bytes.ReplaceAll(text, []byte("  - "+file+"\n"), nil)
	}
	if left := bytes.Count(text, []byte("  - ")); left != 0 {
		t.Errorf("%d resources of kustomization.yaml are not applied:\n%s", left, text)
	}
}

func TestDeploymentSettings(t *testing.T) {
	objects, err := manifests(settings)
	check.Must(t, err)
	var d appsv1.Deployment
	check.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[len(objects)-1].Object, &d))
	original, err := parse("deployment.yaml")
	check.Must(t, err)
	before, after := variables(t, original[0]), variables(t, objects[len(objects)-1])
	changed := map[string]string{}
	for name, value := range after {
		if before[name] != value {
			changed[name] = value
		}
		delete(before, name)
	}
	want := map[string]string{
		"ENV": "test", "MQTT_BROKER": "172.18.0.1", "BASE_NETWORKS": "0.0.0.0/0,::/0",
		"ENABLE_HTTP_TUNNEL": "true", "KUBELET_PROXY_ENABLED": "true", "MODULE_DRAIN": "1s", "VNODE_WORKER_NUM": "9",
		"MAX_BASES": "40000", "MAX_BASES_PER_ADDRESS": "40000",
	}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if len(before) > 0 {
		t.Errorf("missing variables of the manifests: %v", before)
	}
	c := d.Spec.Template.Spec.Containers[0]
	// A Pod becomes Ready after the controller has connected to the broker.
	if start, ready := c.StartupProbe, c.ReadinessProbe; start == nil || start.HTTPGet.Path != "/tunnelz" ||
		ready.HTTPGet.Path != "/readyz" || start.FailureThreshold < 3600 {
		t.Errorf("startup probe %v, readiness probe %v", start, ready)
	}
	if *d.Spec.Replicas != 1 || c.Image != ImageName || c.ImagePullPolicy != corev1.PullNever {
		t.Errorf("%d replicas of %s, pull policy %s", *d.Spec.Replicas, c.Image, c.ImagePullPolicy)
	}
}

// TestRevision checks that the revision annotation of the Pods changes when any setting changes, except the number of
// controllers. It must change because a Pod reads Secrets and environment variables only when it starts.
func TestRevision(t *testing.T) {
	more := settings
	more.Replicas = 3
	if settings.revision() != more.revision() {
		t.Error("the revision depends on the number of replicas")
	}
	seen := map[string]string{settings.revision(): "no change"}
	for what, change := range map[string]func(*Settings){
		"another password": func(s *Settings) { s.Broker.Username, s.Broker.Password = "up", "" },
		"another proxy":    func(s *Settings) { s.Proxy = "http://u:other@172.18.0.1:3128" },
		"another token":    func(s *Settings) { s.Token = "other" },
		"another key":      func(s *Settings) { s.Kubelet.Key = []byte("other") },
		"another variable": func(s *Settings) {
			s.Variables = map[string]string{"MODULE_DRAIN": "1sVNODE_WORKER_NUM",
				"9": ""}
		},
	} {
		other := settings
		change(&other)
		if same := seen[other.revision()]; same != "" {
			t.Errorf("%s has the same revision as %s", what, same)
		}
		seen[other.revision()] = what
		objects, err := manifests(other)
		check.Must(t, err)
		got, _, err := unstructured.NestedString(objects[len(objects)-1].Object, "spec", "template", "metadata",
			"annotations", revisionAnnotation)
		if err != nil || got != other.revision() {
			t.Errorf("%s: annotation %q (%v), want %q", what, got, err, other.revision())
		}
	}
}

// variables returns the environment variables of the only container in a Deployment, by name.
func variables(t *testing.T, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	var d appsv1.Deployment
	check.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
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

func TestBuildImageRequiresStaticBinary(t *testing.T) {
	dir := t.TempDir()
	static, dynamic := filepath.Join(dir, "static"), filepath.Join(dir, "dynamic")
	// only the dynamic binary has an interpreter segment
	for path, segment := range map[string]elf.ProgType{static: elf.PT_LOAD, dynamic: elf.PT_INTERP} {
		var text bytes.Buffer
		for _, part := range []any{
			elf.Header64{
				Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
					byte(elf.EV_CURRENT)},
				Type: uint16(elf.ET_EXEC), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56,
				Phnum: 1,
			},
			elf.Prog64{Type: uint32(segment)},
		} {
			check.Must(t, binary.Write(&text, binary.LittleEndian, part))
		}
		check.Must(t, os.WriteFile(path, text.Bytes(), 0o755))
	}
	built, err := BuildImage(static, dir)
	check.Must(t, err)
	var archive bytes.Buffer
	check.Must(t, image.Write(&archive, built))
	if !bytes.Contains(archive.Bytes(), []byte(ImageName)) {
		t.Error("the archive does not contain the name of the image")
	}
	script := filepath.Join(dir, "script")
	check.Must(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	for path, want := range map[string]string{script: "it is not a Linux binary",
		dynamic:                    "it requires shared libraries",
		filepath.Join(dir, "none"): "no such file"} {
		if _, err := BuildImage(path, dir); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "--controller host") {
			t.Errorf("%s: error %v, want %q and advice", path, err, want)
		}
	}
}
