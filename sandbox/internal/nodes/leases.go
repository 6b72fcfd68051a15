package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// RemoveLeases deletes what controllers of an environment that have ended keep for those that come: the
// Leases of Nodes that are gone, which tell what was put on their bases, and their own Leases that nobody
// holds any more. What a controller that runs holds stays.
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
	var errs []error
	for i := range found.Items {
		l := &found.Items[i]
		left := !held(l, time.Now())
		if l.Labels[labels.Component] == labels.VnodeLease {
			_, err := client.CoreV1().Nodes().Get(ctx, l.Name, metav1.GetOptions{})
			left = apierrors.IsNotFound(err)
		}
		if !left {
			continue
		}
		o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}}
		if err := leases.Delete(ctx, l.Name, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("removing Lease %s: %w", l.Name, err))
		}
	}
	return errors.Join(errs...)
}

// held tells whether somebody holds a Lease.
func held(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second))
}
