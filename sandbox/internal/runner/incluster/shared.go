package incluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
)

// shared reports whether the cluster is the user's.
func (c *Controller) shared() bool { return c.o.Containers == nil }

// notOurs refuses what only who has the nodes can do.
func notOurs(name string, action component.Action) error {
	return component.Refuse("%s cannot be told to %s: the nodes of this cluster are not the sandbox's; stop, start and restart work there", name, action)
}

// theirs reports whether an object is there that no sandbox has made, which is left as it is: rights, and
// the definition of Module, are good enough. A Deployment and its Secrets are a controller of somebody
// else's, and an error.
func (c *Controller) theirs(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	there, err := c.api(object).Get(ctx, object.GetName(), metav1.GetOptions{})
	switch kind := object.GetKind(); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for %s %s: %w", kind, object.GetName(), err)
	case cluster.Owned(there, c.o.Owner):
		return false, nil
	case kind == "Deployment" || kind == "Secret":
		return true, fmt.Errorf("%s %s/%s belongs to a module controller that this sandbox has not created; choose another cluster, or uninstall that controller first if nothing uses it",
			kind, there.GetNamespace(), there.GetName())
	default:
		return true, nil
	}
}

// Forget removes from a cluster of the user's what sandboxes have put there for controllers, and nothing
// else. It blocks until their Pods have ended.
func (c *Controller) Forget(ctx context.Context) error {
	if err := c.Remove(ctx); err != nil {
		return err
	}
	objects, err := manifests(Settings{})
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range slices.Backward(objects) {
		if object.GetKind() == "Namespace" {
			if used, err := c.namespaceUsed(ctx); used || err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if err := cluster.RemoveOurs(ctx, c.api(object), object.GetName(), c.o.Owner); err != nil {
			errs = append(errs, fmt.Errorf("removing %s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// namespaceUsed reports whether the namespace has workloads or data of another user, which would be deleted
// with the namespace. The objects of the sandbox must already be removed.
func (c *Controller) namespaceUsed(ctx context.Context) (bool, error) {
	for _, resource := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps"), corev1.SchemeGroupVersion.WithResource("services"),
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), corev1.SchemeGroupVersion.WithResource("pods"),
		appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithResource("statefulsets"), appsv1.SchemeGroupVersion.WithResource("daemonsets"),
	} {
		list, err := c.dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("listing %s of namespace %s: %w", resource.Resource, namespace, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if !cluster.Owned(o, c.o.Owner) && o.GetName() != rootCA && o.GetDeletionTimestamp() == nil {
				return true, nil
			}
		}
	}
	return false, nil
}

// rootCA is the ConfigMap that Kubernetes creates in each namespace.
const rootCA = "kube-root-ca.crt"

// Forget removes the objects that a sandbox has created for its controllers in an existing cluster, after its
// daemon has ended. owner is Options.Owner.
func Forget(ctx context.Context, config *rest.Config, owner string) error {
	c, err := New(Options{Config: config, Owner: owner})
	if err != nil {
		return err
	}
	return c.Forget(ctx)
}
