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

// The Lease of a Node contains the install record of its base. The Lease is suitable because it is written every 20 s
// anyway, and outlives the controller and the Node. Install records that are newer than the Lease are in the journal.
const (
	// recordRetention is how long the Lease with the install record of an unreachable base is kept after the Node of
	// the base was deleted.
	recordRetention        = 24 * time.Hour
	retentionCheckInterval = time.Hour
)

// InstallRecordChanged notifies the Reconciler that the result of Options.InstallRecord for a base has changed. It
// does not block.
func (r *Reconciler) InstallRecordChanged(identity string) { r.journal.markChanged(identity) }

// SaveInstallRecord blocks until the current install record of a base is saved, or ctx is done. Call it before
// sending an install command. One write saves the records of many bases.
func (r *Reconciler) SaveInstallRecord(ctx context.Context, identity string) {
	r.journal.waitUntilSaved(ctx, identity)
}

// tryRecord implements journal.read: it returns the current install record of a base without blocking.
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
	if r.journal.isSaved(identity, ledger) {
		return installRecord{}, readSame
	}
	return r.journal.stamp(identity, ledger), readNew
}

// newRecord returns the current install record of a base with a new timestamp. served reports whether this controller
// serves the base.
func (r *Reconciler) newRecord(s *state) (_ installRecord, served bool) {
	s.callbackMu.Lock() // OnOwned and OnLost change the record
	defer s.callbackMu.Unlock()
	if !r.Owns(s.identity) {
		return installRecord{}, false
	}
	return r.journal.stamp(s.identity, r.opts.InstallRecord(s.identity)), true
}

// HeartbeatsTimedOut records that a base was removed because of missed heartbeats. Its install record is retained,
// because the base may recover with its modules still installed. The method does not block.
func (r *Reconciler) HeartbeatsTimedOut(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.states[identity]; s != nil {
		s.timedOut = true
	}
}

// readInstallRecord reads the install record of a base before this controller starts serving it. It sets
// s.installRecord to the newest record that the Lease of the Node or any journal contains.
func (r *Reconciler) readInstallRecord(ctx context.Context, s *state) error {
	var newest installRecord
	s.lease, s.leaseDue = nil, time.Time{}
	if !s.leaseless { // a controller creates the Lease only after the Node
		l, err := r.leases.Get(ctx, s.nodeName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading the Lease of Node %q: %w", s.nodeName, err)
		default:
			newest = installRecordOf(l)
			if r.isForeign(l) {
				newest.Modules = ""
			} else {
				s.lease = l
			}
		}
	}
	for _, read := range []func(context.Context, string) (installRecord, error){r.journal.ownRecord, r.journal.newest} {
		noted, err := read(ctx, s.identity)
		if err != nil {
			return err
		}
		if noted.At > newest.At {
			newest = noted
		}
	}
	s.installRecord = newest.Modules
	r.journal.recordSaved(s.identity, newest)
	return nil
}

// retainNodeLease writes the install record of a base that was removed because of missed heartbeats to the Lease of
// its Node. It returns false if there is no need to retain the Lease.
func (r *Reconciler) retainNodeLease(ctx context.Context, s *state) (bool, error) {
	r.mu.Lock()
	timedOut := s.timedOut
	r.mu.Unlock()
	if !timedOut || s.installRecord == "" {
		return false, nil
	}
	s.leaseDue = time.Time{}
	if _, err := r.writeNodeLease(ctx, s, r.journal.stamp(s.identity, s.installRecord)); err != nil {
		return false, err
	}
	return true, nil
}

// closeJournal moves the records in the journal to the Leases of the Nodes, and deletes the journal. Call it when the
// Reconciler stops.
func (r *Reconciler) closeJournal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(workers)
	for _, identity := range r.journal.unsavedBases() {
		if s := r.state(identity); s != nil && r.ownLease.MayAct() {
			group.Go(func() error {
				s.leaseDue = time.Time{}
				_, err := r.renewNodeLease(ctx, identity, s)
				return err
			})
		}
	}
	return errors.Join(group.Wait(), r.journal.release(ctx))
}

// deleteOldLeases periodically deletes old Leases of bases that have not recovered, until ctx is done.
func (r *Reconciler) deleteOldLeases(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.deleteOldLeasesOnce(ctx); err != nil && ctx.Err() == nil {
			r.opts.Logger.Warn("could not delete old Leases of bases that have not recovered", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-r.opts.Clock.After(r.opts.TimeScale.Of(retentionCheckInterval)):
		}
	}
}

// deleteOldLeasesOnce deletes the Leases that no controller has written for recordRetention. It measures the time
// since it first observed the current version of the Lease. It does not use timestamps, because clocks may be wrong.
func (r *Reconciler) deleteOldLeasesOnce(ctx context.Context) error {
	before, now := mergeMaps(nil, r.oldLeases), r.opts.Clock.Now()
	r.oldLeases = map[string]observedLease{}
	deleteIfOld := func(l *coordinationv1.Lease) error {
		if r.isInUse(l) {
			return nil
		}
		seen := before[l.Name]
		if seen.version != l.ResourceVersion {
			seen = observedLease{name: l.Name, version: l.ResourceVersion, changedAt: now}
		}
		if now.Sub(seen.changedAt) < r.opts.TimeScale.Of(recordRetention) {
			r.oldLeases[l.Name] = seen
			return nil
		}
		if err := r.leases.Delete(ctx, l.Name, ifUnchanged(l)); ignoreNotFound(err) != nil &&
			!apierrors.IsConflict(err) {
			return err
		}
		return nil
	}
	for _, selector := range []string{
		labels.Component + "=" + labels.VnodeLease + "," + labels.Env + "=" + labelValue(r.opts.Env),
		journalSelector(r.opts.Env)} {
		found, err := r.leases.List(ctx, metav1.ListOptions{LabelSelector: selector})
		for i := 0; err == nil && i < len(found.Items); i++ {
			err = deleteIfOld(&found.Items[i])
		}
		if err != nil {
			maps.Copy(before, r.oldLeases) // keep the Leases that were not listed for the next run
			r.oldLeases = before
			return err
		}
	}
	return nil
}

// isInUse reports whether a Lease must not be deleted: it is the journal of this controller, it belongs to an
// existing Node, or it has no install record.
func (r *Reconciler) isInUse(l *coordinationv1.Lease) bool {
	if l.Labels[labels.Component] == labels.InstallRecordLease {
		return l.Name == r.journal.name()
	}
	_, err := r.nodes.Get(l.Name)
	return err == nil || l.Annotations[labels.InstallRecord] == ""
}
