package vnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/internal/work"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Options configure a Reconciler.
type Options struct {
	Settings
	// Holder is the identity of this controller in Leases (CLIENT_ID).
	Holder string
	// Cluster enables sharing the bases with other controllers (IS_CLUSTER): the controller hands over its
	// bases while their tunnel is down. It waits before it takes over a base, longer if it serves a larger
	// share of all bases. With or without Cluster, it takes over the Node of another controller only after the
	// Lease of that controller was released or has expired.
	Cluster bool
	// MaxLevel is the number of workload levels in a cluster (WORKLOAD_MAX_LEVEL); 0 means 3.
	MaxLevel int
	// LeaseDuration is how long this controller may be silent before another one takes its bases; 0
	// means 15 s: see MemberOptions.
	LeaseDuration time.Duration
	// NodeLease is for how long the Lease of a Node is good, which is renewed at half of it; whole seconds, 0 means
	// DefaultNodeLease.
	NodeLease time.Duration
	// Sees and Tunnels are those of MemberOptions.
	Sees    func(tunnel.Key) bool
	Tunnels []tunnel.Key
	// Recorder receives the Events of Nodes. Required.
	Recorder record.EventRecorder
	// Requested returns the memory that the Pods on a Node request, in bytes. Required.
	Requested func(nodeName string) int64
	// Ledger returns what is to be kept on the Lease of a base's Node; what was kept there comes back
	// with Owned. Required.
	Ledger func(identity string) string
	// Owned and Lost tell that this controller began or ceased to serve a base. Gone tells that a
	// base is no more, once its Node is deleted, again until it has no error. They are called from
	// workers and may block. Required.
	Owned func(identity, nodeName, ledger string)
	Lost  func(identity, nodeName string)
	Gone  func(ctx context.Context, identity, nodeName string) error
	// Speed divides the periods that have no setting; LeaseDuration and NodeLease are divided already.
	Speed pace.Speed
	// Clock defaults to the real one.
	Clock  clock.WithTicker
	Logger *slog.Logger
}

const (
	defaultMaxLevel = 3
	// workers is how many Nodes and Leases are written at once: enough to renew those of ten thousand bases in time
	// (20 s) with an API server that takes a quarter of a second for each write, beside a release. One that
	// is late makes its Node Not Ready, and has a DaemonSet delete the Pod there.
	workers = 144
	// afterConflict is when a Node is looked at again that somebody else wrote.
	afterConflict = 20 * time.Millisecond
	// retryAtMost is the longest pause between two attempts to write a Node.
	retryAtMost = 10 * time.Second
	// lookAgain is when a Node is looked at again that belongs to another environment.
	lookAgain = time.Minute
)

// firstHealth is how long a new Node waits for the base's first health answer, so that it is
// created with its memory and needs no second write.
const firstHealth = time.Second

// Reconciler brings one Node and one Lease up to date for each base that this controller serves.
// Its methods may be called concurrently.
type Reconciler struct {
	opts     Options
	client   kubernetes.Interface
	nodes    corev1listers.NodeLister
	registry *base.Registry
	member   *Member
	queue    *work.Queue[string]
	journal  *journal

	mu     sync.Mutex
	states map[string]*state
	served int // how many of them are owned

	notes    map[string]seenLease // Leases that forgetOld read last, by name
	reported string               // the controllers that reportOthers logged last; used only by the guard
}

// state is what the Reconciler knows of one base. Only the worker that has its identity at the
// moment uses it; owned is read by others under the Reconciler's lock.
type state struct {
	identity string
	nodeName string
	telling  sync.Mutex // held while Owned and Lost are told, and while its ledger is read
	owned    bool
	since    time.Time    // when the base was first reconciled
	node     *corev1.Node // as last written or read
	moved    time.Time    // since when its free memory is another than written, and nothing else; zero if it is not

	fence int64     // the fence of the Node when this controller took over the base
	term  int       // the term of the Member at that moment
	after time.Time // when the workload delay ends; zero before it began

	lease     *coordinationv1.Lease // of the Node, as last written; nil before
	leaseDue  time.Time
	leaseless bool // there was neither Node nor Lease just before this controller made the Node

	older seenLease
	told  standing // of which a person was told

	had     bool // it has a Node, or had one when it was last looked for
	deleted bool // its Node was, and what is left of it is this controller's to remove

	ledger string // as it was kept when the base was taken, or as last written to the Lease
	silent bool   // it is gone since it was silent; under the Reconciler's lock
}

// take notes the Node as it is.
func (s *state) take(n *corev1.Node) { s.node, s.had = n, true }

// lose notes that the Node was deleted, and whether the rest is this controller's.
func (s *state) lose(mine bool) { s.node, s.had, s.deleted = nil, false, mine }

// New returns a Reconciler. nodes lists the vnodes of this environment; call NodeChanged from that
// informer's handlers.
func New(opts Options, client kubernetes.Interface, nodes corev1listers.NodeLister, registry *base.Registry) *Reconciler {
	opts.LeaseDuration = cmp.Or(opts.LeaseDuration, DefaultMembership)
	opts.NodeLease = cmp.Or(opts.NodeLease, DefaultNodeLease)
	opts.MaxLevel = cmp.Or(opts.MaxLevel, defaultMaxLevel)
	opts.Clock = cmp.Or[clock.WithTicker](opts.Clock, clock.RealClock{})
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	r := &Reconciler{
		opts:     opts,
		client:   client,
		nodes:    nodes,
		registry: registry,
		member: NewMember(MemberOptions{
			Env: opts.Env, Holder: opts.Holder, Duration: opts.LeaseDuration,
			Sees: opts.Sees, Tunnels: opts.Tunnels, Clock: opts.Clock, Logger: opts.Logger,
		}, client),
		states: map[string]*state{},
	}
	r.queue = work.New(work.Options[string]{
		Do: r.reconcile, Workers: workers, MinDelay: 50 * time.Millisecond, MaxDelay: opts.Speed.Of(retryAtMost),
		Message: "could not reconcile the Node of a base", Attrs: func(identity string) []any { return []any{"base", identity} },
		Clock: opts.Clock, Logger: opts.Logger,
	})
	r.journal = &journal{
		client: client, env: opts.Env, holder: opts.Holder, clock: opts.Clock, speed: opts.Speed, logger: opts.Logger,
		acting: r.member.Acting, read: r.tryEntry, renew: r.Changed,
		poke: make(chan struct{}, 1), pages: map[string]*page{},
		waiting: map[string][]chan struct{}{}, changed: map[string]bool{},
	}
	return r
}

// Changed says that something about a base changed. It does not block.
func (r *Reconciler) Changed(identity string) { r.queue.Add(identity) }

// NodeChanged says that a Node was written or deleted, by whomever.
func (r *Reconciler) NodeChanged(n *corev1.Node) {
	if identity := n.Annotations[labels.Identity]; identity != "" {
		r.queue.Add(identity)
	}
}

// Depth is the number of bases that wait for a worker.
func (r *Reconciler) Depth() int { return r.queue.Len() }

// Owns says whether this controller serves the base of that identity.
func (r *Reconciler) Owns(identity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[identity]
	return ok && s.owned
}

// Knows says whether the base of that identity is known here, whoever serves it.
func (r *Reconciler) Knows(identity string) bool {
	return r.state(identity) != nil
}

// Acting says whether this controller may act at this very moment: see Member.
func (r *Reconciler) Acting() bool { return r.member.Acting() }

// PeerSelector is the label selector of the Leases of the controllers of this environment.
func (r *Reconciler) PeerSelector() string { return r.member.selector() }

// PeerChanged takes the Lease of a controller as it is now; deleted says that it was taken out of
// the API: then its bases are free.
func (r *Reconciler) PeerChanged(l *coordinationv1.Lease, deleted bool) {
	r.member.Seen(l, deleted)
	if deleted {
		r.changedAll(false)
	}
}

// Start works until ctx ends. Nodes and their Leases stay as they are then: the next controller
// adopts them. The controller's own Lease goes, so that others need not wait.
func (r *Reconciler) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.member.Start(ctx) }) // it has no error
	wg.Go(func() { r.guard(ctx) })
	wg.Go(func() { r.forgetLedgers(ctx) })
	wg.Go(func() { r.journal.run(ctx) })
	wg.Go(func() { r.queue.Run(ctx) })
	wg.Wait()
	rest := context.WithoutCancel(ctx)
	if err := r.closeJournal(rest); err != nil {
		r.opts.Logger.Warn("what this controller noted of its bases stays for a day", "err", err)
	}
	if err := r.member.release(rest); err != nil {
		r.opts.Logger.Warn("others have to wait until the lease of this controller has expired", "err", err)
	}
	return nil
}

// reconcile brings Node and Lease of one base up to date, and returns when to look again.
func (r *Reconciler) reconcile(ctx context.Context, identity string) (time.Duration, error) {
	b, known := r.registry.Get(identity)
	s := r.state(identity)
	switch {
	case s == nil && !known:
		return 0, nil
	case s == nil:
		s = r.begin(b)
	}
	if !r.member.Acting() {
		r.setOwned(identity, s, false)
		return 0, nil // the guard brings it back
	}
	if !known {
		return 0, r.removeNode(ctx, identity, s)
	}
	if r.refresh(ctx, s) { // somebody deleted the Node
		r.registry.Doubt(identity)
		return 0, nil
	}
	if b.Doubted {
		return 0, nil // it is made anew when the base speaks
	}
	wait, err := r.claim(ctx, identity, b, s)
	switch {
	case errors.Is(err, errTaken):
		return afterConflict, nil
	case err != nil:
		return 0, fmt.Errorf("reconciling node %q: %w", s.nodeName, err)
	case wait > 0:
		return wait, nil
	}
	if !r.Owns(identity) {
		if err := r.readLedger(ctx, s); err != nil {
			return 0, err
		}
	}
	r.setOwned(identity, s, true)
	if wait, err = r.renewNodeLease(ctx, identity, s); err != nil {
		return 0, err
	}
	if older, err := r.removeOlder(ctx, identity, s); err != nil || older > 0 {
		return min(wait, older), err
	}
	return wait, nil
}

// claim makes sure that this controller serves a base and that its Node is up to date; else it
// returns when to look again.
func (r *Reconciler) claim(ctx context.Context, identity string, b base.Snapshot, s *state) (wait time.Duration, err error) {
	is := r.standing(s)
	r.registry.ServedElsewhere(identity, is == another)
	s.leaseless = false
	if remade := s.node == nil && s.deleted; is != mine && !remade {
		r.setOwned(identity, s, false)
	}
	switch is {
	case mine:
		if gave, err := r.handOver(ctx, identity, b, s); gave || err != nil {
			return time.Second, err
		}
	case another:
		holder, _, _ := holderOf(s.node)
		s.after = time.Time{}
		if err := r.member.meet(ctx, holder); err != nil {
			return 0, err
		}
		return max(r.member.left(holder), afterConflict), nil
	case foreign, namesake:
		r.tell(s, is)
		return r.opts.Speed.Of(lookAgain), nil
	case older, moved:
		lease := s.nodeName
		if is == moved { // its own earlier life, under another ENV, or a controller that lives there
			lease = memberLease(s.node.Labels[labels.Env], r.opts.Holder)
		}
		if wait, err = r.leaseLeft(ctx, lease, s); wait > 0 || err != nil {
			r.tell(s, is)
			return wait, err
		}
		fallthrough
	case free:
		if b.HealthAt.IsZero() && s.node == nil {
			if left := firstHealth - r.opts.Clock.Since(s.since); left > 0 {
				return left, nil
			}
		}
		if s.node == nil {
			if wait, err = r.foreignLeaseLeft(ctx, s); wait > 0 || err != nil {
				return wait, err
			}
		}
		if wait, err = r.mayTake(ctx, b, s); wait > 0 || err != nil {
			return wait, err
		}
	}
	return 0, r.writeNode(ctx, b, s)
}

// state returns what is known of a base, or nil.
func (r *Reconciler) state(identity string) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[identity]
}

// begin returns what is known of a base that comes.
func (r *Reconciler) begin(b base.Snapshot) *state {
	s := &state{identity: b.Identity, nodeName: r.nodeName(b.Identity), since: r.opts.Clock.Now(), had: b.Adopted}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[b.Identity] = s
	return s
}

// setOwned notes whether this controller serves a base, and tells it. The guard may do so while a
// worker does: what is told last is what is true.
func (r *Reconciler) setOwned(identity string, s *state, owned bool) {
	s.telling.Lock()
	defer s.telling.Unlock()
	r.mu.Lock()
	changed := s.owned != owned
	s.owned = owned
	if changed && owned {
		r.served++
	} else if changed {
		r.served--
	}
	r.mu.Unlock()
	if !changed {
		return
	}
	r.registry.Own(identity, owned)
	if owned {
		r.opts.Owned(identity, s.nodeName, s.ledger)
	} else {
		r.opts.Lost(identity, s.nodeName)
		r.journal.lose(identity)
	}
}

// removeNode deletes the Node of a base that is gone, and then its Pods and its Lease. It deletes the
// Node that it knows, and no other that came in its place or that another controller has taken; one that
// it served before it could not renew its lease is still its own. The Node goes first: as long as it is
// there, a DaemonSet makes Pods for it, which nobody takes away then.
func (r *Reconciler) removeNode(ctx context.Context, identity string, s *state) error {
	r.refresh(ctx, s)
	switch {
	case s.node == nil && s.deleted:
	case s.node == nil || !r.leftToMe(s):
		r.forget(identity, s)
		return nil
	default:
		err := r.client.CoreV1().Nodes().Delete(ctx, s.nodeName, asKnown(s.node))
		if apierrors.IsConflict(err) {
			err = r.readAnew(ctx, s)
		}
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("removing node %q: %w", s.nodeName, err)
		}
		s.lose(true)
		r.opts.Logger.Info("removed the node of a base that is gone", "base", identity, "node", s.nodeName)
	}
	return r.removeRest(ctx, identity, s)
}

// leftToMe tells whether it is this controller that removes a Node: it serves it, or did in an earlier
// term, and nobody has taken it since.
func (r *Reconciler) leftToMe(s *state) bool {
	switch holder, _, _ := holderOf(s.node); r.standing(s) {
	case mine:
		return true
	case free:
		return holder == r.opts.Holder
	default:
		return false
	}
}

// removeRest deletes what is left of a base whose Node is deleted.
func (r *Reconciler) removeRest(ctx context.Context, identity string, s *state) error {
	if ledger := r.opts.Ledger(identity); ledger != "" {
		s.ledger = ledger
	}
	if err := r.opts.Gone(ctx, identity, s.nodeName); err != nil {
		return fmt.Errorf("removing the pods of node %q: %w", s.nodeName, err)
	}
	var err error
	if kept, keeping := r.keepLedger(ctx, s); !kept {
		err = errors.Join(keeping, r.deleteNodeLease(ctx, s))
		r.journal.drop(identity)
	}
	r.forget(identity, s)
	return err
}

func (r *Reconciler) forget(identity string, s *state) {
	r.setOwned(identity, s, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, identity)
}

// asKnown deletes an object as it is known, and none that came in its place or that was written since.
func asKnown(o metav1.Object) metav1.DeleteOptions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
