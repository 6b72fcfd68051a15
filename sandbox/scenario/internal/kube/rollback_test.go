package kube

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	typedfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/internal/revision"
)

var apps = schema.GroupVersion{Group: "apps", Version: "v1"}

func client(t *testing.T, untyped []runtime.Object, typed ...runtime.Object) *Client {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{apps})
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		mapper.Add(apps.WithKind(kind), meta.RESTScopeNamespace)
	}
	return New(typedfake.NewClientset(typed...), dynamicfake.NewSimpleDynamicClient(scheme.Scheme, untyped...), mapper)
}

func owned1(number, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: "n", Annotations: map[string]string{revision.Annotation: number},
		OwnerReferences: []metav1.OwnerReference{{UID: "mine", Controller: ptr.To(true)}},
	}
}

func replicaSet(number, image string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: owned1(number, "rs-"+number),
		Spec: appsv1.ReplicaSetSpec{Template: template(image)}}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"app": "x", appsv1.DefaultDeploymentUniqueLabelKey: "hash"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func TestRollbackOfDeployments(t *testing.T) {
	foreign := replicaSet("9", "foreign")
	foreign.OwnerReferences[0].UID = "another"
	tests := []struct {
		name     string
		to       int64
		revision int64
		image    string
		err      string
	}{
		{"to the previous revision", 0, 2, "two", ""},
		{"to a given revision", 1, 1, "one", ""},
		{"to an unknown revision", 7, 0, "", "revision 7 not found; available revisions: [1 2 3]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "d", UID: "mine"},
				Spec:       appsv1.DeploymentSpec{Template: template("three")}}
			c := client(t, []runtime.Object{d}, replicaSet("3", "three"), replicaSet("1", "one"),
				replicaSet("2", "two"), foreign)
			k, err := c.FindKind("apps/v1", "Deployment")
			if err != nil {
				t.Fatal(err)
			}
			revision, o, err := c.Rollback(t.Context(), k, "n", "d", tt.to)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			if image := containers[0].(map[string]any)["image"]; image != tt.image || revision != tt.revision {
				t.Errorf("revision %d with image %v, want %d with %s", revision, image, tt.revision, tt.image)
			}
			if _, there := labels[appsv1.DefaultDeploymentUniqueLabelKey]; there {
				t.Error("the Deployment has the label of the ReplicaSet")
			}
		})
	}
}

func TestUnknownKind(t *testing.T) {
	_, err := client(t, nil).FindKind("apps/v1", "Deploymint")
	if err == nil || !strings.Contains(err.Error(), "the API server has no kind Deploymint in apps/v1") {
		t.Errorf("error %v", err)
	}
}
