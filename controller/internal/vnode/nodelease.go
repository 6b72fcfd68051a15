package vnode

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// nodeLeaseInterval returns the time between two renewals of the Lease of a Node. The interval is short enough that
// the Lease stays valid if one renewal fails.
func (r *Reconciler) nodeLeaseInterval() time.Duration { return r.opts.NodeLease / 2 }

// renewNodeLease renews the Lease of a Node if the renewal is due or the journal is full. It returns the time of the
// next renewal.
func (r *Reconciler) renewNodeLease(ctx context.Context, identity string, s *state) (time.Duration, error) {
	left := s.leaseDue.Sub(r.opts.Clock.Now())
	if s.lease != nil && left > 0 && !r.journal.needsNodeLease(identity) {
		return left, nil
	}
	newest, served := r.newRecord(s)
	if !served {
		return 0, nil // the guard reconciles the base when this controller may act
	}
	return r.writeNodeLease(ctx, s, newest)
}

// writeNodeLease writes the Lease of a Node with an install record, and returns the time of the next renewal.
func (r *Reconciler) writeNodeLease(ctx context.Context, s *state, newest installRecord) (time.Duration, error) {
	now := r.opts.Clock.Now()
	var err error
	if s.lease != nil {
		s.lease, err = r.leases.Update(ctx, r.fillLease(s.lease.DeepCopy(), s, newest), metav1.UpdateOptions{})
	} else {
		s.lease, err = r.leases.Create(ctx, r.fillLease(&coordinationv1.Lease{}, s, newest), metav1.CreateOptions{})
	}
	// Another client has written or deleted the Lease.
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		s.lease, err = r.leases.Get(ctx, s.nodeName, metav1.GetOptions{})
		if err == nil {
			s.lease, err = r.leases.Update(ctx, r.fillLease(s.lease, s, newest), metav1.UpdateOptions{})
		}
	}
	if err != nil {
		s.lease = nil
		return 0, fmt.Errorf("renewing the Lease of Node %q: %w", s.nodeName, err)
	}
	s.leaseDue, s.installRecord = now.Add(r.nodeLeaseInterval()), newest.Modules
	r.journal.recordOnLease(s.identity, newest)
	return r.nodeLeaseInterval(), nil
}

// fillLease sets the fields of the Lease of a Node. Like a kubelet, it sets the Node as the holder. It clears the
// managed fields, which would otherwise take half the size of the stored object.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields
func (r *Reconciler) fillLease(l *coordinationv1.Lease, s *state, newest installRecord) *coordinationv1.Lease {
	l.Name, l.Namespace = s.nodeName, corev1.NamespaceNodeLease
	l.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	l.Labels = mergeMaps(l.Labels,
		map[string]string{labels.Component: labels.VnodeLease, labels.Env: labelValue(r.opts.Env)})
	delete(l.Annotations, labels.InstallRecord)
	if newest.Modules != "" {
		l.Annotations = mergeMaps(l.Annotations, map[string]string{labels.InstallRecord: newest.Modules})
	}
	l.Spec.HolderIdentity = ptr.To(s.nodeName)
	l.Spec.LeaseDurationSeconds = ptr.To(int32(r.opts.NodeLease.Seconds()))
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.UnixMicro(newest.At)))
	return l
}

func (r *Reconciler) deleteNodeLease(ctx context.Context, s *state) error {
	o := metav1.DeleteOptions{}
	if s.lease != nil && s.lease.UID != "" {
		o = *metav1.NewPreconditionDeleteOptions(string(s.lease.UID))
	}
	if err := r.leases.Delete(ctx, s.nodeName, o); ignoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Lease of Node %q: %w", s.nodeName, err)
	}
	return nil
}
