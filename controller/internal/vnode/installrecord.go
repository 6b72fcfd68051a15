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
	// recordRetention is how long the Lease of an unreachable base with an install record is kept after its Node is
	// deleted.
	recordRetention        = 24 * time.Hour
	retentionCheckInterval = time.Hour
)

// InstallRecordChanged reports that Options.InstallRecord returns something new for a base. It does not block.
func (r *Reconciler) InstallRecordChanged(identity string) { r.journal.note(identity) }

// SaveInstallRecord blocks until the install record of a base is stored, or until ctx ends. Call it before a command that
// must not be forgotten. The records of many bases take one write.
func (r *Reconciler) SaveInstallRecord(ctx context.Context, identity string) {
	r.journal.keep(ctx, identity)
}

// tryRecord is journal.read. It does not block.
func (r *Reconciler) tryRecord(identity string) (installRecord, reading) {
	s := r.state(identity)
	if s == nil {
		return installRecord{}, readNever
	}
	if !s.callbackMu.TryLock() {
		return installRecord{}, readLater
	}
	defer s.callbackMu.Unlock()
	if !r.Owns(identity) {
		return installRecord{}, readNever
	}
	ledger := r.opts.InstallRecord(identity)
	if r.journal.isStored(identity, ledger) {
		return installRecord{}, readSame
	}
	return r.journal.stamp(identity, ledger), readNew
}

// newRecord returns an entry with the install record of a base, if this controller serves it.
func (r *Reconciler) newRecord(s *state) (_ installRecord, served bool) {
	s.callbackMu.Lock() // OnOwned and OnLost change the record
	defer s.callbackMu.Unlock()
	if !r.Owns(s.identity) {
		return installRecord{}, false
	}
	return r.journal.stamp(s.identity, r.opts.InstallRecord(s.identity)), true
}

// HeartbeatsTimedOut records that a base was removed because it missed heartbeats. It may recover with its modules. It does
// not block.
func (r *Reconciler) HeartbeatsTimedOut(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[identity]; s != nil {
		s.silent = true
	}
}

// readInstallRecord reads the install record of a base before this controller begins to serve it: the newest one of the
// Lease of its Node and of all journals.
func (r *Reconciler) readInstallRecord(ctx context.Context, s *state) error {
	var newest installRecord
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
				newest.Modules = ""
			} else {
				s.lease = l
			}
		}
	}
	for _, read := range []func(context.Context, string) (installRecord, error){r.journal.own, r.journal.newest} {
		noted, err := read(ctx, s.identity)
		if err != nil {
			return err
		}
		if noted.At > newest.At {
			newest = noted
		}
	}
	s.installRecord = newest.Modules
	r.journal.restored(s.identity, newest)
	return nil
}

// retainNodeLease keeps the Lease of a base that missed heartbeats if it has an install record, and reports whether it
// did.
func (r *Reconciler) retainNodeLease(ctx context.Context, s *state) (bool, error) {
	r.mu.Lock()
	silent := s.silent
	r.mu.Unlock()
	if !silent || s.installRecord == "" {
		return false, nil
	}
	s.leaseDue = time.Time{}
	if _, err := r.writeNodeLease(ctx, s, r.journal.stamp(s.identity, s.installRecord)); err != nil {
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
		if s := r.state(identity); s != nil && r.ownLease.Acting() {
			group.Go(func() error {
				s.leaseDue = time.Time{}
				_, err := r.renewNodeLease(ctx, identity, s)
				return err
			})
		}
	}
	return errors.Join(group.Wait(), r.journal.release(ctx))
}

// deleteOldLeases deletes old Leases of bases that have not recovered, until ctx ends.
func (r *Reconciler) deleteOldLeases(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.deleteOldLeasesOnce(ctx); err != nil && ctx.Err() == nil {
			r.opts.Logger.Warn("could not look for leases of bases that have not come back", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-r.opts.Clock.After(r.opts.Speed.Of(retentionCheckInterval)):
		}
	}
}

// deleteOldLeasesOnce deletes the Leases that no controller has written for recordRetention. This controller measures the time
// itself, because clocks may have been changed, so it deletes none in its first recordRetention.
func (r *Reconciler) deleteOldLeasesOnce(ctx context.Context) error {
	before, now := merged(nil, r.notes), r.opts.Clock.Now()
	r.notes = map[string]seenLease{}
	forget := func(l *coordinationv1.Lease) error {
		if r.isInUse(l) {
			return nil
		}
		seen := before[l.Name]
		if seen.version != l.ResourceVersion {
			seen = seenLease{name: l.Name, version: l.ResourceVersion, changed: now}
		}
		if now.Sub(seen.changed) < r.opts.Speed.Of(recordRetention) {
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
		journalSelector(r.opts.Env)} {
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

// isInUse reports whether a Lease is the journal of this controller, belongs to an existing Node, or has no install
// record.
func (r *Reconciler) isInUse(l *coordinationv1.Lease) bool {
	if l.Labels[labels.Component] == labels.InstallRecordLease {
		return l.Name == r.journal.name()
	}
	_, err := r.nodes.Get(l.Name)
	return err == nil || l.Annotations[labels.InstallRecord] == ""
}
