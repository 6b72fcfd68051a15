package vnode

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// The Lease of a Node keeps what Pods had put on its base. It is written every 20 s anyway, so this
// costs nothing at rest; it outlives the controller, and the Node.
const (
	ledgerSoon = 3 * time.Second // after the last write, when there is something new and nobody waits
	// ledgerKept is how long the Lease of a base stays that fell silent with something on it: one
	// that was cut off comes back with it.
	ledgerKept  = 24 * time.Hour
	ledgerCheck = time.Hour
)

// LedgerChanged says that Options.Ledger has something new to tell of a base. It does not block.
func (r *Reconciler) LedgerChanged(identity string) { r.queue.Add(identity) }

// KeepLedger blocks until what Options.Ledger tells of a base now is kept, or until ctx ends. Call it
// before a base is asked for what must not be forgotten. What several ask for at once is one write.
func (r *Reconciler) KeepLedger(ctx context.Context, identity string) {
	kept := make(chan struct{})
	r.mu.Lock()
	r.waiting[identity] = append(r.waiting[identity], kept)
	r.mu.Unlock()
	r.queue.Add(identity)
	select {
	case <-kept:
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dropWaiting(identity, []chan struct{}{kept})
	}
}

func (r *Reconciler) waitingFor(identity string) []chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waiting[identity])
}

// kept tells those that waited that a base's ledger is kept.
func (r *Reconciler) kept(identity string, waiting []chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range waiting {
		close(w)
	}
	r.dropWaiting(identity, waiting)
}

// dropWaiting is called with the lock held.
func (r *Reconciler) dropWaiting(identity string, gone []chan struct{}) {
	rest := slices.DeleteFunc(r.waiting[identity], func(w chan struct{}) bool { return slices.Contains(gone, w) })
	if r.waiting[identity] = rest; len(rest) == 0 {
		delete(r.waiting, identity)
	}
}

// FellSilent says that a base is gone because it was silent, not because it said so: it may come
// back with what is on it. It does not block.
func (r *Reconciler) FellSilent(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[identity]; s != nil {
		s.silent = true
	}
}

// readLedger reads what the Lease of a base's Node tells, before this controller begins to serve it.
func (r *Reconciler) readLedger(ctx context.Context, s *state) error {
	l, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, s.nodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.lease, s.ledger = nil, ""
		return nil
	case err != nil:
		return fmt.Errorf("reading the lease of node %q: %w", s.nodeName, err)
	}
	s.lease, s.leaseDue, s.ledger = nil, time.Time{}, ""
	if !r.isForeign(l) {
		s.lease, s.ledger = l, l.Annotations[labels.Placed]
	}
	return nil
}

// keepLedger leaves the Lease of a base that fell silent with something on it as it is, and reports
// whether it did.
func (r *Reconciler) keepLedger(ctx context.Context, s *state) (bool, error) {
	r.mu.Lock()
	silent := s.silent
	r.mu.Unlock()
	if !silent || s.ledger == "" {
		return false, nil
	}
	s.leaseDue = time.Time{}
	ledger := s.ledger
	if _, err := r.writeNodeLease(ctx, s, ledger); err != nil {
		return false, err
	}
	return true, nil
}

// forgetLedgers deletes Leases that were kept for bases that have not come back, now and then, until
// ctx ends.
func (r *Reconciler) forgetLedgers(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.forgetOld(ctx); err != nil && ctx.Err() == nil {
			r.opts.Logger.Warn("could not look for leases of bases that have not come back", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-r.opts.Clock.After(r.opts.Speed.Of(ledgerCheck)):
		}
	}
}

func (r *Reconciler) forgetOld(ctx context.Context) error {
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	all, err := leases.List(ctx, metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.VnodeLease + "," + labels.Env + "=" + labelValue(r.opts.Env)})
	if err != nil {
		return err
	}
	for _, l := range all.Items {
		if _, err := r.nodes.Get(l.Name); err == nil || l.Annotations[labels.Placed] == "" || l.Spec.RenewTime == nil ||
			r.opts.Clock.Since(l.Spec.RenewTime.Time) < r.opts.Speed.Of(ledgerKept) {
			continue
		}
		o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}}
		if err := leases.Delete(ctx, l.Name, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}
