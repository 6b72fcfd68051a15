package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/controller/apiwait"
)

// namespacePoll is how often to look for a namespace that a fresh API server
// makes by itself, moments after it is ready.
const namespacePoll = 20 * time.Millisecond

// Grant creates objects that a controller outside the cluster needs, and waits until their namespaces exist.
// Grant does not change objects that already exist: in a cluster that the sandbox has created they are the
// same, and in an existing cluster they belong to another user. owner is the value of SandboxLabel; it is empty
// in a cluster that the sandbox has created.
func Grant(ctx context.Context, c *Cluster, objects []*unstructured.Unstructured, owner string) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("creating a client for the cluster: %w", err)
	}
	for _, object := range objects {
		SetOwner(object, owner)
		_, err := create(ctx, ClientOf(client, object), object)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// ClientOf returns the client for the resource and namespace of an object.
func ClientOf(c dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()) // correct for the kinds in the manifests
	if namespace := object.GetNamespace(); namespace != "" {
		return c.Resource(resource).Namespace(namespace)
	}
	return c.Resource(resource)
}

// SetOwner sets the labels of the sandbox that creates an object. owner is the value of SandboxLabel, or empty.
func SetOwner(object *unstructured.Unstructured, owner string) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedBy] = MarkName
	if owner != "" {
		labels[SandboxLabel] = owner
	}
	object.SetLabels(labels)
}

// OwnedBy reports whether an object has the labels that Own sets for owner.
func OwnedBy(object metav1.Object, owner string) bool {
	return object.GetLabels()[ManagedBy] == MarkName && object.GetLabels()[SandboxLabel] == owner
}

// create creates an object, waiting for its namespace until ctx ends.
func create(ctx context.Context, client dynamic.ResourceInterface,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var created *unstructured.Unstructured
	var last error
	err := wait.PollUntilContextCancel(ctx, namespacePoll, true, func(ctx context.Context) (bool, error) {
		created, last = client.Create(ctx, object, metav1.CreateOptions{FieldManager: MarkName})
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

// Revoke removes the objects that Grant has created with the same owner, in reverse order.
func Revoke(ctx context.Context, c *Cluster, objects []*unstructured.Unstructured, owner string) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("creating a client for the cluster: %w", err)
	}
	var errs []error
	for _, object := range slices.Backward(objects) {
		if err := RemoveOwned(ctx, ClientOf(client, object), object.GetName(), owner); err != nil {
			errs = append(errs, fmt.Errorf("removing %s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// RemoveOwned deletes an object that is Owned by owner. It keeps an object of another owner, and returns nil for
// an object that does not exist. It also keeps a CustomResourceDefinition that another field manager has
// changed, because deleting it would delete the objects of that user.
func RemoveOwned(ctx context.Context, client dynamic.ResourceInterface, name, owner string) error {
	there, err := client.Get(ctx, name, metav1.GetOptions{})
	if err == nil && OwnedBy(there, owner) && (there.GetKind() != "CustomResourceDefinition" || !changedByOthers(there)) {
		err = client.Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(there.GetUID()))})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// changedByOthers reports whether a field manager other than the sandbox has changed an object. Changes of the status are ignored.
func changedByOthers(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(object.GetManagedFields(),
		func(m metav1.ManagedFieldsEntry) bool { return m.Manager != MarkName && m.Subresource == "" })
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
		return nil, fmt.Errorf("creating a client for the cluster: %w", err)
	}
	return client, nil
}
