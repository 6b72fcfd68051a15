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
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/labels"
)

const (
	// journalPause lies between two writes of a journal: what many bases are told at a time is one write.
	journalPause = 100 * time.Millisecond
	// journalTimeout is how long a request may take: all bases wait for it.
	journalTimeout = 3 * time.Second
	// ledgerSoon is when something new is written for which nobody waits.
	ledgerSoon = 3 * time.Second
)

// page is what a journal knows of one base.
type page struct {
	kept    entry           // the newest that is known to outlive this controller
	sent    int64           // the At of the newest entry, whether the API server has it or not
	noted   entry           // the one in the journal; its At is 0 if there is none
	orphan  time.Time       // since when this controller does not serve the base: the next controller of the base needs the entries
	onLease int64           // the least At that the Node's Lease must have, since the journal is full; 0 if it need not
	waiting []chan struct{} // for that
}

// journal keeps what is new in the ledgers of all bases of a controller until the Lease of each base's
// Node says it: so what many bases are about to be asked for is kept by one write. It is a Lease of its
// own, and of a base's entries the newest counts, wherever it lies. Its methods may be called concurrently.
type journal struct {
	client      kubernetes.Interface
	env, holder string
	clock       clock.Clock
	speed       pace.Speed
	logger      *slog.Logger
	acting      func() bool
	// read returns a new entry of a base, if there is one.
	read func(identity string) (entry, reading)
	// renew has the Lease of a base's Node written.
	renew func(identity string)

	poke chan struct{} // something waits, or is new

	io    sync.Mutex
	lease *coordinationv1.Lease // as last written or read; nil if it is not known

	others others

	mu      sync.Mutex
	pages   map[string]*page
	waiting map[string][]chan struct{} // by base: until what its ledger says is kept
	changed map[string]bool            // bases of which something may be new, and nobody waits
	stale   bool                       // it tells of a base whose Lease was deleted
	written time.Time                  // when it was last written
	notYet  time.Time                  // when it may be written again
	failed  int                        // attempts in a row
}

// reading is what came of reading the ledger of a base.
type reading int

const (
	readNew   reading = iota // it says what may not be kept yet
	readSame                 // it says what is kept
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

// stamp makes an entry of what a ledger says now. Whoever calls it sees to it that nobody else reads
// the ledger of this base meanwhile.
func (j *journal) stamp(identity, ledger string) entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.page(identity)
	p.sent = max(j.clock.Now().UnixMicro(), p.sent+1)
	return entry{p.sent, ledger}
}

// says reports whether a ledger is kept already. If there is a newer entry, and no answer that says that it
// was written, nobody knows.
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

// note has the ledger of a base kept soon.
func (j *journal) note(identity string) {
	j.mu.Lock()
	j.changed[identity] = true
	j.mu.Unlock()
	j.wake()
}

// keep blocks until what the ledger of a base says now is kept, or until ctx ends.
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

// restored notes what was kept of a base that this controller is about to serve.
func (j *journal) restored(identity string, r entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.page(identity)
	p.orphan = time.Time{}
	p.keep(r)
}

// leased notes that an entry was written to the Lease of a base's Node: then the journal need not say it.
func (j *journal) leased(identity string, r entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.page(identity)
	if p.keep(r); p.noted.At <= r.At {
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

// isFull says whether the Lease of a base's Node must be written now, since the journal is full.
func (j *journal) isFull(identity string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.pages[identity]
	return p != nil && p.onLease > 0
}

// lose notes that this controller serves a base no more.
func (j *journal) lose(identity string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.pages[identity]; p != nil && p.noted.At == 0 {
		delete(j.pages, identity)
	} else if p != nil {
		*p = page{sent: p.sent, noted: p.noted, orphan: j.clock.Now()}
	}
}

// drop forgets a base whose Node's Lease was deleted: whoever comes by its name has nothing to do with it.
func (j *journal) drop(identity string) {
	j.mu.Lock()
	if p := j.pages[identity]; p != nil {
		delete(j.pages, identity)
		j.stale = j.stale || p.noted.At != 0
	}
	j.mu.Unlock()
	j.wake()
}

// due is when the journal is to be written; false means that nothing is new.
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

// run writes the journal when there is something new, until ctx ends.
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

// turn writes what is new, and says when the next turn may be.
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
	if j.failed++; err == nil {
		j.failed = 0
	} else {
		if pause = min(pause<<min(j.failed, 10), j.speed.Of(retryAtMost)); j.failed == 1 && ctx.Err() == nil {
			j.logger.Warn("could not keep what modules are on the bases", "err", err)
		}
	}
	j.notYet = j.clock.Now().Add(pause)
	for _, identity := range later {
		if j.changed[identity] = true; len(waiting[identity]) > 0 {
			j.waiting[identity] = append(j.waiting[identity], waiting[identity]...)
		}
	}
}

// write keeps what is new of some bases, tells those that wait for it, and returns the bases that have
// to be looked at again.
func (j *journal) write(ctx context.Context, changed []string, waiting map[string][]chan struct{}) (later []string, err error) {
	if !j.acting() {
		return changed, ErrNotActing
	}
	if err := j.load(ctx); err != nil {
		return changed, err
	}
	var fresh []string
	for _, identity := range changed {
		switch r, look := j.read(identity); look {
		case readLater:
			later = append(later, identity)
		case readSame:
			tell(waiting[identity])
			delete(waiting, identity)
		case readNew:
			j.enter(identity, r)
			fresh = append(fresh, identity)
		}
	}
	if len(fresh) == 0 && !j.isStale() {
		return later, nil
	}
	text, written, left := j.pack()
	if j.toLeases(left, waiting) {
		return append(later, fresh...), nil
	}
	if err := j.put(ctx, text); err != nil {
		return append(later, fresh...), err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written, j.stale = j.clock.Now(), false
	for identity, r := range written {
		if p := j.pages[identity]; p != nil && p.orphan.IsZero() {
			p.keep(r)
		}
	}
	for _, identity := range fresh {
		tell(waiting[identity])
	}
	return later, nil
}

// toLeases has the Leases of the Nodes of bases written for which the journal has no room, and says whether
// there are any: the journal is not written before, since it may have told of them. Those that wait for
// them wait for their Leases then.
func (j *journal) toLeases(left []string, waiting map[string][]chan struct{}) (some bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
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

func (j *journal) enter(identity string, r entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.page(identity).noted = r
}

func (j *journal) isStale() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stale
}

// load reads what an earlier life of this controller left in its journal, once, and the journal's
// version whenever that is not known.
func (j *journal) load(ctx context.Context) error {
	j.io.Lock()
	defer j.io.Unlock()
	if j.lease != nil {
		return nil
	}
	l, err := j.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, j.name(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l = &coordinationv1.Lease{}
	case err != nil:
		return fmt.Errorf("reading the lease %q: %w", j.name(), err)
	}
	entries, err := unpack(l.Annotations[labels.Ledgers])
	if err != nil {
		j.logger.Warn("could not read what this controller had kept; modules may stay that no Pod wants", "lease", j.name(), "err", err)
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

// put writes the journal's Lease.
func (j *journal) put(ctx context.Context, text string) error {
	j.io.Lock()
	defer j.io.Unlock()
	leases := j.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	l, err := j.fill(j.lease, text), error(nil)
	if j.lease = nil; l.ResourceVersion == "" { // it is read anew, whatever goes wrong
		l, err = leases.Create(ctx, l, metav1.CreateOptions{})
	} else {
		l, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the lease %q: %w", j.name(), err)
	}
	l.Annotations, l.ManagedFields = nil, nil // the API server keeps its own
	j.lease = l
	return nil
}

// open lists the bases of which the journal says what the Leases of their Nodes do not.
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

// release deletes the journal, if the Leases of all Nodes say what it says.
func (j *journal) release(ctx context.Context) error {
	if len(j.open()) > 0 {
		return nil
	}
	j.io.Lock()
	defer j.io.Unlock()
	if j.lease == nil || j.lease.UID == "" {
		return nil
	}
	err := j.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, j.name(), asKnown(j.lease))
	if ignoreNotFound(err) != nil && !apierrors.IsConflict(err) { // a conflict means that the Lease belongs to another process
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
