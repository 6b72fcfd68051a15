package vnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// The Lease of a Node has the install record of its base. It is written every 20 s anyway, and outlives the
// controller and the Node. Newer records are in the journal.
const (
	// ledgerKept is how long the Lease of an unreachable base with an install record is kept after its Node is
	// deleted.
	ledgerKept  = 24 * time.Hour
	ledgerCheck = time.Hour
)

// LedgerChanged reports that Options.Ledger returns something new for a base. It does not block.
func (r *Reconciler) LedgerChanged(identity string) { r.journal.note(identity) }

// KeepLedger blocks until the install record of a base is stored, or until ctx ends. Call it before a command that
// must not be forgotten. The records of many bases take one write.
func (r *Reconciler) KeepLedger(ctx context.Context, identity string) { r.journal.keep(ctx, identity) }

// tryEntry is journal.read. It does not block.
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

// newEntry returns an entry with the install record of a base, if this controller serves it.
func (r *Reconciler) newEntry(s *state) (_ entry, served bool) {
	s.telling.Lock() // Owned and Lost change the record
	defer s.telling.Unlock()
	if !r.Owns(s.identity) {
		return entry{}, false
	}
	return r.journal.stamp(s.identity, r.opts.Ledger(s.identity)), true
}

// FellSilent records that a base was removed because it missed heartbeats. It may recover with its modules. It does
// not block.
func (r *Reconciler) FellSilent(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[identity]; s != nil {
		s.silent = true
	}
}

// readLedger reads the install record of a base before this controller begins to serve it: the newest one of the
// Lease of its Node and of all journals.
func (r *Reconciler) readLedger(ctx context.Context, s *state) error {
	var newest entry
	s.lease, s.leaseDue = nil, time.Time{}
	if !s.leaseless { // who made one since then had made the Node before, which would have been there
		l, err := r.leases.Get(ctx, s.nodeName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading the lease of node %q: %w", s.nodeName, err)
		default:
			newest = onLease(l)
			if r.isForeign(l) {
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

// keepLedger keeps the Lease of a base that missed heartbeats if it has an install record, and reports whether it
// did.
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

// closeJournal moves the entries of the journal to the Leases of Nodes and deletes it. Call it at the end.
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

// forgetLedgers deletes old Leases of bases that have not recovered, until ctx ends.
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

// forgetOld deletes the Leases that no controller has written for ledgerKept. This controller measures the time
// itself, because clocks may have been changed, so it deletes none in its first ledgerKept.
func (r *Reconciler) forgetOld(ctx context.Context) error {
	before, now := merged(nil, r.notes), r.opts.Clock.Now()
	r.notes = map[string]seenLease{}
	forget := func(l *coordinationv1.Lease) error {
		if r.isOfUse(l) {
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
		if err := r.leases.Delete(ctx, l.Name, asKnown(l)); ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
		return nil
	}
	for _, selector := range []string{
		labels.Component + "=" + labels.VnodeLease + "," + labels.Env + "=" + labelValue(r.opts.Env),
		ledgerLeases(r.opts.Env)} {
		found, err := r.leases.List(ctx, metav1.ListOptions{LabelSelector: selector})
		for i := 0; err == nil && i < len(found.Items); i++ {
			err = forget(&found.Items[i])
		}
		if err != nil {
			maps.Copy(before, r.notes) // keep the Leases that were not listed for the next run
			r.notes = before
			return err
		}
	}
	return nil
}

// isOfUse reports whether a Lease is the journal of this controller, belongs to an existing Node, or has no install
// record.
func (r *Reconciler) isOfUse(l *coordinationv1.Lease) bool {
	if l.Labels[labels.Component] == labels.LedgerLease {
		return l.Name == r.journal.name()
	}
	_, err := r.nodes.Get(l.Name)
	return err == nil || l.Annotations[labels.Placed] == ""
}
