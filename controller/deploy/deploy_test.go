package deploy

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// read returns the objects in all files of a file system, by file name.
func read(t *testing.T, fsys embed.FS) map[string][]*unstructured.Unstructured {
	t.Helper()
	files := map[string][]*unstructured.Unstructured{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fsys.ReadFile(name)
		if err != nil {
			return err
		}
		objects, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(objects) == 0 {
			t.Errorf("%s contains no objects", name)
		}
		files[name] = objects
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// kustomization contains the Kustomization fields that the manifests use.
type kustomization struct {
	APIVersion, Kind string
	Resources        []string
}

func decodeStrictly(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// typed decodes an object into its Kubernetes type. An unknown field is an error.
func typed(t *testing.T, object *unstructured.Unstructured) runtime.Object {
	t.Helper()
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	decoded, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return decoded
}

func TestManifestsDecodeStrictly(t *testing.T) {
	for _, fsys := range []embed.FS{FS, Samples} {
		for name, objects := range read(t, fsys) {
			t.Run(name, func(t *testing.T) {
				for _, object := range objects {
					switch object.GetKind() {
					case "CustomResourceDefinition": // its type is not in the scheme
					case "Kustomization":
						decodeStrictly(t, object, &kustomization{})
					default:
						typed(t, object)
					}
				}
			})
		}
	}
}

func TestKustomizationListsEveryFile(t *testing.T) {
	files := read(t, FS)
	var k kustomization
	decodeStrictly(t, files["kustomization.yaml"][0], &k)
	var want []string
	for name := range files {
		if path.Dir(name) == "." && name != "kustomization.yaml" {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(k.Resources))); diff != "" {
		t.Errorf("kustomization.yaml (-files +listed):\n%s", diff)
	}
}

func TestObjects(t *testing.T) {
	objects, err := Objects()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range objects {
		got = append(got, object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName())
	}
	want := []string{
		"CustomResourceDefinition /modules.koupleless.io",
		"ClusterRole /module-controller",
		"Role kube-node-lease/module-controller",
		"ClusterRoleBinding /module-controller-outside",
		"RoleBinding kube-node-lease/module-controller-outside",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Objects (-want +got):\n%s", diff)
	}
	wantSubjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}}
	if diff := cmp.Diff(wantSubjects, typed(t, objects[3]).(*rbacv1.ClusterRoleBinding).Subjects); diff != "" {
		t.Errorf("subjects of the ClusterRoleBinding (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantSubjects, typed(t, objects[4]).(*rbacv1.RoleBinding).Subjects); diff != "" {
		t.Errorf("subjects of the RoleBinding (-want +got):\n%s", diff)
	}
}

// TestPermissions checks that the controller has exactly the expected permissions. The comment of each expected
// permission names the package that uses it.
func TestPermissions(t *testing.T) {
	want := map[string]string{
		"nodes":                           "get list watch create update delete", // internal/vnode
		"nodes/status":                    "update",                              // internal/vnode
		"pods":                            "get list watch patch delete",         // internal/vpod, internal/moduleview
		"pods/log":                        "get",                                 // internal/kubelet
		"pods/status":                     "update",                              // internal/vpod
		"events":                          "create patch",                        // internal/vpod, internal/notice
		"apps/deployments":                "list watch",                          // internal/peer, internal/baseline
		"apps/daemonsets":                 "list watch",                          // internal/baseline, internal/notice
		"apps/deployments/scale":          "patch",                               // internal/peer
		"koupleless.io/modules":           "list watch create update",            // internal/moduleview
		"koupleless.io/modules/status":    "update",                              // internal/moduleview
		"configmaps":                      "get",                                 // internal/configmap
		"discovery.k8s.io/endpointslices": "list",                                // internal/vpod
		"authorization.k8s.io/subjectaccessreviews": "create", // internal/kubelet
		// internal/vnode, internal/peer
		"coordination.k8s.io/leases in kube-node-lease": "get list watch create update delete",
	}
	files := read(t, FS)
	clusterRole := typed(t, files["clusterrole.yaml"][0]).(*rbacv1.ClusterRole)
	role := typed(t, files["role.yaml"][0]).(*rbacv1.Role)
	got := map[string]string{}
	add := func(rules []rbacv1.PolicyRule, where string) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					got[strings.TrimPrefix(group+"/"+resource, "/")+where] = strings.Join(rule.Verbs, " ")
				}
			}
		}
	}
	add(clusterRole.Rules, "")
	add(role.Rules, " in "+role.Namespace)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
}

func TestDeploymentSetsTheDocumentsVariables(t *testing.T) {
	deployment := typed(t, read(t, FS)["deployment.yaml"][0]).(*appsv1.Deployment)
	got := map[string]bool{}
	for _, env := range deployment.Spec.Template.Spec.Containers[0].Env {
		if got[env.Name] {
			t.Errorf("%s is set twice", env.Name)
		}
		got[env.Name] = true
	}
	// Module Controller V2 document 5.4.
	for _, name := range []string{
		"ENABLE_MQTT_TUNNEL", "MQTT_BROKER", "MQTT_PORT", "MQTT_USERNAME", "MQTT_PASSWORD", "MQTT_CLIENT_PREFIX",
		"ENABLE_HTTP_TUNNEL", "HTTP_TUNNEL_LISTEN_PORT", "REPORT_HOOKS", "ENV", "IS_CLUSTER", "WORKLOAD_MAX_LEVEL",
		"ENABLE_MODULE_DEPLOYMENT_CONTROLLER", "VNODE_WORKER_NUM", "CLIENT_ID",
	} {
		if !got[name] {
			t.Errorf("%s is not set; set are %v", name, slices.Sorted(maps.Keys(got)))
		}
	}
}

// TestDeploymentConnectsToBrokerOverTLS checks that the Secret contains the credentials for the broker and the CA
// certificate for TLS.
func TestDeploymentConnectsToBrokerOverTLS(t *testing.T) {
	pod := typed(t, read(t, FS)["deployment.yaml"][0]).(*appsv1.Deployment).Spec.Template.Spec
	got := map[string]string{}
	for _, env := range pod.Containers[0].Env {
		got[env.Name] = env.Value
		if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
			got[env.Name] = env.ValueFrom.SecretKeyRef.Name
		}
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			if v.Name == mount.Name && v.Secret != nil &&
				slices.ContainsFunc(v.Secret.Items,
					func(i corev1.KeyToPath) bool { return mount.MountPath+"/"+i.Path == got["MQTT_CA_PATH"] }) {
				got["MQTT_CA_PATH"] = v.Secret.SecretName
			}
		}
	}
	want := map[string]string{"MQTT_PORT": "8883", "MQTT_CA_PATH": "module-controller",
		"MQTT_PASSWORD": "module-controller", "HTTP_TUNNEL_TOKEN": "module-controller"}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

// TestNetworkPolicy checks that the NetworkPolicy selects the Pods of the Deployment and allows the ports of the
// Deployment.
func TestNetworkPolicy(t *testing.T) {
	files := read(t, FS)
	policy := typed(t, files["networkpolicy.yaml"][0]).(*networkingv1.NetworkPolicy)
	deployment := typed(t, files["deployment.yaml"][0]).(*appsv1.Deployment)
	if diff := cmp.Diff(deployment.Spec.Selector, &policy.Spec.PodSelector); diff != "" ||
		policy.Namespace != deployment.Namespace {
		t.Errorf("in %s, selector (-Deployment +policy):\n%s", policy.Namespace, diff)
	}
	open := map[string]bool{}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.StrVal] = len(rule.From) == 0
		}
	}
	want := map[string]bool{}
	for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
		want[port.Name] = port.Name == "health" || port.Name == "kubelet"
	}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("open to all sources, by port (-want +got):\n%s", diff)
	}
}

func TestSamplesFitSampleNode(t *testing.T) {
	files := read(t, Samples)
	if diff := cmp.Diff([]string{
		"samples/module-deployment-peer.yaml", "samples/module-deployment.yaml", "samples/module-pod.yaml",
		"samples/vnode.yaml",
	}, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Fatalf("samples (-want +got):\n%s", diff)
	}
	vnode := typed(t, files["samples/vnode.yaml"][0]).(*corev1.Node)
	for _, a := range vnode.Status.Addresses {
		if a.Type == corev1.NodeHostName {
			t.Errorf("the Node has the address %q of the type Hostname, which the controller does not set", a.Address)
		}
	}
	for name, objects := range files {
		t.Run(name, func(t *testing.T) {
			text, err := Samples.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if head, _, _ := strings.Cut(string(text), "apiVersion:"); !strings.Contains(head, "# Corrections:") {
				t.Error("the file does not begin with a list of corrections")
			}
			switch object := typed(t, objects[0]).(type) {
			case *corev1.Pod:
				checkModule(t, object.Labels, object.Spec, vnode)
			case *appsv1.Deployment:
				if object.Namespace != "" { // kubectl apply --namespace, as in the documentation, would refuse it
					t.Errorf("namespace %q", object.Namespace)
				}
				template := object.Spec.Template
				checkModule(t, template.Labels, template.Spec, vnode)
				for key, value := range object.Spec.Selector.MatchLabels {
					if template.Labels[key] != value {
						t.Errorf("selector %s=%s does not match the template's %q", key, value, template.Labels[key])
					}
				}
			}
		})
	}
}

// checkModule reports a test error if the controller or the scheduler would not install a module on the sample base.
func checkModule(t *testing.T, labels map[string]string, spec corev1.PodSpec, vnode *corev1.Node) {
	t.Helper()
	if got := labels["virtual-kubelet.koupleless.io/component"]; got != "module" {
		t.Errorf("component is %q", got)
	}
	for _, container := range spec.Containers {
		if !strings.HasSuffix(container.Image, ".jar") {
			t.Errorf("image %q is not a jar", container.Image)
		}
		if len(container.Env) != 1 || container.Env[0].Name != "BIZ_VERSION" ||
			!strings.Contains(container.Image, container.Env[0].Value) {
			t.Errorf("environment %v does not contain the version of %q", container.Env, container.Image)
		}
	}
	if problem := schedulingProblem(spec, vnode); problem != "" {
		t.Errorf("the Pod cannot run on the base of the sample: %s", problem)
	}
}
