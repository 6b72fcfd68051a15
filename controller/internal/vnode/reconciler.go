// Package vnode maintains the Node of each base, and decides which controller serves the base.
//
// The annotations labels.Holder and labels.Fence of a Node identify the controller. The API server rejects concurrent
// changes of them, because each write has the resourceVersion of the Node. Each controller renews one Lease every 3 s.
//
// The package does not use the NodeController of virtual-kubelet, which runs five goroutines for each Node, reads a
// Node before every write, and writes every status once a minute.
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

// Options configures a Reconciler.
type Options struct {
	Settings
	// Holder is the holder identity of this controller in Leases (CLIENT_ID).
	Holder string
	// Cluster enables sharing the bases with other controllers (IS_CLUSTER). The controller hands over bases whose
	// tunnel is down. It waits before it takes over a base. The wait is longer if it serves a larger share of all
	// bases. With or without Cluster, the controller takes over the Node of another controller only after the Lease
	// of that controller was released or has expired.
	Cluster bool
	// MaxLevel is the number of workload levels in a cluster (WORKLOAD_MAX_LEVEL); 0 means 3.
	MaxLevel int
	// LeaseDuration is how long the Lease of this controller is valid; 0 means 15 s. The controller stops acting if
	// it has not renewed the Lease for four fifths of this time.
	LeaseDuration time.Duration
	// NodeLease is how long the Lease of a Node is valid, in whole seconds; 0 means 40 s. The Lease is renewed after
	// half of this time.
	NodeLease time.Duration
	// Connected reports whether a tunnel is connected. It must not block. Required. Tunnels lists the enabled
	// tunnels.
	Connected func(tunnel.Key) bool
	Tunnels   []tunnel.Key
	// Recorder receives the Events of Nodes. Required.
	Recorder record.EventRecorder
	// Requested returns the memory in bytes that the Pods on a Node request. Required.
	Requested func(nodeName string) int64
	// InstallRecord returns the install record of a base, which is saved in the Lease of its Node and passed to
	// OnOwned. Required.
	InstallRecord func(identity string) string
	// OnOwned and OnLost are called when this controller starts or stops serving a base. OnNodeDeleted is called when
	// the Node of a base is deleted, and called again until it returns no error. All three may block. Required.
	OnOwned       func(identity, nodeName, ledger string)
	OnLost        func(identity, nodeName string)
	OnNodeDeleted func(ctx context.Context, identity, nodeName string) error
	// TimeScale divides the durations that are not in Options. LeaseDuration and NodeLease are already divided.
	TimeScale pace.TimeScale
	// Clock is the clock. Default: the real clock.
	Clock  clock.WithTicker
	Logger *slog.Logger
}

const (
	defaultMaxLevel = 3
	// workers is the number of concurrent writes of Nodes and Leases. The number is sufficient to renew the Leases of
	// 10,000 bases within 20 s if a write takes 250 ms.
	workers = 144
	// afterConflict is the delay after a write of a Node failed with a conflict.
	afterConflict = 20 * time.Millisecond
	// maxRetryDelay is the maximum delay between two attempts to write a Node.
	maxRetryDelay = 10 * time.Second
	// foreignRecheck is the time between two checks of a Node that this controller must not serve.
	foreignRecheck = time.Minute
)

// firstHealth is how long to wait for the first health document of a base before its Node is created, so that the new
// Node already has its memory.
const firstHealth = time.Second

// Reconciler maintains the Nodes and Leases of the bases that this controller serves. Its methods may be called
// concurrently.
type Reconciler struct {
	opts     Options
	client   kubernetes.Interface
	leases   coordinationv1client.LeaseInterface // Leases of Nodes and of controllers
	nodes    corev1listers.NodeLister
	registry *base.Registry
	ownLease *ControllerLease
	queue    *work.Queue[string]
	journal  *journal

	mu          sync.Mutex
	states      map[string]*state
	servedCount int // number of states with owned set

	oldLeases map[string]observedLease // result of the last deleteOldLeasesOnce, by Lease name
	// controllers that the last warning of reportOthers listed; only the guard uses it
	reportedControllers string
}

// state is the state of one base. Only the worker of the base uses it, except for the fields that a lock protects.
type state struct {
	identity   string
	nodeName   string
	callbackMu sync.Mutex // held during OnOwned, OnLost and InstallRecord
	owned      bool
	addedAt    time.Time    // time when the base was first reconciled
	node       *corev1.Node // the Node as last written or read
	// time since which only the memory differs from the written Node; zero if it does not differ
	memoryChangedAt time.Time

	fence     int64     // fencing number of the Node when this controller took over the base
	epoch     int       // epoch of the ControllerLease when this controller took over the base
	takeAfter time.Time // end of the workload delay; zero before the delay has started

	lease     *coordinationv1.Lease // the Lease of the Node as last written; nil if unknown
	leaseDue  time.Time
	leaseless bool // whether neither a Node nor a Lease existed right before this controller created the Node

	observed          observedLease
	reportedOwnership ownership // last ownership that was reported

	hadNode        bool // whether the base had a Node at the last check
	cleanupPending bool // whether the Node was deleted and this controller must delete its Pods and its Lease

	// install record as read when this controller started serving the base, or as last written to the Lease
	installRecord string
	timedOut      bool // whether the base was removed because of missed heartbeats; guarded by Reconciler.mu
}

func (s *state) setNode(n *corev1.Node) { s.node, s.hadNode = n, true }

// clearNode records that the Node was deleted, and whether this controller must delete its Pods and its Lease.
func (s *state) clearNode(cleanup bool) { s.node, s.hadNode, s.cleanupPending = nil, false, cleanup }

// New returns a Reconciler. nodes lists the cached Nodes of bases. The informer behind nodes must call NodeChanged.
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
		ownLease: newControllerLease(opts, leases),
		states:   map[string]*state{},
	}
	r.queue = work.New(work.Options[string]{
		Do: r.reconcile, Workers: workers, MinDelay: 50 * time.Millisecond, MaxDelay: opts.TimeScale.Of(maxRetryDelay),
		Message: "could not reconcile the Node of a base",
		Attrs:   func(identity string) []any { return []any{"base", identity} },
		Clock:   opts.Clock, Logger: opts.Logger,
	})
	r.journal = &journal{
		leases: leases, env: opts.Env, holder: opts.Holder, clock: opts.Clock, timeScale: opts.TimeScale,
		logger: opts.Logger,
		mayAct: r.ownLease.MayAct, readRecord: r.tryRecord, enqueue: r.Enqueue,
		wakeup: make(chan struct{}, 1), bases: map[string]*baseEntries{},
		waiting: map[string][]chan struct{}{}, changed: map[string]bool{},
	}
	return r
}

// Enqueue schedules the reconciliation of a base. It does not block.
func (r *Reconciler) Enqueue(identity string) { r.queue.Add(identity) }

// NodeChanged schedules the reconciliation of a base whose Node was changed or deleted, if the base is known.
func (r *Reconciler) NodeChanged(n *corev1.Node) {
	if identity := n.Annotations[labels.Identity]; r.state(identity) != nil {
		r.queue.Add(identity)
	}
}

// QueueLength returns the number of bases whose reconciliation waits for a worker.
func (r *Reconciler) QueueLength() int { return r.queue.Len() }

// Owns reports whether this controller serves a base.
func (r *Reconciler) Owns(identity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[identity]
	return ok && s.owned
}

// MayAct reports whether this controller may act now; see ControllerLease.MayAct.
func (r *Reconciler) MayAct() bool { return r.ownLease.MayAct() }

// PeerSelector returns the label selector for the Leases of the controllers of this environment.
func (r *Reconciler) PeerSelector() string { return r.ownLease.selector() }

// HandlePeerLease records a change of the Lease of a controller. If the Lease was deleted, this controller can take
// over the bases of that controller.
func (r *Reconciler) HandlePeerLease(l *coordinationv1.Lease, deleted bool) {
	r.ownLease.HandleLease(l, deleted)
	if deleted {
		r.enqueueAll()
	}
}

// Start maintains Nodes and Leases until ctx is done. Then it deletes the Lease of this controller, and leaves Nodes
// and their Leases to the next controller.
func (r *Reconciler) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.ownLease.Start(ctx) })
	wg.Go(func() { r.runGuard(ctx) })
	wg.Go(func() { r.deleteOldLeases(ctx) })
	wg.Go(func() { r.journal.run(ctx) })
	wg.Go(func() { r.queue.Run(ctx) })
	wg.Wait()
	rest := context.WithoutCancel(ctx)
	if err := r.closeJournal(rest); err != nil {
		r.opts.Logger.Warn("could not delete the journal; another controller deletes it after a day", "err", err)
	}
	if err := r.ownLease.release(rest); err != nil {
		r.opts.Logger.Warn("could not delete the Lease of this controller; other controllers wait until it expires",
			"err", err)
	}
	return nil
}

// reconcile updates the Node and the Lease of a base, and returns the delay before the next reconciliation; 0 means
// that none is needed before the next change.
func (r *Reconciler) reconcile(ctx context.Context, identity string) (time.Duration, error) {
	b, known := r.registry.Get(identity)
	s := r.state(identity)
	switch {
	case s == nil && !known:
		return 0, nil
	case s == nil:
		s = r.addState(b)
	}
	if !r.ownLease.MayAct() {
		r.setOwned(identity, s, false)
		return 0, nil // the guard reconciles the base when this controller may act
	}
	if !known {
		return 0, r.removeNode(ctx, identity, s)
	}
	if r.refresh(ctx, s) { // the Node was deleted
		r.registry.RequireHeartbeat(identity)
		return 0, nil
	}
	if b.NeedsHeartbeat {
		return 0, nil // the next message of the base causes a reconciliation
	}
	wait, err := r.takeOwnership(ctx, identity, b, s)
	switch {
	case errors.Is(err, errConflict):
		return afterConflict, nil
	case err != nil:
		return 0, fmt.Errorf("reconciling Node %q: %w", s.nodeName, err)
	case wait > 0:
		return wait, nil
	}
	if !r.Owns(identity) {
		if err := r.readInstallRecord(ctx, s); err != nil {
			return 0, err
		}
	}
	r.setOwned(identity, s, true)
	wait, err = r.renewNodeLease(ctx, identity, s)
	if err != nil {
		return 0, err
	}
	if older, err := r.removeOlderNode(ctx, identity, s); err != nil || older > 0 {
		return min(wait, older), err
	}
	return wait, nil
}

// takeOwnership writes the Node of a base with this controller as the holder. If it must not do so yet, it returns the
// delay before the next check.
func (r *Reconciler) takeOwnership(ctx context.Context, identity string, b base.Snapshot, s *state) (wait time.Duration,
	err error) {
	owner := r.ownership(s)
	r.registry.SetServedElsewhere(identity, owner == ownedByPeer)
	s.leaseless = false
	if recreated := s.node == nil && s.cleanupPending; owner != ownedByMe && !recreated {
		r.setOwned(identity, s, false)
	}
	switch owner {
	case ownedByMe:
		if handedOver, err := r.handOver(ctx, identity, b, s); handedOver || err != nil {
			return time.Second, err
		}
	case ownedByPeer:
		holder, _, _ := holderOf(s.node)
		s.takeAfter = time.Time{}
		if err := r.ownLease.fetchPeer(ctx, holder); err != nil {
			return 0, err
		}
		return max(r.ownLease.remainingFor(holder), afterConflict), nil
	case otherEnv, sameName:
		r.reportOwnership(s, owner)
		return r.opts.TimeScale.Of(foreignRecheck), nil
	case upstream, movedEnv:
		lease := s.nodeName
		if owner == movedEnv { // an earlier run of this controller, or another controller in that environment
			lease = memberLease(s.node.Labels[labels.Env], r.opts.Holder)
		}
		wait, err = r.leaseRemaining(ctx, lease, s)
		if wait > 0 || err != nil {
			r.reportOwnership(s, owner)
			return wait, err
		}
		fallthrough
	case unowned:
		if b.HealthAt.IsZero() && s.node == nil {
			if left := firstHealth - r.opts.Clock.Since(s.addedAt); left > 0 {
				return left, nil
			}
		}
		if s.node == nil {
			wait, err = r.foreignLeaseRemaining(ctx, s)
			if wait > 0 || err != nil {
				return wait, err
			}
		}
		wait, err = r.takeDelay(ctx, b, s)
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

// addState returns a new state for a base, and adds it to the states of the Reconciler.
func (r *Reconciler) addState(b base.Snapshot) *state {
	s := &state{identity: b.Identity, nodeName: r.nodeName(b.Identity), addedAt: r.opts.Clock.Now(), hadNode: b.Adopted}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[b.Identity] = s
	return s
}

// setOwned records whether this controller serves a base, and calls OnOwned or OnLost. The guard and a worker may call
// it concurrently.
func (r *Reconciler) setOwned(identity string, s *state, owned bool) {
	s.callbackMu.Lock()
	defer s.callbackMu.Unlock()
	r.mu.Lock()
	changed := s.owned != owned
	s.owned = owned
	if changed && owned {
		r.servedCount++
	} else if changed {
		r.servedCount--
	}
	r.mu.Unlock()
	if !changed {
		return
	}
	r.registry.SetOwned(identity, owned)
	if owned {
		r.opts.OnOwned(identity, s.nodeName, s.installRecord)
	} else {
		r.opts.OnLost(identity, s.nodeName)
		r.journal.stopServing(identity)
	}
}

// removeNode deletes the Node of a removed base, then its Pods and its Lease. The Node is deleted first, because a
// DaemonSet would otherwise create new Pods for the Node. removeNode deletes the Node only if the Node has not changed
// since it was last read. It keeps the Lease if retainNodeLease retains it. If this controller does not own the
// deletion, removeNode deletes only its own state of the base.
func (r *Reconciler) removeNode(ctx context.Context, identity string, s *state) error {
	r.refresh(ctx, s)
	switch {
	case s.node == nil && s.cleanupPending:
	case s.node == nil || !r.ownsDeletion(s):
		r.removeState(identity, s)
		return nil
	default:
		err := r.client.CoreV1().Nodes().Delete(ctx, s.nodeName, ifUnchanged(s.node))
		if apierrors.IsConflict(err) {
			err = r.readNode(ctx, s)
		}
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("deleting Node %q: %w", s.nodeName, err)
		}
		s.clearNode(true)
		r.opts.Logger.Info("deleted the Node of a removed base", "base", identity, "node", s.nodeName)
	}
	return r.cleanUp(ctx, identity, s)
}

// ownsDeletion reports whether this controller must delete a Node: it serves the base, or it served the base in an
// earlier epoch and no other controller has taken over the base since then.
func (r *Reconciler) ownsDeletion(s *state) bool {
	switch holder, _, _ := holderOf(s.node); r.ownership(s) {
	case ownedByMe:
		return true
	case unowned:
		return holder == r.opts.Holder
	default:
		return false
	}
}

// cleanUp deletes the Pods and the Lease of a base whose Node is deleted.
func (r *Reconciler) cleanUp(ctx context.Context, identity string, s *state) error {
	if ledger := r.opts.InstallRecord(identity); ledger != "" {
		s.installRecord = ledger
	}
	if err := r.opts.OnNodeDeleted(ctx, identity, s.nodeName); err != nil {
		return fmt.Errorf("deleting the Pods of Node %q: %w", s.nodeName, err)
	}
	var err error
	if retained, retainErr := r.retainNodeLease(ctx, s); !retained {
		err = errors.Join(retainErr, r.deleteNodeLease(ctx, s))
		r.journal.dropBase(identity)
	}
	r.removeState(identity, s)
	return err
}

func (r *Reconciler) removeState(identity string, s *state) {
	r.setOwned(identity, s, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, identity)
}

// ifUnchanged returns delete options with preconditions: the API server deletes the object only if it still has the
// UID and the resource version of o.
func ifUnchanged(o metav1.Object) metav1.DeleteOptions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
