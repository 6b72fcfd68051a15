package nodes

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// lookPause is how often a Lease that somebody may hold is looked at.
const lookPause = 500 * time.Millisecond

// RemoveLeases deletes what controllers of an environment that have ended keep for those that come: the
// Leases of Nodes that are gone, which tell what was put on their bases, and their own Leases. That of a
// controller that runs stays: it is renewed. One that was killed has left its own as if it ran, so
// RemoveLeases blocks until such a Lease is renewed, or was not for as long as it is good for: 15 s.
func RemoveLeases(ctx context.Context, client kubernetes.Interface, env string) error {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	of := labels.Env + "=" + env + "," + labels.Component
	found, err := leases.List(ctx, metav1.ListOptions{LabelSelector: of + " in (" + labels.VnodeLease + "," + labels.ControllerLease + "," + labels.LedgerLease + ")"})
	if err != nil {
		return fmt.Errorf("listing the Leases of controllers: %w", err)
	}
	peer, err := leases.Get(ctx, labels.PeerLeasePrefix+env, metav1.GetOptions{})
	switch {
	case err == nil:
		found.Items = append(found.Items, *peer)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("looking for a Lease of controllers: %w", err)
	}
	var group errgroup.Group // what fails does not keep the others from going
	group.SetLimit(removedAtOnce)
	for i := range found.Items {
		group.Go(func() error {
			err := removeLease(ctx, client, &found.Items[i])
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("removing Lease %s: %w", found.Items[i].Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// removeLease deletes a Lease, if what it belongs to is gone; when somebody has renewed it since it was read it
// stays, with or without an error.
func removeLease(ctx context.Context, client kubernetes.Interface, l *coordinationv1.Lease) error {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if l.Labels[labels.Component] == labels.VnodeLease {
		if _, err := client.CoreV1().Nodes().Get(ctx, l.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
	} else if ptr.Deref(l.Spec.HolderIdentity, "") != "" {
		// Not by the time in the Lease: that is of the clock of another machine.
		good := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
		err := wait.PollUntilContextTimeout(ctx, lookPause, good, false, func(ctx context.Context) (renewed bool, err error) {
			is, err := leases.Get(ctx, l.Name, metav1.GetOptions{})
			return err == nil && is.ResourceVersion != l.ResourceVersion, err
		})
		if !wait.Interrupted(err) || ctx.Err() != nil {
			return err
		}
	}
	return leases.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}})
}
