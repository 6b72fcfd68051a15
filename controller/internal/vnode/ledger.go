package vnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// The Lease of a Node keeps what Pods had put on its base. It is written every 20 s anyway, so this
// costs nothing at rest; it outlives the controller, and the Node. What is new in between is in the journal.
const (
	// ledgerKept is how long the Lease of a base stays that fell silent with something on it: one
	// that was cut off comes back with it.
	ledgerKept  = 24 * time.Hour
	ledgerCheck = time.Hour
)

// LedgerChanged says that Options.Ledger has something new to tell of a base. It does not block.
func (r *Reconciler) LedgerChanged(identity string) { r.journal.note(identity) }

// KeepLedger blocks until what Options.Ledger tells of a base now is kept, or until ctx ends. Call it
// before a base is asked for what must not be forgotten. What many bases are asked for at once is one write.
func (r *Reconciler) KeepLedger(ctx context.Context, identity string) { r.journal.keep(ctx, identity) }

// tryEntry makes an entry of what the ledger of a base says, without waiting for anybody.
func (r *Reconciler) tryEntry(identity string) (entry, reading) {
	s := r.state(identity)
	if s == nil {
		return entry{}, readNever
	}
	if !s.telling.TryLock() {
		return entry{}, readLater
	}
	defer s.telling.Unlock()
	if !r.Owns(identity) {
		return entry{}, readNever
	}
	ledger := r.opts.Ledger(identity)
	if r.journal.says(identity, ledger) {
		return entry{}, readSame
	}
	return r.journal.stamp(identity, ledger), readNew
}

// newEntry makes an entry of what the ledger of a base says, if this controller serves it.
func (r *Reconciler) newEntry(s *state) (_ entry, served bool) {
	s.telling.Lock() // else it may be read while the base is taken or lost, and says nothing
	defer s.telling.Unlock()
	if !r.Owns(s.identity) {
		return entry{}, false
	}
	return r.journal.stamp(s.identity, r.opts.Ledger(s.identity)), true
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

// readLedger reads what is kept of a base, before this controller begins to serve it: what was written last
// counts, on the Lease of its Node or in a journal.
func (r *Reconciler) readLedger(ctx context.Context, s *state) error {
	var newest entry
	s.lease, s.leaseDue = nil, time.Time{}
	if !s.leaseless { // who made one since then had made the Node before, which would have been there
		l, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, s.nodeName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading the lease of node %q: %w", s.nodeName, err)
		default:
			if newest = onLease(l); r.isForeign(l) {
				newest.Ledger = ""
			} else {
				s.lease = l
			}
		}
	}
	for _, read := range []func(context.Context, string) (entry, error){r.journal.own, r.journal.newest} {
		noted, err := read(ctx, s.identity)
		if err != nil {
			return err
		}
		if noted.At > newest.At {
			newest = noted
		}
	}
	s.ledger = newest.Ledger
	r.journal.restored(s.identity, newest)
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
	if _, err := r.writeNodeLease(ctx, s, r.journal.stamp(s.identity, s.ledger)); err != nil {
		return false, err
	}
	return true, nil
}

// closeJournal has the Leases of Nodes say what the journal says, and deletes it: a controller that ends leaves
// nothing of its own. Call it when nothing else runs any more.
func (r *Reconciler) closeJournal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(workers)
	for _, identity := range r.journal.open() {
		if s := r.state(identity); s != nil && r.member.Acting() {
			group.Go(func() error {
				s.leaseDue = time.Time{}
				_, err := r.renewNodeLease(ctx, identity, s)
				return err
			})
		}
	}
	return errors.Join(group.Wait(), r.journal.release(ctx))
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

// forgetOld deletes the Leases that no controller has written for ledgerKept. This controller measures that
// time itself, because the times on the Leases depend on clocks that may have been changed. So it deletes no
// Lease in its first ledgerKept.
func (r *Reconciler) forgetOld(ctx context.Context) error {
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	before, now := merged(nil, r.notes), r.opts.Clock.Now()
	r.notes = map[string]seenLease{}
	forget := func(obj runtime.Object) error {
		l, is := obj.(*coordinationv1.Lease)
		if !is || r.isOfUse(l) {
			return nil
		}
		seen := before[l.Name]
		if seen.version != l.ResourceVersion {
			seen = seenLease{name: l.Name, version: l.ResourceVersion, changed: now}
		}
		if now.Sub(seen.changed) < r.opts.Speed.Of(ledgerKept) {
			r.notes[l.Name] = seen
			return nil
		}
		if err := leases.Delete(ctx, l.Name, asKnown(l)); ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
		return nil
	}
	pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) { return leases.List(ctx, o) }))
	for _, selector := range []string{labels.Component + "=" + labels.VnodeLease + "," + labels.Env + "=" + labelValue(r.opts.Env), ledgerLeases(r.opts.Env)} {
		if err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, forget); err != nil {
			maps.Copy(before, r.notes) // keep the Leases that were not listed for the next run
			r.notes = before
			return err
		}
	}
	return nil
}

// isOfUse says whether a Lease is this controller's journal, or that of a Node that is there, or has nothing to do
// with ledgers.
func (r *Reconciler) isOfUse(l *coordinationv1.Lease) bool {
	if l.Labels[labels.Component] == labels.LedgerLease {
		return l.Name == r.journal.name()
	}
	_, err := r.nodes.Get(l.Name)
	return err == nil || l.Annotations[labels.Placed] == ""
}
