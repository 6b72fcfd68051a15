package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/koupleless/koupsandbox/controller/deploy"
)

var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// availablePoll is how often to look whether the API server reaches the metrics API.
const availablePoll = 100 * time.Millisecond

// MetricsAPI is where the API server reaches the metrics API of the module controller.
type MetricsAPI struct {
	// Host and Port lead to a controller on this machine. Host is empty for controllers in the
	// cluster.
	Host string
	Port int64
	// CA is the authority of its certificate, as PEM. Required.
	CA []byte
}

// MetricsAPINames are the names by which the API server calls the metrics API, on this machine or in
// the cluster: its certificate must be for them.
func MetricsAPINames() []string {
	return []string{"module-controller-metrics." + metav1.NamespaceSystem + ".svc", "module-controller-metrics.koupleless-system.svc"}
}

// Register tells the API server of the metrics API, and blocks until that reaches it. It refuses where
// somebody else has registered metrics.k8s.io, and changes nothing then.
func (m MetricsAPI) Register(ctx context.Context, c *Cluster) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	return m.register(ctx, client)
}

func (m MetricsAPI) register(ctx context.Context, client dynamic.Interface) error {
	service, api, err := m.objects()
	if err != nil {
		return err
	}
	switch there, err := client.Resource(apiServices).Get(ctx, api.GetName(), metav1.GetOptions{}); {
	case err == nil && there.GetLabels()[ManagedBy] != MarkName:
		return fmt.Errorf("the cluster has a server for metrics.k8s.io already, such as a metrics-server (APIService %s), and there can be one only: remove it, or spec.controller.metricsAPI", api.GetName())
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("looking for APIService %s: %w", api.GetName(), err)
	}
	for _, o := range []struct {
		client dynamic.ResourceInterface
		object *unstructured.Unstructured
	}{{client.Resource(services).Namespace(service.GetNamespace()), service}, {client.Resource(apiServices), api}} {
		Own(o.object, "")
		if _, err := create(ctx, o.client, o.object); err != nil {
			return fmt.Errorf("creating %s %s: %w", o.object.GetKind(), o.object.GetName(), err)
		}
	}
	last := "nobody has tried it yet"
	err = wait.PollUntilContextCancel(ctx, availablePoll, true, func(ctx context.Context) (bool, error) {
		there, err := client.Resource(apiServices).Get(ctx, api.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(there.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Available" {
				last = fmt.Sprint(c["message"])
				return c["status"] == string(metav1.ConditionTrue), err
			}
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("the API server does not reach the metrics API: %s: %w", last, err)
	}
	return nil
}

// objects are the manifests with the way to this controller.
func (m MetricsAPI) objects() (service, api *unstructured.Unstructured, err error) {
	if service, api, err = deploy.MetricsAPI(); err != nil {
		return nil, nil, err
	}
	set := func(o *unstructured.Unstructured, value any, path ...string) {
		if err == nil {
			err = unstructured.SetNestedField(o.Object, value, path...)
		}
	}
	if m.Host != "" {
		service.SetNamespace(metav1.NamespaceSystem)
		set(service, map[string]any{"type": "ExternalName", "externalName": m.Host}, "spec")
		set(api, map[string]any{"name": service.GetName(), "namespace": service.GetNamespace(), "port": m.Port}, "spec", "service")
	}
	unstructured.RemoveNestedField(api.Object, "spec", "insecureSkipTLSVerify")
	set(api, base64.StdEncoding.EncodeToString(m.CA), "spec", "caBundle")
	return service, api, err
}

// RemoveMetricsAPI removes what Register has created, of this process or of an earlier one. While it
// is there and no controller answers, Kubernetes deletes no namespace.
func RemoveMetricsAPI(ctx context.Context, c *Cluster) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	return removeMetricsAPI(ctx, client)
}

func removeMetricsAPI(ctx context.Context, client dynamic.Interface) error {
	service, api, err := deploy.MetricsAPI()
	if err != nil {
		return err
	}
	for _, o := range []struct {
		client dynamic.ResourceInterface
		name   string
	}{
		{client.Resource(apiServices), api.GetName()},
		{client.Resource(services).Namespace(metav1.NamespaceSystem), service.GetName()},
		{client.Resource(services).Namespace(service.GetNamespace()), service.GetName()},
	} {
		if err := RemoveOurs(ctx, o.client, o.name, ""); err != nil {
			return fmt.Errorf("removing the metrics API (%s): %w", o.name, err)
		}
	}
	return nil
}
