package vnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Options configure a Reconciler.
type Options struct {
	Settings
	// Holder is the identity of this controller in Leases (CLIENT_ID).
	Holder string
	// Cluster says that several controllers share the bases (IS_CLUSTER). Alone, a controller takes
	// the Lease of its predecessor at once; in a cluster it waits until that has expired.
	Cluster bool
	// MaxLevel is the number of workload levels in a cluster (WORKLOAD_MAX_LEVEL); 0 means 3.
	MaxLevel int
	// LeaseDuration is how long a Lease holds without renewal; 0 means 40 s. It is renewed after a
	// quarter of that.
	LeaseDuration time.Duration
	// Requested returns the memory that module Pods on a Node request, in bytes. Required.
	Requested func(nodeName string) int64
	// Owned and Lost tell that this controller began or ceased to serve a base. Gone tells that a
	// base is no more, before its Node is deleted. They are called from workers and may block.
	// Required.
	Owned func(identity, nodeName string)
	Lost  func(identity, nodeName string)
	Gone  func(ctx context.Context, identity, nodeName string) error
	// Clock defaults to the real one.
	Clock  clock.WithTicker
	Logger *slog.Logger
}

// Defaults of Options, as virtual-kubelet of Koupleless has them.
const (
	DefaultLeaseDuration = 40 * time.Second
	workers              = 16 // Nodes that are written at once
	defaultMaxLevel      = 3
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
	queue    workqueue.TypedRateLimitingInterface[string]

	mu     sync.Mutex
	states map[string]*state
}

// state is what the Reconciler knows of one base. Only the worker that has its identity at the
// moment uses it; owned is read by others under the Reconciler's lock.
type state struct {
	nodeName string
	owned    bool
	lease    leaseState
	since    time.Time    // when the base was first reconciled
	node     *corev1.Node // as last written or read
	written  time.Time    // when its status was written last
}

// New returns a Reconciler. nodes lists the vnodes of this environment; call NodeChanged from that
// informer's handlers.
func New(opts Options, client kubernetes.Interface, nodes corev1listers.NodeLister, registry *base.Registry) *Reconciler {
	opts.LeaseDuration = cmp.Or(opts.LeaseDuration, DefaultLeaseDuration)
	opts.MaxLevel = cmp.Or(opts.MaxLevel, defaultMaxLevel)
	opts.Clock = cmp.Or[clock.WithTicker](opts.Clock, clock.RealClock{})
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &Reconciler{
		opts:     opts,
		client:   client,
		nodes:    nodes,
		registry: registry,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 10*time.Second),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "vnode", Clock: opts.Clock},
		),
		states: map[string]*state{},
	}
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

// Start works until ctx ends. Nodes and Leases stay as they are then: the next controller adopts
// them.
func (r *Reconciler) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for r.reconcileNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	r.queue.ShutDown()
	wg.Wait()
	return nil
}

// reconcileNext reconciles the next base of the queue; it returns false when the queue has ended.
func (r *Reconciler) reconcileNext(ctx context.Context) bool {
	identity, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(identity)
	after, err := r.reconcile(ctx, identity)
	switch {
	case err != nil && ctx.Err() != nil: // on the way out
	case err != nil:
		r.opts.Logger.Warn("could not reconcile the Node of a base", "base", identity, "err", err)
		r.queue.AddRateLimited(identity)
	default:
		r.queue.Forget(identity)
		if after > 0 {
			r.queue.AddAfter(identity, after)
		}
	}
	return true
}

// reconcile brings Lease and Node of one base up to date, and returns when to look again.
func (r *Reconciler) reconcile(ctx context.Context, identity string) (time.Duration, error) {
	b, known := r.registry.Get(identity)
	s := r.state(identity, known)
	if s == nil {
		return 0, nil
	}
	if !known {
		return 0, r.removeNode(ctx, identity, s)
	}
	wait, err := r.reconcileLease(ctx, s)
	if err != nil {
		r.stepDownIfExpired(identity, s)
		return 0, fmt.Errorf("reconciling the lease of node %q: %w", s.nodeName, err)
	}
	if !s.lease.held {
		r.setOwned(identity, s, false)
		return wait, nil
	}
	r.setOwned(identity, s, true)
	if b.HealthAt.IsZero() && s.node == nil {
		if left := firstHealth - r.opts.Clock.Since(s.since); left > 0 {
			return left, nil
		}
	}
	if err := r.reconcileNode(ctx, b, s); err != nil {
		return 0, fmt.Errorf("reconciling node %q: %w", s.nodeName, err)
	}
	return wait, nil
}

func (r *Reconciler) state(identity string, create bool) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[identity]
	if !ok && create {
		s = &state{nodeName: Name(identity), since: r.opts.Clock.Now()}
		r.states[identity] = s
	}
	return s
}

func (r *Reconciler) setOwned(identity string, s *state, owned bool) {
	r.mu.Lock()
	changed := s.owned != owned
	s.owned = owned
	r.mu.Unlock()
	if !changed {
		return
	}
	r.registry.Own(identity, owned)
	if owned {
		r.opts.Owned(identity, s.nodeName)
	} else {
		r.opts.Lost(identity, s.nodeName)
	}
}

// removeNode deletes Node and Lease of a base that is gone, after its Pods.
func (r *Reconciler) removeNode(ctx context.Context, identity string, s *state) error {
	if s.lease.held {
		if err := r.opts.Gone(ctx, identity, s.nodeName); err != nil {
			return fmt.Errorf("removing the pods of node %q: %w", s.nodeName, err)
		}
		node := r.client.CoreV1().Nodes().Delete(ctx, s.nodeName, metav1.DeleteOptions{})
		if err := errors.Join(ignoreNotFound(node), r.deleteLease(ctx, s)); err != nil {
			return fmt.Errorf("removing node %q: %w", s.nodeName, err)
		}
		r.opts.Logger.Info("removed the node of a base that is gone", "base", identity, "node", s.nodeName)
	}
	r.setOwned(identity, s, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, identity)
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
