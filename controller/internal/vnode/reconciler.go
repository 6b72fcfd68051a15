// Package vnode maintains a Node for each base, and decides which controller serves it.
//
// The annotations labels.Holder and labels.Fence of a Node name the controller. They change only together with the
// resourceVersion of the Node. Each controller renews one Lease every 3 s, however many bases it serves.
//
// The NodeController of virtual-kubelet is not used: for each Node it runs five goroutines, reads before every write,
// and writes every status once a minute.
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
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/internal/work"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Options configure a Reconciler.
type Options struct {
	Settings
	// Holder is the name of this controller in Leases (CLIENT_ID).
	Holder string
	// Cluster enables sharing the bases with other controllers (IS_CLUSTER): the controller hands over its
	// bases while their tunnel is down. It waits before it takes over a base, longer if it serves a larger
	// share of all bases. With or without Cluster, it takes over the Node of another controller only after the
	// Lease of that controller was released or has expired.
	Cluster bool
	// MaxLevel is the number of workload levels in a cluster (WORKLOAD_MAX_LEVEL); 0 means 3.
	MaxLevel int
	// LeaseDuration is how long the Lease of this controller is valid; 0 means 15 s. The controller stops acting
	// after four fifths without a renewal.
	LeaseDuration time.Duration
	// NodeLease is how long the Lease of a Node is valid, in whole seconds; 0 means 40 s. It is renewed at half of
	// it.
	NodeLease time.Duration
	// Sees reports whether one of the Tunnels is connected. Required.
	Sees    func(tunnel.Key) bool
	Tunnels []tunnel.Key
	// Recorder receives the Events of Nodes. Required.
	Recorder record.EventRecorder
	// Requested returns the memory in bytes that the Pods on a Node request. Required.
	Requested func(nodeName string) int64
	// Ledger returns the install record of a base, which is kept on the Lease of its Node and passed to Owned.
	// Required.
	Ledger func(identity string) string
	// Owned and Lost are called when this controller starts or stops serving a base. Gone is called when the Node of
	// a base is deleted, again until it returns no error. All may block. Required.
	Owned func(identity, nodeName, ledger string)
	Lost  func(identity, nodeName string)
	Gone  func(ctx context.Context, identity, nodeName string) error
	// Speed divides the periods without a setting. LeaseDuration and NodeLease are divided already.
	Speed pace.TimeScale
	// Clock defaults to the real one.
	Clock  clock.WithTicker
	Logger *slog.Logger
}

const (
	defaultMaxLevel = 3
	// workers is the number of concurrent writes of Nodes and Leases. It is enough to renew the Leases of 10,000
	// bases in 20 s if a write takes 250 ms.
	workers = 144
	// afterConflict is the delay after a conflicting write of a Node.
	afterConflict = 20 * time.Millisecond
	// retryAtMost is the maximum delay between two attempts to write a Node.
	retryAtMost = 10 * time.Second
	// lookAgain is the delay for a Node of another environment.
	lookAgain = time.Minute
)

// firstHealth is how long a new Node waits for the first health document, so that it is created with its memory.
const firstHealth = time.Second

// Reconciler maintains the Nodes and Leases of the bases that this controller serves. Its methods may be called
// concurrently.
type Reconciler struct {
	opts     Options
	client   kubernetes.Interface
	leases   coordinationv1client.LeaseInterface // of Nodes and controllers
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

// state is the state of one base. Only the worker of the base uses it, except for the fields under a lock.
type state struct {
	identity string
	nodeName string
	telling  sync.Mutex // held during Owned, Lost and Ledger
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
	told  standing // that was reported last

	had     bool // it has a Node, or had one when it was last looked for
	deleted bool // its Node was, and what is left of it is this controller's to remove

	ledger string // as it was kept when the base was taken, or as last written to the Lease
	silent bool   // it was removed because it missed heartbeats; under the Reconciler's lock
}

func (s *state) take(n *corev1.Node) { s.node, s.had = n, true }

// lose records that the Node was deleted, and whether this controller removes the rest.
func (s *state) lose(mine bool) { s.node, s.had, s.deleted = nil, false, mine }

// New returns a Reconciler. nodes lists the Nodes of bases in this environment; their informer must call NodeChanged.
func New(opts Options, client kubernetes.Interface, nodes corev1listers.NodeLister,
	registry *base.Registry) *Reconciler {
	opts.LeaseDuration = cmp.Or(opts.LeaseDuration, api.ControllerLease)
	opts.NodeLease = cmp.Or(opts.NodeLease, api.NodeLease)
	opts.MaxLevel = cmp.Or(opts.MaxLevel, defaultMaxLevel)
	opts.Clock = cmp.Or[clock.WithTicker](opts.Clock, clock.RealClock{})
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	r := &Reconciler{
		opts:     opts,
		client:   client,
		leases:   leases,
		nodes:    nodes,
		registry: registry,
		member:   newMember(opts, leases),
		states:   map[string]*state{},
	}
	r.queue = work.New(work.Options[string]{
		Do: r.reconcile, Workers: workers, MinDelay: 50 * time.Millisecond, MaxDelay: opts.Speed.Of(retryAtMost),
		Message: "could not reconcile the Node of a base",
		Attrs:   func(identity string) []any { return []any{"base", identity} },
		Clock:   opts.Clock, Logger: opts.Logger,
	})
	r.journal = &journal{
		leases: leases, env: opts.Env, holder: opts.Holder, clock: opts.Clock, speed: opts.Speed, logger: opts.Logger,
		acting: r.member.Acting, read: r.tryEntry, renew: r.Changed,
		poke: make(chan struct{}, 1), pages: map[string]*page{},
		waiting: map[string][]chan struct{}{}, changed: map[string]bool{},
	}
	return r
}

// Changed reconciles a base. It does not block.
func (r *Reconciler) Changed(identity string) { r.queue.Add(identity) }

// NodeChanged reconciles the base of a Node that was written or deleted, if the base is known.
func (r *Reconciler) NodeChanged(n *corev1.Node) {
	if identity := n.Annotations[labels.Identity]; r.state(identity) != nil {
		r.queue.Add(identity)
	}
}

// Depth returns the number of bases that wait for a worker.
func (r *Reconciler) Depth() int { return r.queue.Len() }

// Owns reports whether this controller serves a base.
func (r *Reconciler) Owns(identity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[identity]
	return ok && s.owned
}

// Acting reports whether this controller may act now; see Member.Acting.
func (r *Reconciler) Acting() bool { return r.member.Acting() }

// PeerSelector selects the Leases of the controllers of this environment.
func (r *Reconciler) PeerSelector() string { return r.member.selector() }

// PeerChanged records the Lease of a controller, or that it was deleted: then its bases are free.
func (r *Reconciler) PeerChanged(l *coordinationv1.Lease, deleted bool) {
	r.member.Seen(l, deleted)
	if deleted {
		r.changedAll(false)
	}
}

// Start runs until ctx ends. It leaves Nodes and their Leases to the next controller, and deletes the Lease of this
// controller.
func (r *Reconciler) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.member.Start(ctx) })
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

// reconcile updates Node and Lease of a base, and returns when to look again.
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
	if r.refresh(ctx, s) { // the Node was deleted
		r.registry.Doubt(identity)
		return 0, nil
	}
	if b.Doubted {
		return 0, nil // the next message of the base creates it again
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
	wait, err = r.renewNodeLease(ctx, identity, s)
	if err != nil {
		return 0, err
	}
	if older, err := r.removeOlder(ctx, identity, s); err != nil || older > 0 {
		return min(wait, older), err
	}
	return wait, nil
}

// claim takes a base and writes its Node, or returns when to look again.
func (r *Reconciler) claim(ctx context.Context, identity string, b base.Snapshot, s *state) (wait time.Duration,
	err error) {
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
		wait, err = r.leaseLeft(ctx, lease, s)
		if wait > 0 || err != nil {
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
			wait, err = r.foreignLeaseLeft(ctx, s)
			if wait > 0 || err != nil {
				return wait, err
			}
		}
		wait, err = r.mayTake(ctx, b, s)
		if wait > 0 || err != nil {
			return wait, err
		}
	}
	return 0, r.writeNode(ctx, b, s)
}

func (r *Reconciler) state(identity string) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[identity]
}

func (r *Reconciler) begin(b base.Snapshot) *state {
	s := &state{identity: b.Identity, nodeName: r.nodeName(b.Identity), since: r.opts.Clock.Now(), had: b.Adopted}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[b.Identity] = s
	return s
}

// setOwned records whether this controller serves a base, and calls Owned or Lost. The guard and a worker may call it
// concurrently.
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

// removeNode deletes the Node of a base that is removed, then its Pods and its Lease. It deletes only the known
// version of the Node. The Node is deleted first: otherwise a DaemonSet creates Pods for it.
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

// leftToMe reports whether this controller removes a Node: it serves it, or did in an earlier term, and no other
// controller has taken it.
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

// asKnown deletes only the known version of an object.
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
