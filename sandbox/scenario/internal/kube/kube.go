// Package kube does to the Kubernetes API what steps of scenarios ask for, as kubectl does.
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

// FieldManager names scenarios as the writer of fields.
const FieldManager = "koupsandbox"

// Client reaches a Kubernetes API without a limit of its own. Its methods may be called
// concurrently. It can be used for many runs.
type Client struct {
	// Typed and Dynamic are the clients beneath.
	Typed   kubernetes.Interface
	Dynamic dynamic.Interface

	mapper meta.RESTMapper
}

// Open returns a client for the API of a kubeconfig.
func Open(kubeconfig string) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // steps and what follows from them are not to wait for each other
	config.UserAgent = FieldManager + "-scenario"
	// Warnings of the API server about samples would stand between the results.
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(apiwait.RetryWatches)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the Kubernetes API: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the Kubernetes API: %w", err)
	}
	return New(typed, untyped, lateMapper(typed.Discovery())), nil
}

// New returns a client on top of others.
func New(typed kubernetes.Interface, untyped dynamic.Interface, mapper meta.RESTMapper) *Client {
	return &Client{Typed: typed, Dynamic: untyped, mapper: mapper}
}

// lateMapper discovers the kinds of the API when one is needed, and again when one is not found.
func lateMapper(d discovery.DiscoveryInterface) meta.RESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
}

// Kind is a kind of object and where the API has it.
type Kind struct {
	schema.GroupVersionKind
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// Kind finds a kind. The error says so when the API does not have it.
func (c *Client) Kind(apiVersion, kind string) (Kind, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Kind{}, fmt.Errorf("apiVersion %q is none: %w", apiVersion, err)
	}
	gvk := gv.WithKind(kind)
	m, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		if meta.IsNoMatchError(err) {
			return Kind{}, fmt.Errorf("the API has no kind %s of %s: %w", kind, apiVersion, err)
		}
		return Kind{}, fmt.Errorf("looking for kind %s of %s: %w", kind, apiVersion, err)
	}
	return Kind{gvk, m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// On returns the client for the objects of a kind; the namespace does not count for kinds without.
func (c *Client) On(k Kind, namespace string) dynamic.ResourceInterface {
	if k.Namespaced {
		return c.Dynamic.Resource(k.Resource).Namespace(namespace)
	}
	return c.Dynamic.Resource(k.Resource)
}

// Find returns the objects of a kind with a name, or, without, with the labels; sorted by name.
// There may be none.
func (c *Client) Find(ctx context.Context, k Kind, namespace, name string,
	with map[string]string) ([]*unstructured.Unstructured, error) {
	if name != "" {
		o, err := c.On(k, namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s %s: %w", k.Kind, name, err)
		}
		return []*unstructured.Unstructured{o}, nil
	}
	list, err := c.On(k, namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(with).String()})
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
