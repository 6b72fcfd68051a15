package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/controller/apiwait"
	"github.com/koupleless/koupsandbox/controller/deploy"
)

// namespacePoll is how often to look for a namespace that a fresh API server
// makes by itself, moments after it is ready.
const namespacePoll = 20 * time.Millisecond

// Granted is an object that was not there before.
type Granted struct {
	resource        schema.GroupVersionResource
	namespace, name string
	uid             types.UID
}

func (o Granted) client(c dynamic.Interface) dynamic.ResourceInterface {
	if o.namespace == "" {
		return c.Resource(o.resource)
	}
	return c.Resource(o.resource).Namespace(o.namespace)
}

// Grant creates what a controller outside the cluster needs, and returns
// what was created. What is there already is left as it is: in the sandbox's own
// cluster it is the same, in another it is not ours to change.
func Grant(ctx context.Context, c *Cluster) ([]Granted, error) {
	objects, err := deploy.Objects()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	var made []Granted
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()) // right for the kinds of our manifests
		o := Granted{resource: resource, namespace: object.GetNamespace(), name: object.GetName()}
		created, err := create(ctx, o.client(client), object)
		switch {
		case apierrors.IsAlreadyExists(err):
			continue
		case err != nil:
			return made, fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		o.uid = created.GetUID()
		made = append(made, o)
	}
	return made, nil
}

// create creates an object, waiting for its namespace until ctx ends.
func create(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedBy] = MarkName
	object.SetLabels(labels)

	var created *unstructured.Unstructured
	var last error
	err := wait.PollUntilContextCancel(ctx, namespacePoll, true, func(ctx context.Context) (bool, error) {
		created, last = client.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsNotFound(last) {
			return false, nil
		}
		return true, last
	})
	if err != nil && apierrors.IsNotFound(last) {
		err = fmt.Errorf("%w (%w)", last, err)
	}
	return created, err
}

// Revoke removes what Grant created, if it is still the same.
func Revoke(ctx context.Context, c *Cluster, made []Granted) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	var errs []error
	for _, o := range made {
		err := o.client(client).Delete(ctx, o.name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.uid))})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("removing %s %s: %w", o.resource.Resource, o.name, err))
		}
	}
	return errors.Join(errs...)
}

// RevokeLabelled removes what a Grant of an earlier process created, by its label.
func RevokeLabelled(ctx context.Context, c *Cluster) error {
	objects, err := deploy.Objects()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	var errs []error
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		o := Granted{resource: resource, namespace: object.GetNamespace(), name: object.GetName()}
		if err := RemoveOurs(ctx, o.client(client), o.name); err != nil {
			errs = append(errs, fmt.Errorf("removing %s %s: %w", object.GetKind(), o.name, err))
		}
	}
	return errors.Join(errs...)
}

// RemoveOurs deletes an object that bears the sandbox's label. One that does not bear it stays, and one
// that is not there is fine.
func RemoveOurs(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	there, err := client.Get(ctx, name, metav1.GetOptions{})
	if err == nil && there.GetLabels()[ManagedBy] == MarkName {
		err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(there.GetUID()))})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// NewClient returns a client of the cluster for many objects: protobuf costs a fraction
// of JSON.
func NewClient(c *Cluster) (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.Wrap(apiwait.Watches)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return client, nil
}
