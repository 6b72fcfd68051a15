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

// namespacePoll is the interval between attempts to create an object in a namespace that a new API server has not
// created yet.
const namespacePoll = 20 * time.Millisecond

// Grant creates the objects, such as roles, that a controller outside the cluster needs. It blocks until their
// namespaces exist. It does not change existing objects: in a cluster of the sandbox, they have the same content; in
// an existing cluster, they belong to another owner. owner is the value of SandboxLabel, or empty in a cluster of the
// sandbox.
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

// ClientOf returns the client for the resource type and namespace of an object.
func ClientOf(c dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()) // correct for the kinds in the manifests
	if namespace := object.GetNamespace(); namespace != "" {
		return c.Resource(resource).Namespace(namespace)
	}
	return c.Resource(resource)
}

// SetOwner sets the ownership labels of an object. owner is the value of SandboxLabel, or empty in a cluster of the
// sandbox.
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

// OwnedBy reports whether an object has the ownership labels that SetOwner sets for owner.
func OwnedBy(object metav1.Object, owner string) bool {
	return object.GetLabels()[ManagedBy] == MarkName && object.GetLabels()[SandboxLabel] == owner
}

// create creates an object. While the namespace of the object does not exist, create retries until ctx ends.
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

// Revoke deletes the objects that Grant has created for owner, in reverse order.
func Revoke(ctx context.Context, c *Cluster, objects []*unstructured.Unstructured, owner string) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("creating a client for the cluster: %w", err)
	}
	var errs []error
	for _, object := range slices.Backward(objects) {
		if err := RemoveOwned(ctx, ClientOf(client, object), object.GetName(), owner); err != nil {
			errs = append(errs, fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// RemoveOwned deletes an object that has the ownership labels of owner. A missing object is not an error. RemoveOwned
// keeps a CustomResourceDefinition that another field manager has changed, because deleting it would also delete the
// custom resources of other users.
func RemoveOwned(ctx context.Context, client dynamic.ResourceInterface, name, owner string) error {
	existing, err := client.Get(ctx, name, metav1.GetOptions{})
	if err == nil && OwnedBy(existing, owner) &&
		(existing.GetKind() != "CustomResourceDefinition" || !changedByOthers(existing)) {
		err = client.Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(existing.GetUID()))})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// changedByOthers reports whether a field manager other than the sandbox has changed the object. It ignores status
// changes.
func changedByOthers(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(object.GetManagedFields(),
		func(m metav1.ManagedFieldsEntry) bool { return m.Manager != MarkName && m.Subresource == "" })
}

// NewClient returns a client that uses protobuf, which takes far less CPU time than JSON.
func NewClient(c *Cluster) (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.Wrap(apiwait.RetryWatches)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the cluster: %w", err)
	}
	return client, nil
}
