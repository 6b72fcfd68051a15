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
)

// inExistingCluster reports whether the controllers run in an existing cluster, which the sandbox did not create.
func (c *Runner) inExistingCluster() bool { return c.o.Local == nil }

// belongsToOther reports whether an object in an existing cluster belongs to another owner. Permissions and the
// CustomResourceDefinition can be shared with other owners. If a Deployment or a Secret belongs to another owner,
// another controller is installed, and belongsToOther returns an error.
func (c *Runner) belongsToOther(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	if !c.inExistingCluster() {
		return false, nil
	}
	existing, err := cluster.ClientOf(c.dynamic, object).Get(ctx, object.GetName(), metav1.GetOptions{})
	switch kind := object.GetKind(); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %s: %w", kind, object.GetName(), err)
	case cluster.OwnedBy(existing, c.o.Owner):
		return false, nil
	case kind == "Deployment" || kind == "Secret":
		return true, fmt.Errorf(
			"%s %s/%s belongs to a module controller that this sandbox did not create; choose another "+
				"cluster, or uninstall that controller first if it is unused",
			kind, existing.GetNamespace(), existing.GetName())
	default:
		return true, nil
	}
}

// cleanUp removes the objects that the sandbox created for its controllers in an existing cluster. It blocks until
// the Pods have terminated.
func (c *Runner) cleanUp(ctx context.Context) error {
	if err := c.removeAll(ctx); err != nil {
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
		if err := cluster.RemoveOwned(ctx, cluster.ClientOf(c.dynamic, object), object.GetName(),
			c.o.Owner); err != nil {
			errs = append(errs, fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// namespaceUsed reports whether the namespace of the controllers contains workloads or data of another owner.
// Deleting the namespace would delete these objects, too. Call namespaceUsed after the objects of the sandbox have
// been deleted.
func (c *Runner) namespaceUsed(ctx context.Context) (bool, error) {
	for _, resource := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithResource("services"),
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		corev1.SchemeGroupVersion.WithResource("pods"),
		appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithResource("statefulsets"),
		appsv1.SchemeGroupVersion.WithResource("daemonsets"),
	} {
		list, err := c.dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("listing %s in namespace %s: %w", resource.Resource, namespace, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if !cluster.OwnedBy(o, c.o.Owner) && o.GetName() != rootCA && o.GetDeletionTimestamp() == nil {
				return true, nil
			}
		}
	}
	return false, nil
}

// rootCA is the name of the ConfigMap that Kubernetes creates in each namespace.
const rootCA = "kube-root-ca.crt"

// CleanUp removes the objects that a sandbox created for its controllers in an existing cluster. owner is
// Options.Owner. Call CleanUp after the daemon of the sandbox has exited.
func CleanUp(ctx context.Context, config *rest.Config, owner string) error {
	c, err := New(Options{Config: config, Owner: owner})
	if err != nil {
		return err
	}
	return c.cleanUp(ctx)
}
