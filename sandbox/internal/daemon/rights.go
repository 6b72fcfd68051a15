package daemon

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

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
)

// namespacePoll is how often to look for a namespace that a fresh API server
// makes by itself, moments after it is ready.
const namespacePoll = 20 * time.Millisecond

// madeObject is an object that was not there before.
type madeObject struct {
	resource        schema.GroupVersionResource
	namespace, name string
	uid             types.UID
}

func (o madeObject) client(c dynamic.Interface) dynamic.ResourceInterface {
	if o.namespace == "" {
		return c.Resource(o.resource)
	}
	return c.Resource(o.resource).Namespace(o.namespace)
}

// applyRights creates what a controller outside the cluster needs, and returns
// what was created. What is there already is left as it is: in the sandbox's own
// cluster it is the same, in another it is not ours to change.
func applyRights(ctx context.Context, c *cluster.Cluster) ([]madeObject, error) {
	objects, err := deploy.Objects()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	var made []madeObject
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()) // right for the kinds of our manifests
		o := madeObject{resource: resource, namespace: object.GetNamespace(), name: object.GetName()}
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
	labels[cluster.ManagedBy] = cluster.MarkName
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

// removeRights removes what applyRights created, if it is still the same.
func removeRights(ctx context.Context, c *cluster.Cluster, made []madeObject) error {
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

// newClient returns a client that moves many objects: protobuf costs a fraction
// of JSON.
func newClient(c *cluster.Cluster) (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return client, nil
}
