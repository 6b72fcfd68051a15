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

// keepLease takes or renews the Lease of a base when that is due, and returns
// how long until it is due again. The Lease is a Node Lease at the same time:
// the node lifecycle controller of Kubernetes watches it too.
func (k *Keeper) keepLease(ctx context.Context, s *state) (time.Duration, error) {
	now := k.opts.Clock.Now()
	l := &s.lease
	if l.lease != nil && now.Before(l.next) {
		return l.next.Sub(now), nil
	}
	if l.held {
		return k.renew(ctx, s)
	}
	if wait := k.workloadDelay(l); wait > 0 {
		return wait, nil
	}
	return k.take(ctx, s)
}

// take creates the Lease, or takes over one whose holder is gone or this very controller.
func (k *Keeper) take(ctx context.Context, s *state) (time.Duration, error) {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Create(ctx, k.newLease(s.nodeName), metav1.CreateOptions{})
	if err == nil {
		return k.hold(s, lease), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return 0, err
	}
	if lease, err = leases.Get(ctx, s.nodeName, metav1.GetOptions{}); err != nil {
		return 0, err
	}
	if expires := k.expiry(lease); k.holder(lease) != k.opts.Holder && k.opts.Clock.Now().Before(expires) && (k.opts.Cluster || s.lease.lease != nil) {
		s.lease.lease, s.lease.next, s.lease.after = lease, expires, time.Time{}
		return expires.Sub(k.opts.Clock.Now()), nil
	}
	if previous := k.holder(lease); previous != k.opts.Holder {
		k.opts.Logger.Info("taking over a base", "node", s.nodeName, "from", previous)
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
		lease.Spec.AcquireTime = k.microTime()
	}
	return k.write(ctx, s, lease)
}

func (k *Keeper) renew(ctx context.Context, s *state) (time.Duration, error) {
	wait, err := k.write(ctx, s, s.lease.lease.DeepCopy())
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return wait, err
	}
	// Somebody wrote it: find out who holds it.
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, s.nodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return k.take(ctx, s)
	case err != nil:
		return 0, err
	case k.holder(lease) == k.opts.Holder:
		return k.write(ctx, s, lease)
	}
	k.opts.Logger.Warn("another controller took this base; if IS_CLUSTER is false there must be only one", "node", s.nodeName, "holder", k.holder(lease))
	s.lease = leaseState{lease: lease, next: k.expiry(lease)}
	return s.lease.next.Sub(k.opts.Clock.Now()), nil
}

func (k *Keeper) write(ctx context.Context, s *state, lease *coordinationv1.Lease) (time.Duration, error) {
	lease.Spec.HolderIdentity = ptr.To(k.opts.Holder)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(k.opts.LeaseDuration.Seconds()))
	lease.Spec.RenewTime = k.microTime()
	written, err := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return 0, err
	}
	return k.hold(s, written), nil
}

func (k *Keeper) hold(s *state, lease *coordinationv1.Lease) time.Duration {
	lease.ManagedFields = nil // the API server keeps its own
	now := k.opts.Clock.Now()
	interval := k.opts.LeaseDuration / 4
	s.lease = leaseState{held: true, lease: lease, renewed: now, next: now.Add(interval)}
	return interval
}

// checkLost steps down when this controller's own renewals failed for a whole
// lease: another one may serve the base by now.
func (k *Keeper) checkLost(identity string, s *state) {
	if s.lease.held && k.opts.Clock.Since(s.lease.renewed) > k.opts.LeaseDuration {
		s.lease = leaseState{}
		k.setOwned(identity, s, false)
	}
}

func (k *Keeper) deleteLease(ctx context.Context, s *state) error {
	err := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, s.nodeName, metav1.DeleteOptions{})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("deleting the lease: %w", err)
	}
	return nil
}

func (k *Keeper) newLease(nodeName string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      nodeName,
			Namespace: corev1.NamespaceNodeLease,
			Labels:    map[string]string{labels.Component: labels.VnodeLease, labels.Env: labelValue(k.opts.Env)},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(k.opts.Holder),
			LeaseDurationSeconds: ptr.To(int32(k.opts.LeaseDuration.Seconds())),
			AcquireTime:          k.microTime(),
			RenewTime:            k.microTime(),
		},
	}
}

func (k *Keeper) microTime() *metav1.MicroTime {
	return ptr.To(metav1.NewMicroTime(k.opts.Clock.Now()))
}

func (k *Keeper) holder(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }

func (k *Keeper) expiry(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	duration := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, int32(k.opts.LeaseDuration.Seconds()))) * time.Second
	return l.Spec.RenewTime.Add(duration)
}

// workloadDelay is how long a controller in a cluster holds back before it asks
// for a base: the more of all bases it serves, the longer, so that the others
// come first (Module Controller V2 document 5.4, WORKLOAD_MAX_LEVEL). The jitter
// breaks ties.
func (k *Keeper) workloadDelay(l *leaseState) time.Duration {
	if !k.opts.Cluster {
		return 0
	}
	now := k.opts.Clock.Now()
	if !l.after.IsZero() { // what the base says meanwhile does not shorten it
		return l.after.Sub(now)
	}
	k.mu.Lock()
	mine, all := 0, len(k.states)
	for _, s := range k.states {
		if s.owned {
			mine++
		}
	}
	k.mu.Unlock()
	level := mine * k.opts.MaxLevel / (all + 1)
	delay := time.Duration(level)*levelDelay + rand.N(levelDelay)
	l.after = now.Add(delay)
	return delay
}

// levelDelay is the delay for one workload level of the original controller.
const levelDelay = 100 * time.Millisecond
