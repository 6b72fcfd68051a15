package vnode

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/labels"
)

const (
	// minWriteInterval is the minimum time between two writes of the journal.
	minWriteInterval = 100 * time.Millisecond
	// journalTimeout is the timeout of a journal write. It is short, because all bases wait for the write.
	journalTimeout = 3 * time.Second
	// batchDelay is the delay before the journal is written if no caller waits for the write.
	batchDelay = 3 * time.Second
)

// baseEntries contains the install records of one base and tracks where they are saved.
type baseEntries struct {
	saved     installRecord // newest record that is known to be saved
	lastStamp int64         // field At of the newest record, even if the record is not saved
	journaled installRecord // record that the journal contains; its At is 0 if there is none
	// time when this controller stopped serving the base; the next controller needs the record
	orphan time.Time
	// while the journal is full: At of the record that the Lease of the Node must contain; otherwise 0
	onLease int64
	waiting []chan struct{} // closed when the Lease of the Node contains the record of onLease or a newer one
}

// journal saves the changed install records of all bases of a controller in one Lease, so that one write saves the
// records of many bases. A record stays in the journal until the Lease of the Node contains it. If both Leases have a
// record of a base, the newer one is valid. The methods may be called concurrently.
type journal struct {
	leases      coordinationv1client.LeaseInterface
	env, holder string
	clock       clock.Clock
	timeScale   pace.TimeScale
	logger      *slog.Logger
	mayAct      func() bool
	// readRecord returns the new install record of a base, if the base has a new one.
	readRecord func(identity string) (installRecord, reading)
	// enqueue schedules the reconciliation of a base, which writes the Lease of its Node.
	enqueue func(identity string)

	wakeup chan struct{} // signals run that records have changed

	io    sync.Mutex
	lease *coordinationv1.Lease // the Lease as last written or read; nil if its current version is unknown

	others otherJournals

	mu           sync.Mutex
	bases        map[string]*baseEntries
	waiting      map[string][]chan struct{} // channels of the callers of waitUntilSaved, by base
	changed      map[string]bool            // bases with new records that no caller waits for
	stale        bool                       // the journal contains a record of a base whose Lease was deleted
	written      time.Time                  // time of the last write
	notBefore    time.Time                  // earliest time of the next write
	failedWrites int                        // number of consecutive failed writes
}

// reading is the kind of result of journal.readRecord.
type reading int

const (
	readNew   reading = iota // the record may not be saved yet
	readSame                 // the record is saved
	readLater                // this controller is starting or stopping serving the base
	readNever                // this controller does not serve the base
)

// entriesOf returns the entries of a base, and adds empty entries for a new base. The caller holds the lock.
func (j *journal) entriesOf(identity string) *baseEntries {
	p := j.bases[identity]
	if p == nil {
		p = &baseEntries{}
		j.bases[identity] = p
	}
	return p
}

// stamp returns an install record with a new timestamp. The caller must prevent concurrent calls for the same base.
func (j *journal) stamp(identity, modules string) installRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.entriesOf(identity)
	p.lastStamp = max(j.clock.Now().UnixMicro(), p.lastStamp+1)
	return installRecord{p.lastStamp, modules}
}

// isSaved reports whether the newest record of a base is saved. It returns false while the result of a write is
// unknown.
func (j *journal) isSaved(identity, modules string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.entriesOf(identity)
	return p.saved.Modules == modules && p.saved.At == p.lastStamp
}

func (p *baseEntries) setSaved(r installRecord) {
	p.lastStamp = max(p.lastStamp, r.At)
	if r.At >= p.saved.At {
		p.saved = r
	}
}

// markChanged schedules saving the record of a base. It does not block.
func (j *journal) markChanged(identity string) {
	j.mu.Lock()
	j.changed[identity] = true
	j.mu.Unlock()
	j.wake()
}

// waitUntilSaved blocks until the record of a base is saved, or ctx is done.
func (j *journal) waitUntilSaved(ctx context.Context, identity string) {
	kept := make(chan struct{})
	j.mu.Lock()
	j.waiting[identity] = append(j.waiting[identity], kept)
	j.mu.Unlock()
	j.wake()
	select {
	case <-kept:
	case <-ctx.Done():
	}
}

func (j *journal) wake() {
	select {
	case j.wakeup <- struct{}{}:
	default:
	}
}

// recordSaved sets the saved record of a base when this controller starts serving the base.
func (j *journal) recordSaved(identity string, r installRecord) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.entriesOf(identity)
	p.orphan = time.Time{}
	p.setSaved(r)
}

// recordOnLease records that the Lease of a Node contains an install record, so that the record can be removed from
// the journal.
func (j *journal) recordOnLease(identity string, r installRecord) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.entriesOf(identity)
	p.setSaved(r)
	if p.journaled.At <= r.At {
		p.journaled = installRecord{}
	}
	if r.At >= p.onLease {
		p.onLease = 0
		closeAll(p.waiting)
		p.waiting = nil
	}
}

func closeAll(waiting []chan struct{}) {
	for _, w := range waiting {
		close(w)
	}
}

// needsNodeLease reports whether the Lease of a Node must be written now, because the journal is full.
func (j *journal) needsNodeLease(identity string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.bases[identity]
	return p != nil && p.onLease > 0
}

// stopServing records that this controller stopped serving a base.
func (j *journal) stopServing(identity string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.bases[identity]; p != nil && p.journaled.At == 0 {
		delete(j.bases, identity)
	} else if p != nil {
		*p = baseEntries{lastStamp: p.lastStamp, journaled: p.journaled, orphan: j.clock.Now()}
	}
}

// dropBase removes from the journal a base whose Node Lease was deleted.
func (j *journal) dropBase(identity string) {
	j.mu.Lock()
	if p := j.bases[identity]; p != nil {
		delete(j.bases, identity)
		j.stale = j.stale || p.journaled.At != 0
	}
	j.mu.Unlock()
	j.wake()
}

// untilWrite returns how long to wait before writing the journal. needed reports whether there is anything to write.
func (j *journal) untilWrite() (wait time.Duration, needed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.notBefore
	switch {
	case len(j.waiting) > 0:
	case len(j.changed) > 0 || j.stale:
		if soon := j.written.Add(j.timeScale.Of(batchDelay)); soon.After(at) {
			at = soon
		}
	default:
		return 0, false
	}
	return at.Sub(j.clock.Now()), true
}

// run writes the journal after records have changed, until ctx is done.
func (j *journal) run(ctx context.Context) {
	for ctx.Err() == nil {
		var later <-chan time.Time
		switch left, something := j.untilWrite(); {
		case something && left <= 0:
			j.writeDue(ctx)
			continue
		case something:
			later = j.clock.After(left)
		}
		select {
		case <-ctx.Done():
		case <-j.wakeup:
		case <-later:
		}
	}
}

// writeDue writes the changed records, and sets the earliest time of the next write.
func (j *journal) writeDue(ctx context.Context) {
	j.mu.Lock()
	waiting, changed := j.waiting, j.changed
	j.waiting, j.changed = map[string][]chan struct{}{}, map[string]bool{}
	for identity := range waiting {
		changed[identity] = true
	}
	j.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	later, err := j.write(within, slices.Collect(maps.Keys(changed)), waiting)

	j.mu.Lock()
	defer j.mu.Unlock()
	pause := j.timeScale.Of(minWriteInterval)
	j.failedWrites++
	if err == nil {
		j.failedWrites = 0
	} else {
		pause = min(pause<<min(j.failedWrites, 10), j.timeScale.Of(maxRetryDelay))
		if j.failedWrites == 1 && ctx.Err() == nil {
			j.logger.Warn("could not save install records", "err", err)
		}
	}
	j.notBefore = j.clock.Now().Add(pause)
	for _, identity := range later {
		j.changed[identity] = true
		if len(waiting[identity]) > 0 {
			j.waiting[identity] = append(j.waiting[identity], waiting[identity]...)
		}
	}
}

// write saves the changed records of the given bases and unblocks the callers that wait for these records. It returns
// the bases that must be processed again.
func (j *journal) write(ctx context.Context, changed []string, waiting map[string][]chan struct{}) (retry []string,
	err error) {
	if !j.mayAct() {
		return changed, ErrNotActing
	}
	if err := j.load(ctx); err != nil {
		return changed, err
	}
	fresh := map[string]installRecord{}
	for _, identity := range changed {
		switch r, result := j.readRecord(identity); result {
		case readLater:
			retry = append(retry, identity)
		case readSame:
			closeAll(waiting[identity])
			delete(waiting, identity)
		case readNew:
			fresh[identity] = r
		}
	}
	text, written, full := j.addEntries(fresh, waiting)
	again := slices.AppendSeq(retry, maps.Keys(fresh))
	switch {
	case full:
		return again, nil
	case written == nil:
		return retry, nil
	}
	if err := j.writeLease(ctx, text); err != nil {
		return again, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written, j.stale = j.clock.Now(), false
	for identity, r := range written {
		if p := j.bases[identity]; p != nil && p.orphan.IsZero() {
			p.setSaved(r)
		}
	}
	for identity := range fresh {
		closeAll(waiting[identity])
	}
	return retry, nil
}

// addEntries adds records to the journal. It returns the text of the journal and the records in it; the records are
// nil if there is nothing to write. isFull reports whether records must first be moved to the Leases of Nodes.
func (j *journal) addEntries(newRecords map[string]installRecord, waiting map[string][]chan struct{}) (text string,
	included map[string]installRecord,
	isFull bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for identity, r := range newRecords {
		j.entriesOf(identity).journaled = r
	}
	if len(newRecords) == 0 && !j.stale {
		return "", nil, false
	}
	text, included, out := j.pack()
	return text, included, j.moveToLeases(out, waiting)
}

// moveToLeases schedules writing the Leases of the Nodes whose records do not fit in the journal, and reports whether
// there are such Nodes. Callers that wait for these records then wait for the Leases. The caller holds the lock.
func (j *journal) moveToLeases(identities []string, waiting map[string][]chan struct{}) (moved bool) {
	for _, identity := range identities {
		p := j.bases[identity]
		if p == nil || !p.orphan.IsZero() { // the controller that serves the base has written the Lease
			delete(j.bases, identity)
			continue
		}
		moved = true
		p.onLease = p.journaled.At
		p.waiting = append(p.waiting, waiting[identity]...)
		delete(waiting, identity)
		j.enqueue(identity)
	}
	return moved
}

// load reads the journal from the API server if the current version of its Lease is unknown, for example after a
// restart or a failed write.
func (j *journal) load(ctx context.Context) error {
	j.io.Lock()
	defer j.io.Unlock()
	if j.lease != nil {
		return nil
	}
	l, err := j.leases.Get(ctx, j.name(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l = &coordinationv1.Lease{}
	case err != nil:
		return fmt.Errorf("reading the Lease %q: %w", j.name(), err)
	}
	entries, err := unpack(l.Annotations[labels.InstallRecords])
	if err != nil {
		j.logger.Warn("could not read the install records of an earlier run; modules that no Pod requests may "+
			"stay installed",
			"lease", j.name(), "err", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for identity, r := range entries {
		if p := j.bases[identity]; p == nil {
			j.bases[identity] = &baseEntries{lastStamp: r.At, journaled: r, orphan: j.clock.Now()}
		} else if r.At > p.lastStamp { // written by another process with the same CLIENT_ID
			p.journaled, p.lastStamp = r, r.At
		}
	}
	j.lease = l
	return nil
}

func (j *journal) writeLease(ctx context.Context, text string) error {
	j.io.Lock()
	defer j.io.Unlock()
	l, err := j.withFields(j.lease, text), error(nil)
	j.lease = nil
	if l.ResourceVersion == "" {
		l, err = j.leases.Create(ctx, l, metav1.CreateOptions{})
	} else {
		l, err = j.leases.Update(ctx, l, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the Lease %q: %w", j.name(), err)
	}
	l.Annotations, l.ManagedFields = nil, nil // they are not needed in memory
	j.lease = l
	return nil
}

// unsavedBases returns the bases whose records are in the journal but not yet in the Leases of their Nodes.
func (j *journal) unsavedBases() (identities []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for identity, p := range j.bases {
		if p.journaled.At != 0 {
			identities = append(identities, identity)
		}
	}
	return identities
}

// release deletes the journal if all its records are also in the Leases of Nodes.
func (j *journal) release(ctx context.Context) error {
	if len(j.unsavedBases()) > 0 {
		return nil
	}
	j.io.Lock()
	defer j.io.Unlock()
	if j.lease == nil || j.lease.UID == "" {
		return nil
	}
	err := j.leases.Delete(ctx, j.name(), ifUnchanged(j.lease))
	// A conflict means that another process with the same CLIENT_ID has written the Lease.
	if ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the Lease %q: %w", j.name(), err)
	}
	return nil
}

func (j *journal) name() string {
	return "module-controller-ledger." + dnsName(j.env) + "." + dnsName(j.holder)
}

func (j *journal) withFields(l *coordinationv1.Lease, text string) *coordinationv1.Lease {
	l.Name, l.Namespace = j.name(), corev1.NamespaceNodeLease
	l.Labels = map[string]string{labels.Component: labels.InstallRecordLease, labels.Env: labelValue(j.env)}
	l.Annotations = map[string]string{labels.InstallRecords: text}
	l.Spec.HolderIdentity = ptr.To(j.holder)
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(j.clock.Now()))
	return l
}
