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
	// journalPause is the time between two writes of a journal.
	journalPause = 100 * time.Millisecond
	// journalTimeout limits a request, because all bases wait for it.
	journalTimeout = 3 * time.Second
	// ledgerSoon is when a change is written that no caller waits for.
	ledgerSoon = 3 * time.Second
)

// page is the state of one base in the journal.
type page struct {
	kept  entry // the newest that is known to outlive this controller
	sent  int64 // the At of the newest entry, whether the API server has it or not
	noted entry // the one in the journal; its At is 0 if there is none
	// since when this controller does not serve the base: the next controller of the base needs the entries
	orphan  time.Time
	onLease int64           // the least At that the Node's Lease must have, since the journal is full; 0 if it need not
	waiting []chan struct{} // for that
}

// journal keeps the new install records of all bases of a controller in one Lease until the Lease of each Node has
// them, so that the records of many bases take one write. The newest entry of a base counts, in either Lease. Its
// methods may be called concurrently.
type journal struct {
	leases      coordinationv1client.LeaseInterface
	env, holder string
	clock       clock.Clock
	speed       pace.TimeScale
	logger      *slog.Logger
	acting      func() bool
	// read returns the new entry of a base, if there is one.
	read func(identity string) (entry, reading)
	// renew writes the Lease of the Node of a base.
	renew func(identity string)

	poke chan struct{} // something waits, or is new

	io    sync.Mutex
	lease *coordinationv1.Lease // as last written or read; nil if it is not known

	others others

	mu      sync.Mutex
	pages   map[string]*page
	waiting map[string][]chan struct{} // by base: calls of keep
	changed map[string]bool            // bases with something new that no call waits for
	stale   bool                       // it has an entry of a base whose Lease was deleted
	written time.Time                  // when it was last written
	notYet  time.Time                  // when it may be written again
	failed  int                        // attempts in a row
}

// reading is the result of journal.read.
type reading int

const (
	readNew   reading = iota // the record may not be stored yet
	readSame                 // the record is stored
	readLater                // this controller is about to serve the base, or to cease to
	readNever                // this controller does not serve the base
)

// page is called with the lock held.
func (j *journal) page(identity string) *page {
	p := j.pages[identity]
	if p == nil {
		p = &page{}
		j.pages[identity] = p
	}
	return p
}

// stamp returns an entry with an install record. The caller must prevent concurrent reads of the record of this base.
func (j *journal) stamp(identity, ledger string) entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.page(identity)
	p.sent = max(j.clock.Now().UnixMicro(), p.sent+1)
	return entry{p.sent, ledger}
}

// says reports whether an install record is stored already. It returns false while the result of a write is unknown.
func (j *journal) says(identity, ledger string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.page(identity)
	return p.kept.Ledger == ledger && p.kept.At == p.sent
}

func (p *page) keep(r entry) {
	p.sent = max(p.sent, r.At)
	if r.At >= p.kept.At {
		p.kept = r
	}
}

// note stores the install record of a base soon.
func (j *journal) note(identity string) {
	j.mu.Lock()
	j.changed[identity] = true
	j.mu.Unlock()
	j.wake()
}

// keep blocks until the install record of a base is stored, or until ctx ends.
func (j *journal) keep(ctx context.Context, identity string) {
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
	case j.poke <- struct{}{}:
	default:
	}
}

// restored records what is stored of a base that this controller begins to serve.
func (j *journal) restored(identity string, r entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.page(identity)
	p.orphan = time.Time{}
	p.keep(r)
}

// leased records that an entry was written to the Lease of a Node, so that the journal does not need it.
func (j *journal) leased(identity string, r entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.page(identity)
	p.keep(r)
	if p.noted.At <= r.At {
		p.noted = entry{}
	}
	if r.At >= p.onLease {
		p.onLease = 0
		tell(p.waiting)
		p.waiting = nil
	}
}

func tell(waiting []chan struct{}) {
	for _, w := range waiting {
		close(w)
	}
}

// isFull reports whether the Lease of a Node must be written now, because the journal is full.
func (j *journal) isFull(identity string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.pages[identity]
	return p != nil && p.onLease > 0
}

// lose records that this controller does not serve a base any more.
func (j *journal) lose(identity string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.pages[identity]; p != nil && p.noted.At == 0 {
		delete(j.pages, identity)
	} else if p != nil {
		*p = page{sent: p.sent, noted: p.noted, orphan: j.clock.Now()}
	}
}

// drop removes a base whose Lease was deleted.
func (j *journal) drop(identity string) {
	j.mu.Lock()
	if p := j.pages[identity]; p != nil {
		delete(j.pages, identity)
		j.stale = j.stale || p.noted.At != 0
	}
	j.mu.Unlock()
	j.wake()
}

// due returns when to write the journal; false if nothing is new.
func (j *journal) due() (left time.Duration, something bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := j.notYet
	switch {
	case len(j.waiting) > 0:
	case len(j.changed) > 0 || j.stale:
		if soon := j.written.Add(j.speed.Of(ledgerSoon)); soon.After(at) {
			at = soon
		}
	default:
		return 0, false
	}
	return at.Sub(j.clock.Now()), true
}

// run writes the journal when something is new, until ctx ends.
func (j *journal) run(ctx context.Context) {
	for ctx.Err() == nil {
		var later <-chan time.Time
		switch left, something := j.due(); {
		case something && left <= 0:
			j.turn(ctx)
			continue
		case something:
			later = j.clock.After(left)
		}
		select {
		case <-ctx.Done():
		case <-j.poke:
		case <-later:
		}
	}
}

// turn writes what is new, and sets when the next turn may be.
func (j *journal) turn(ctx context.Context) {
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
	pause := j.speed.Of(journalPause)
	j.failed++
	if err == nil {
		j.failed = 0
	} else {
		pause = min(pause<<min(j.failed, 10), j.speed.Of(retryAtMost))
		if j.failed == 1 && ctx.Err() == nil {
			j.logger.Warn("could not keep what modules are on the bases", "err", err)
		}
	}
	j.notYet = j.clock.Now().Add(pause)
	for _, identity := range later {
		j.changed[identity] = true
		if len(waiting[identity]) > 0 {
			j.waiting[identity] = append(j.waiting[identity], waiting[identity]...)
		}
	}
}

// write stores what is new of some bases, notifies the callers that wait, and returns the bases to look at again.
func (j *journal) write(ctx context.Context, changed []string, waiting map[string][]chan struct{}) (later []string,
	err error) {
	if !j.acting() {
		return changed, ErrNotActing
	}
	if err := j.load(ctx); err != nil {
		return changed, err
	}
	fresh := map[string]entry{}
	for _, identity := range changed {
		switch r, look := j.read(identity); look {
		case readLater:
			later = append(later, identity)
		case readSame:
			tell(waiting[identity])
			delete(waiting, identity)
		case readNew:
			fresh[identity] = r
		}
	}
	text, written, full := j.enter(fresh, waiting)
	again := slices.AppendSeq(later, maps.Keys(fresh))
	switch {
	case full:
		return again, nil
	case written == nil:
		return later, nil
	}
	if err := j.put(ctx, text); err != nil {
		return again, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written, j.stale = j.clock.Now(), false
	for identity, r := range written {
		if p := j.pages[identity]; p != nil && p.orphan.IsZero() {
			p.keep(r)
		}
	}
	for identity := range fresh {
		tell(waiting[identity])
	}
	return later, nil
}

// enter adds entries to the journal and returns its text and entries; nil if there is nothing to write. full reports
// that the Leases of Nodes must be written first.
func (j *journal) enter(fresh map[string]entry, waiting map[string][]chan struct{}) (text string, in map[string]entry,
	full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for identity, r := range fresh {
		j.page(identity).noted = r
	}
	if len(fresh) == 0 && !j.stale {
		return "", nil, false
	}
	text, in, out := j.pack()
	return text, in, j.toLeases(out, waiting)
}

// toLeases writes the Leases of the Nodes for which the journal has no room, and reports whether there are any. The
// callers that wait for them then wait for their Leases. The caller holds the lock.
func (j *journal) toLeases(left []string, waiting map[string][]chan struct{}) (some bool) {
	for _, identity := range left {
		p := j.pages[identity]
		if p == nil || !p.orphan.IsZero() { // the controller that serves the base has written the Lease
			delete(j.pages, identity)
			continue
		}
		some = true
		p.onLease = p.noted.At
		p.waiting = append(p.waiting, waiting[identity]...)
		delete(waiting, identity)
		j.renew(identity)
	}
	return some
}

// load reads the journal that an earlier run of this controller has left, and the version of the Lease when it is
// unknown.
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
		return fmt.Errorf("reading the lease %q: %w", j.name(), err)
	}
	entries, err := unpack(l.Annotations[labels.Ledgers])
	if err != nil {
		j.logger.Warn("could not read what this controller had kept; modules may stay that no Pod wants", "lease",
			j.name(), "err", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for identity, r := range entries {
		if p := j.pages[identity]; p == nil {
			j.pages[identity] = &page{sent: r.At, noted: r, orphan: j.clock.Now()}
		} else if r.At > p.sent { // another process of this name was here
			p.noted, p.sent = r, r.At
		}
	}
	j.lease = l
	return nil
}

func (j *journal) put(ctx context.Context, text string) error {
	j.io.Lock()
	defer j.io.Unlock()
	l, err := j.fill(j.lease, text), error(nil)
	j.lease = nil
	if l.ResourceVersion == "" { // it is read again after an error
		l, err = j.leases.Create(ctx, l, metav1.CreateOptions{})
	} else {
		l, err = j.leases.Update(ctx, l, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the lease %q: %w", j.name(), err)
	}
	l.Annotations, l.ManagedFields = nil, nil // the API server keeps its own
	j.lease = l
	return nil
}

// open returns the bases whose entries are in the journal and not on the Leases of their Nodes.
func (j *journal) open() (identities []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for identity, p := range j.pages {
		if p.noted.At != 0 {
			identities = append(identities, identity)
		}
	}
	return identities
}

// release deletes the journal if it has no open entries.
func (j *journal) release(ctx context.Context) error {
	if len(j.open()) > 0 {
		return nil
	}
	j.io.Lock()
	defer j.io.Unlock()
	if j.lease == nil || j.lease.UID == "" {
		return nil
	}
	err := j.leases.Delete(ctx, j.name(), asKnown(j.lease))
	// a conflict means that the Lease belongs to another process
	if ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the lease %q: %w", j.name(), err)
	}
	return nil
}

func (j *journal) name() string {
	return "module-controller-ledger." + dnsName(j.env) + "." + dnsName(j.holder)
}

func (j *journal) fill(l *coordinationv1.Lease, text string) *coordinationv1.Lease {
	l.Name, l.Namespace = j.name(), corev1.NamespaceNodeLease
	l.Labels = map[string]string{labels.Component: labels.LedgerLease, labels.Env: labelValue(j.env)}
	l.Annotations = map[string]string{labels.Ledgers: text}
	l.Spec.HolderIdentity = ptr.To(j.holder)
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(j.clock.Now()))
	return l
}
