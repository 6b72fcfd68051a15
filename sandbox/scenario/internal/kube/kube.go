// Package kube implements the kubectl operations that the steps of scenarios use.
package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/controller/apiwait"
)

// FieldManager is the name of the field manager for all writes by scenarios.
const FieldManager = "koupsandbox"

// Client accesses a Kubernetes API without client-side rate limits. Its methods may be called concurrently. Several
// runs can share it.
type Client struct {
	// Typed and Dynamic are the underlying client-go clients.
	Typed   kubernetes.Interface
	Dynamic dynamic.Interface

	mapper meta.RESTMapper
}

// Open returns a client for the API server in a kubeconfig.
func Open(kubeconfig string) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // no rate limit: concurrent steps must not delay each other
	config.UserAgent = FieldManager + "-scenario"
	// Warnings of the API server would be printed between the results.
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(apiwait.RetryWatches)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a Kubernetes client: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a Kubernetes client: %w", err)
	}
	return New(typed, untyped, deferredMapper(typed.Discovery())), nil
}

// New returns a Client that uses existing client-go clients.
func New(typed kubernetes.Interface, untyped dynamic.Interface, mapper meta.RESTMapper) *Client {
	return &Client{Typed: typed, Dynamic: untyped, mapper: mapper}
}

// deferredMapper returns a mapper that discovers the kinds of the API on first use. If a kind is not found, the
// mapper discovers the kinds again.
func deferredMapper(d discovery.DiscoveryInterface) meta.RESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
}

// ResourceKind is an object kind and its API resource.
type ResourceKind struct {
	schema.GroupVersionKind
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// FindKind returns the API resource of a kind. If the API does not have the kind, FindKind returns an error that
// wraps an error for which meta.IsNoMatchError returns true.
func (c *Client) FindKind(apiVersion, kind string) (ResourceKind, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ResourceKind{}, fmt.Errorf("invalid apiVersion %q: %w", apiVersion, err)
	}
	gvk := gv.WithKind(kind)
	m, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		if meta.IsNoMatchError(err) {
			return ResourceKind{}, fmt.Errorf("the API server has no kind %s in %s: %w", kind, apiVersion, err)
		}
		return ResourceKind{}, fmt.Errorf("looking up kind %s in %s: %w", kind, apiVersion, err)
	}
	return ResourceKind{gvk, m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// Resource returns the client for the objects of a kind. It ignores the namespace for cluster-scoped kinds.
func (c *Client) Resource(k ResourceKind, namespace string) dynamic.ResourceInterface {
	if k.Namespaced {
		return c.Dynamic.Resource(k.Resource).Namespace(namespace)
	}
	return c.Dynamic.Resource(k.Resource)
}

// Find returns the object of a kind with the given name or, if name is empty, the objects with the given labels,
// sorted by name. If no object matches, it returns no objects and no error.
func (c *Client) Find(ctx context.Context, k ResourceKind, namespace, name string,
	with map[string]string) ([]*unstructured.Unstructured, error) {
	if name != "" {
		o, err := c.Resource(k, namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s %s: %w", k.Kind, name, err)
		}
		return []*unstructured.Unstructured{o}, nil
	}
	list, err := c.Resource(k, namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.SelectorFromSet(with).String()})
	if err != nil {
		return nil, fmt.Errorf("listing objects of kind %s: %w", k.Kind, err)
	}
	found := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return found, nil
}
