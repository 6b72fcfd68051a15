package vnode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// leaseState is what this controller knows of the Lease of one base.
type leaseState struct {
	held  bool
	lease *coordinationv1.Lease // as last read or written; nil before the first look
	next  time.Time             // when it is due: a renewal, or a look whether the holder is still there
	// renewed is the last renewal that the API server confirmed.
	renewed time.Time
	// after is when the workload delay ends; zero before it began.
	after time.Time
}

// reconcileLease takes or renews the Lease of a base when that is due, and returns how long until
// it is due again. The Lease is a Node Lease at the same time: the node lifecycle controller of
// Kubernetes watches it too.
func (r *Reconciler) reconcileLease(ctx context.Context, s *state) (time.Duration, error) {
	now := r.opts.Clock.Now()
	l := &s.lease
	if l.lease != nil && now.Before(l.next) {
		return l.next.Sub(now), nil
	}
	if l.held {
		return r.renew(ctx, s)
	}
	if wait := r.workloadDelay(l); wait > 0 {
		return wait, nil
	}
	return r.acquire(ctx, s)
}

// acquire creates the Lease, or takes over one whose holder is gone or this very controller.
func (r *Reconciler) acquire(ctx context.Context, s *state) (time.Duration, error) {
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Create(ctx, r.newLease(s.nodeName), metav1.CreateOptions{})
	if err == nil {
		return r.held(s, lease), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return 0, err
	}
	if lease, err = leases.Get(ctx, s.nodeName, metav1.GetOptions{}); err != nil {
		return 0, err
	}
	if expires := r.expiry(lease); holder(lease) != r.opts.Holder && r.opts.Clock.Now().Before(expires) && (r.opts.Cluster || s.lease.lease != nil) {
		s.lease.lease, s.lease.next, s.lease.after = lease, expires, time.Time{}
		return expires.Sub(r.opts.Clock.Now()), nil
	}
	if previous := holder(lease); previous != r.opts.Holder {
		r.opts.Logger.Info("taking over a base", "node", s.nodeName, "from", previous)
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
		lease.Spec.AcquireTime = r.microTime()
	}
	return r.writeLease(ctx, s, lease)
}

func (r *Reconciler) renew(ctx context.Context, s *state) (time.Duration, error) {
	wait, err := r.writeLease(ctx, s, s.lease.lease.DeepCopy())
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return wait, err
	}
	// Somebody wrote it: find out who holds it.
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, s.nodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return r.acquire(ctx, s)
	case err != nil:
		return 0, err
	case holder(lease) == r.opts.Holder:
		return r.writeLease(ctx, s, lease)
	}
	r.opts.Logger.Warn("another controller took this base; if IS_CLUSTER is false there must be only one", "node", s.nodeName, "holder", holder(lease))
	s.lease = leaseState{lease: lease, next: r.expiry(lease)}
	return s.lease.next.Sub(r.opts.Clock.Now()), nil
}

// writeLease makes this controller the holder from now on.
func (r *Reconciler) writeLease(ctx context.Context, s *state, lease *coordinationv1.Lease) (time.Duration, error) {
	lease.Spec.HolderIdentity = ptr.To(r.opts.Holder)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(r.opts.LeaseDuration.Seconds()))
	lease.Spec.RenewTime = r.microTime()
	written, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return 0, err
	}
	return r.held(s, written), nil
}

// held notes that this controller holds the Lease, and returns when to renew it.
func (r *Reconciler) held(s *state, lease *coordinationv1.Lease) time.Duration {
	lease.ManagedFields = nil // the API server keeps its own
	now := r.opts.Clock.Now()
	interval := r.opts.LeaseDuration / 4
	s.lease = leaseState{held: true, lease: lease, renewed: now, next: now.Add(interval)}
	return interval
}

// stepDownIfExpired steps down when this controller's own renewals failed for a whole lease:
// another one may serve the base by now.
func (r *Reconciler) stepDownIfExpired(identity string, s *state) {
	if s.lease.held && r.opts.Clock.Since(s.lease.renewed) > r.opts.LeaseDuration {
		s.lease = leaseState{}
		r.setOwned(identity, s, false)
	}
}

func (r *Reconciler) deleteLease(ctx context.Context, s *state) error {
	err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, s.nodeName, metav1.DeleteOptions{})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("deleting the lease: %w", err)
	}
	return nil
}

func (r *Reconciler) newLease(nodeName string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      nodeName,
			Namespace: corev1.NamespaceNodeLease,
			Labels:    map[string]string{labels.Component: labels.VnodeLease, labels.Env: labelValue(r.opts.Env)},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(r.opts.Holder),
			LeaseDurationSeconds: ptr.To(int32(r.opts.LeaseDuration.Seconds())),
			AcquireTime:          r.microTime(),
			RenewTime:            r.microTime(),
		},
	}
}

func (r *Reconciler) microTime() *metav1.MicroTime {
	return ptr.To(metav1.NewMicroTime(r.opts.Clock.Now()))
}

func holder(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }

func (r *Reconciler) expiry(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	duration := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, int32(r.opts.LeaseDuration.Seconds()))) * time.Second
	return l.Spec.RenewTime.Add(duration)
}

// workloadDelay is how long a controller in a cluster holds back before it asks for a base: the
// more of all bases it serves, the longer, so that the others come first (Module Controller V2
// document 5.4, WORKLOAD_MAX_LEVEL). The jitter breaks ties.
func (r *Reconciler) workloadDelay(l *leaseState) time.Duration {
	if !r.opts.Cluster {
		return 0
	}
	now := r.opts.Clock.Now()
	if !l.after.IsZero() { // what the base says meanwhile does not shorten it
		return l.after.Sub(now)
	}
	r.mu.Lock()
	mine, all := 0, len(r.states)
	for _, s := range r.states {
		if s.owned {
			mine++
		}
	}
	r.mu.Unlock()
	level := mine * r.opts.MaxLevel / (all + 1)
	delay := time.Duration(level)*levelDelay + rand.N(levelDelay)
	l.after = now.Add(delay)
	return delay
}

// levelDelay is the delay for one workload level of the original controller.
const levelDelay = 100 * time.Millisecond
