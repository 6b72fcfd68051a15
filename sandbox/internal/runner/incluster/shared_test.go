package incluster

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// existingCluster is a fake existing cluster that contains some objects of another owner.
type existingCluster struct {
	*Runner
	dynamic *dynamicfake.FakeDynamicClient
	applied []string
	deleted []string
}

func newExistingCluster(t *testing.T, existing ...string) *existingCluster {
	t.Helper()
	objects, err := manifests(settings)
	check.Must(t, err)
	var foreign []runtime.Object
	for _, o := range objects {
		if slices.Contains(existing, o.GetKind()+" "+o.GetName()) {
			o.SetLabels(nil)
			foreign = append(foreign, o)
		}
	}
	scheme := runtime.NewScheme()
	for _, o := range objects {
		scheme.AddKnownTypeWithName(o.GroupVersionKind(), &unstructured.Unstructured{})
		list := o.GroupVersionKind()
		list.Kind += "List"
		scheme.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
	}
	for _, kind := range []string{"PersistentVolumeClaim", "Pod", "ConfigMap"} {
		scheme.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind(kind+"List"), &unstructured.UnstructuredList{})
	}
	for _, kind := range []string{"StatefulSet", "DaemonSet"} {
		scheme.AddKnownTypeWithName(appsv1.SchemeGroupVersion.WithKind(kind+"List"), &unstructured.UnstructuredList{})
	}
	c := &existingCluster{dynamic: dynamicfake.NewSimpleDynamicClient(scheme, foreign...)}
	// the fake client does not implement server-side apply
	c.dynamic.PrependReactor("patch", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		patch, ok := a.(ktesting.PatchAction)
		if !ok || patch.GetPatchType() != types.ApplyPatchType {
			t.Errorf("%v is not a server-side apply", a)
			return true, nil, nil
		}
		for _, o := range objects {
			resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
			if resource == a.GetResource() && o.GetName() == patch.GetName() {
				c.applied = append(c.applied, o.GetKind()+" "+o.GetName())
				return true, o, c.dynamic.Tracker().Add(o)
			}
		}
		t.Errorf("%s %s is not in the manifests", a.GetResource().Resource, patch.GetName())
		return true, nil, nil
	})
	c.dynamic.PrependReactor("delete", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		d, ok := a.(ktesting.DeleteAction)
		if ok {
			c.deleted = append(c.deleted, a.GetResource().Resource+" "+d.GetName())
		}
		return false, nil, nil
	})
	c.Runner = newRunner(Options{}, fake.NewClientset(), c.dynamic)
	return c
}

func (c *existingCluster) apply(t *testing.T) error {
	t.Helper()
	objects, err := manifests(settings)
	check.Must(t, err)
	return c.applyAll(t.Context(), objects)
}

// TestForeignObjectsAreKept checks that objects of other owners are neither changed nor deleted, and that the objects
// of the sandbox are deleted in the reverse order of their creation.
func TestForeignObjectsAreKept(t *testing.T) {
	c := newExistingCluster(t, "Namespace koupleless-system", "CustomResourceDefinition modules.koupleless.io",
		"ClusterRole module-controller")
	check.Must(t, c.apply(t))
	want := []string{
		"Role module-controller", "ServiceAccount module-controller", "ClusterRoleBinding module-controller",
		"RoleBinding module-controller",
		"Service module-controller", "Secret module-controller", "Secret module-controller-kubelet",
		"Deployment module-controller",
		"Deployment module-controller-2",
	}
	if d := cmp.Diff(want, c.applied); d != "" {
		t.Errorf("applied (-want +got):\n%s", d)
	}
	check.Must(t, c.cleanUp(t.Context()))
	want = []string{
		"secrets module-controller-kubelet", "secrets module-controller", "services module-controller",
		"rolebindings module-controller", "clusterrolebindings module-controller", "serviceaccounts module-controller",
		"roles module-controller",
	}
	if d := cmp.Diff(want, c.deleted); d != "" {
		t.Errorf("deleted (-want +got):\n%s", d)
	}
}

// TestEnsureRejectsForeignController checks that ensure returns an error and changes nothing if another module
// controller is installed in the cluster.
func TestEnsureRejectsForeignController(t *testing.T) {
	for _, object := range []string{"Deployment module-controller", "Secret module-controller"} {
		c := newExistingCluster(t, object)
		err := c.ensure(t.Context(), settings)
		if len(c.applied) > 0 {
			t.Errorf("existing %s: applied %v", object, c.applied)
		}
		if kind, _, _ := strings.Cut(object, " "); err == nil ||
			!strings.Contains(err.Error(), kind+" koupleless-system/module-controller ") {
			t.Errorf("existing %s: error %v", object, err)
		}
		if err := c.cleanUp(t.Context()); err != nil {
			t.Error(err)
		}
		if slices.Contains(c.deleted, strings.ToLower(strings.Replace(object, " ", "s ", 1))) {
			t.Errorf("%s was deleted: %v", object, c.deleted)
		}
	}
}

// TestUsedNamespaceIsKept checks that cleanUp deletes the namespace of the controllers, unless other users have
// objects in it.
func TestUsedNamespaceIsKept(t *testing.T) {
	for object, kept := range map[string]bool{"kube-root-ca.crt": false, "foreign": true} {
		c := newExistingCluster(t)
		check.Must(t, c.apply(t))
		other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		other.SetNamespace(namespace)
		other.SetName(object)
		check.Must(t, c.dynamic.Tracker().Add(other))
		check.Must(t, c.cleanUp(t.Context()))
		if slices.Contains(c.deleted, "namespaces "+namespace) == kept {
			t.Errorf("with ConfigMap %s: deleted %v", object, c.deleted)
		}
	}
}

// TestOtherPodsAreIgnored checks that Pods of other controllers and other sandboxes are ignored, and that their logs
// are not read.
func TestOtherPodsAreIgnored(t *testing.T) {
	of := func(sandbox string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels[cluster.SandboxLabel] = sandbox }
	}
	client := fake.NewClientset(
		pod("foreign", runs("x", 0, true)), pod("another-sandbox", number("1"), of("other"), runs("y", 0, true)),
		pod("own", number("2"), of("me"), runs("z", 0, true)),
	)
	c := newRunner(Options{Owner: "me", OnChange: func(string, supervise.State, string) {}}, client, nil)
	c.wanted, c.log = 2, io.Discard
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	logs := func() (n int) {
		for _, a := range client.Actions() {
			if a.GetResource().Resource == "pods" && a.GetSubresource() == "log" {
				n++
			}
		}
		return n
	}
	check.Eventually(t, waitTimeout, func() error {
		if logs() == 0 {
			return errors.New("no log was read")
		}
		return nil
	})
	if r := c.Replicas(); len(r) != 2 || r[0].Pod != "" || r[1].Pod != "own" || c.extraPods != 0 || logs() != 1 {
		t.Errorf("replicas %+v, %d extra Pods, %d logs", r, c.extraPods, logs())
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNodeActionsAreRefusedInExistingCluster checks that the actions kill and pause are refused in an existing
// cluster.
func TestNodeActionsAreRefusedInExistingCluster(t *testing.T) {
	c := newRunner(Options{}, fake.NewClientset(), nil)
	c.replicas = []Replica{{Number: 1, State: supervise.Running}}
	for _, action := range []supervise.Action{supervise.Kill, supervise.Pause} {
		err := c.Act(t.Context(), "module-controller", action)
		if err == nil || !strings.Contains(err.Error(), string(action)+" module-controller") {
			t.Errorf("%s: %v", action, err)
		}
	}
	if err := c.Act(t.Context(), "module-controller", supervise.Resume); err != nil {
		t.Error(err)
	}
}

// TestSettingsForExistingCluster checks that, in an existing cluster, the nodes pull the controller image, and the
// HTTP tunnel and the kubelet API are disabled. If the external broker has a CA certificate, the controllers must use
// TLS.
func TestSettingsForExistingCluster(t *testing.T) {
	plain := Settings{Replicas: 2, Env: "test", Image: "registry.example/controller:1",
		Broker: Broker{Host: "broker.example", Port: "1883"}}
	secure := plain
	secure.Broker = Broker{Host: "broker.example", Port: "8883", CA: []byte("authority"), Cert: []byte("c"),
		Key: []byte("k")}
	const dir = "/etc/module-controller/broker/"
	type result struct {
		Image, Pull, HTTP, Kubelet, CA, Cert, Key string
		Files                                     []string
	}
	want := result{Image: "registry.example/controller:1", Pull: "IfNotPresent", HTTP: "false", Kubelet: "false",
		Files: []string{"ca.crt"}}
	for name, c := range map[string]struct {
		settings Settings
		with     func(*result)
	}{
		"plain": {plain, func(*result) {}},
		"secure": {secure, func(r *result) {
			r.CA, r.Cert, r.Key = dir+"ca.crt", dir+"tls.crt", dir+"tls.key"
			r.Files = []string{"ca.crt", "tls.crt", "tls.key"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := deployment(c.settings, 1)
			check.Must(t, err)
			container := d.Spec.Template.Spec.Containers[0]
			got := result{Image: container.Image, Pull: string(container.ImagePullPolicy)}
			for _, v := range container.Env {
				for variable, into := range map[string]*string{
					"ENABLE_HTTP_TUNNEL": &got.HTTP, "KUBELET_PROXY_ENABLED": &got.Kubelet, "MQTT_CA_PATH": &got.CA,
					"MQTT_CLIENT_CRT_PATH": &got.Cert, "MQTT_CLIENT_KEY_PATH": &got.Key,
				} {
					if v.Name == variable {
						*into = v.Value
					}
				}
			}
			for _, item := range d.Spec.Template.Spec.Volumes[0].Secret.Items {
				got.Files = append(got.Files, item.Key)
			}
			want := want
			c.with(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestClientIDInExistingCluster checks that, in an existing cluster, the CLIENT_ID starts with the prefix that
// identifies the sandbox. The variable POD_NAME must precede CLIENT_ID, which refers to it.
func TestClientIDInExistingCluster(t *testing.T) {
	s := settings
	s.ClientIDPrefix = "prefix-"
	for name, want := range map[string]struct {
		settings Settings
		value    string
	}{"shared": {s, "prefix-$(POD_NAME)"}, "own": {settings, ""}} {
		d, err := deployment(want.settings, 1)
		check.Must(t, err)
		seen := map[string]bool{}
		for _, v := range d.Spec.Template.Spec.Containers[0].Env {
			if v.Name == "CLIENT_ID" &&
				(v.Value != want.value || (v.ValueFrom == nil) != (want.value != "") ||
					seen["POD_NAME"] != (want.value != "")) {
				t.Errorf("%s: %+v, after %v", name, v, seen)
			}
			seen[v.Name] = true
		}
		if !seen["CLIENT_ID"] {
			t.Errorf("%s: CLIENT_ID is not set", name)
		}
	}
	if s.revision() == settings.revision() {
		t.Error("the revision does not depend on the prefix")
	}
}

// TestRemoveDeployments checks that removeDeployments deletes only surplus Deployments of this sandbox.
func TestRemoveDeployments(t *testing.T) {
	client := fake.NewClientset()
	c := newRunner(Options{Owner: "me"}, client, nil)
	check.Must(t, c.removeDeployments(t.Context(), 2))
	selected := client.Actions()[0].(ktesting.DeleteCollectionAction).GetListRestrictions().Labels
	of := func(manager, sandbox, number string) labels.Set {
		return labels.Set{nameLabel: name, cluster.ManagedBy: manager, cluster.SandboxLabel: sandbox,
			numberLabel: number}
	}
	for _, tc := range []struct {
		labels labels.Set
		want   bool
	}{
		{of(cluster.MarkName, "me", "3"), true},
		{of(cluster.MarkName, "me", "2"), false},
		{of(cluster.MarkName, "other", "3"), false},
		{of("other-manager", "me", "3"), false},
		{labels.Set{nameLabel: name}, false},
	} {
		if got := selected.Matches(tc.labels); got != tc.want {
			t.Errorf("selector matches the labels %v: %t", tc.labels, got)
		}
	}
}
