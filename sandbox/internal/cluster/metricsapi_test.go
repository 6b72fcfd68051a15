package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// api is a cluster whose API server finds what is registered available, or says why not.
func api(t *testing.T, trouble string, objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	t.Helper()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{apiServices: "APIServiceList", services: "ServiceList"}, objects...)
	client.PrependReactor("create", "apiservices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
		status := "True"
		if trouble != "" {
			status = "False"
		}
		condition := map[string]any{"type": "Available", "status": status, "message": trouble}
		return false, nil, unstructured.SetNestedSlice(o.Object, []any{condition}, "status", "conditions")
	})
	return client
}

func object(kind, version, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// names lists what there is, as namespace/name.
func names(t *testing.T, client *dynamicfake.FakeDynamicClient) (list []string) {
	t.Helper()
	for _, resource := range []schema.GroupVersionResource{apiServices, services} {
		all, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all.Items {
			list = append(list, o.GetNamespace()+"/"+o.GetName())
		}
	}
	return list
}

func TestMetricsAPI(t *testing.T) {
	type way struct {
		Service, API map[string]any
		CA           string
	}
	for name, c := range map[string]struct {
		m    MetricsAPI
		want way
		left []string
	}{
		"on this machine": {MetricsAPI{Host: "172.18.0.1", Port: 4711, CA: []byte("ca")}, way{
			Service: map[string]any{"type": "ExternalName", "externalName": "172.18.0.1"},
			API:     map[string]any{"name": "module-controller-metrics", "namespace": "kube-system", "port": int64(4711)},
			CA:      "Y2E=",
		}, []string{"/v1beta1.metrics.k8s.io", "kube-system/module-controller-metrics"}},
		"in the cluster": {MetricsAPI{CA: []byte("ca")}, way{
			Service: map[string]any{
				"selector": map[string]any{"app.kubernetes.io/name": "module-controller"},
				"ports":    []any{map[string]any{"name": "metrics-api", "port": int64(443), "targetPort": "metrics-api"}},
			},
			API: map[string]any{"name": "module-controller-metrics", "namespace": "koupleless-system", "port": int64(443)},
			CA:  "Y2E=",
		}, []string{"/v1beta1.metrics.k8s.io", "koupleless-system/module-controller-metrics"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := api(t, "")
			if err := c.m.register(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.left, names(t, client)); diff != "" {
				t.Fatalf("there are (-want +got):\n%s", diff)
			}
			namespace, _, _ := strings.Cut(c.left[1], "/")
			service, err := client.Resource(services).Namespace(namespace).Get(t.Context(), "module-controller-metrics", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			a, err := client.Resource(apiServices).Get(t.Context(), "v1beta1.metrics.k8s.io", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			spec := a.Object["spec"].(map[string]any)
			got := way{service.Object["spec"].(map[string]any), spec["service"].(map[string]any), spec["caBundle"].(string)}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the way (-want +got):\n%s", diff)
			}
			if skip, there := spec["insecureSkipTLSVerify"]; there {
				t.Errorf("insecureSkipTLSVerify is %v", skip)
			}
			if err := removeMetricsAPI(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			if left := names(t, client); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// A metrics-server stays as it is, and so does what has a name of ours and is not.
func TestTheMetricsAPIOfOthersIsLeftAlone(t *testing.T) {
	client := api(t, "", object("APIService", "apiregistration.k8s.io/v1", "", "v1beta1.metrics.k8s.io"), object("Service", "v1", "kube-system", "module-controller-metrics"))
	before := names(t, client)
	client.ClearActions()
	err := MetricsAPI{Host: "127.0.0.1", Port: 1, CA: []byte("ca")}.register(t.Context(), client)
	if err == nil || !strings.Contains(err.Error(), "the cluster has a server for metrics.k8s.io already") {
		t.Errorf("error %v", err)
	}
	if err := removeMetricsAPI(t.Context(), client); err != nil {
		t.Error(err)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	if diff := cmp.Diff(before, names(t, client)); diff != "" {
		t.Errorf("there are (-before +after):\n%s", diff)
	}
}

// An API server that does not get through says why.
func TestAMetricsAPIThatIsNotReached(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := MetricsAPI{Host: "127.0.0.1", Port: 1, CA: []byte("ca")}.register(ctx, api(t, "connection refused"))
	if err == nil || !strings.HasPrefix(err.Error(), "the API server does not reach the metrics API: connection refused: ") {
		t.Errorf("error %v", err)
	}
}
