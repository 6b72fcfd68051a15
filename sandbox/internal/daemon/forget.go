package daemon

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/container"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// Forget removes from a cluster that stays what a sandbox made in it, when its
// daemon is gone and cannot say what that was: the Nodes of its bases, the
// objects with its label, and the mark. A cluster that does not bear the sandbox's mark is left
// alone, and so is one that goes with the sandbox; a cluster of kind is removed as a whole.
func Forget(ctx context.Context, dir state.Dir, config *v1alpha1.Sandbox) error {
	switch EffectiveProvider(config) {
	case v1alpha1.ProviderExisting:
	case v1alpha1.ProviderKind:
		o := kindOptions(dir, config, nil, nil)
		return errors.Join(forgetContainers(ctx, dir, config, o), kind.Forget(ctx, o))
	default:
		return nil
	}
	p, err := newExisting(config)
	if err != nil {
		return err
	}
	client, err := newClient(p.Cluster())
	if err != nil {
		return err
	}
	if marked, err := cluster.Marked(ctx, client, config.Metadata.Name); err != nil || !marked {
		return err
	}
	// The bases reported this cluster name, which is the sandbox's own unless the
	// user chose another.
	selector := vnodeSelector + ",base.koupleless.io/cluster-name=" + config.Spec.Bases.ClusterName
	return errors.Join(removeNodes(ctx, client, selector, func(string) bool { return true }),
		removeLabelled(ctx, p.Cluster()), p.Down(ctx))
}

// forgetContainers removes what is left of bases in containers: they end with their daemon, unless the engine had trouble.
func forgetContainers(ctx context.Context, dir state.Dir, config *v1alpha1.Sandbox, o kind.Options) error {
	engine, err := kind.EngineOf(ctx, o)
	if errors.Is(err, kind.ErrNoEngine) {
		return nil
	}
	if err != nil {
		return err
	}
	return container.New(containerOptions(dir, config, engine)).Sweep(ctx)
}

func removeLabelled(ctx context.Context, c *cluster.Cluster) error {
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
		o := madeObject{resource: resource, namespace: object.GetNamespace(), name: object.GetName()}
		found, err := o.client(client).Get(ctx, o.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("looking for %s %s: %w", object.GetKind(), o.name, err))
		case found.GetLabels()[cluster.ManagedBy] == cluster.MarkName:
			o.uid = found.GetUID()
			errs = append(errs, removeRights(ctx, c, []madeObject{o}))
		}
	}
	return errors.Join(errs...)
}
