package vnode

import (
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

// Options configure a Keeper.
type Options struct {
	Settings
	// Holder is the identity of this controller in Leases (CLIENT_ID).
	Holder string
	// Cluster says that several controllers share the bases (IS_CLUSTER). Alone, a
	// controller takes the Lease of its predecessor at once; in a cluster it waits until that has expired.
	Cluster bool
	// MaxLevel is the number of workload levels in a cluster (WORKLOAD_MAX_LEVEL); 0 means 3.
	MaxLevel int
	// LeaseDuration is how long a Lease holds without renewal; 0 means 40 s. It is renewed after a quarter of that.
	LeaseDuration time.Duration
	// Workers is how many Nodes are written at once; 0 means 16.
	Workers int
	// Requested returns the memory that module Pods on a Node request, in bytes; nil means none.
	Requested func(nodeName string) int64
	// Owned and Lost tell that this controller began or ceased to serve a base.
	// Gone tells that a base is no more, after its Node was deleted. They are called from workers and may block. Nil is fine.
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
	defaultWorkers       = 16
	defaultMaxLevel      = 3
)

// firstHealth is how long a new Node waits for the base's first health answer,
// so that it is created with its memory and needs no second write.
const firstHealth = time.Second

// Keeper keeps one Node and one Lease for each base that this controller
// serves. Its methods may be called concurrently.
type Keeper struct {
	opts     Options
	client   kubernetes.Interface
	nodes    corev1listers.NodeLister
	registry *base.Registry
	queue    workqueue.TypedRateLimitingInterface[string]

	mu     sync.Mutex
	states map[string]*state
}

// state is what the keeper knows of one base. Only the worker that has its
// identity at the moment uses it; owned is read by others under the Keeper's lock.
type state struct {
	nodeName string
	owned    bool
	lease    leaseState
	since    time.Time    // when the base was first reconciled
	node     *corev1.Node // as last written or read
	written  time.Time    // when its status was written last
}

// New returns a keeper. nodes lists the vnodes of this environment; call
// NodeChanged from that informer's handlers.
func New(opts Options, client kubernetes.Interface, nodes corev1listers.NodeLister, registry *base.Registry) *Keeper {
	if opts.LeaseDuration == 0 {
		opts.LeaseDuration = DefaultLeaseDuration
	}
	if opts.Workers == 0 {
		opts.Workers = defaultWorkers
	}
	if opts.MaxLevel == 0 {
		opts.MaxLevel = defaultMaxLevel
	}
	if opts.Requested == nil {
		opts.Requested = func(string) int64 { return 0 }
	}
	if opts.Owned == nil {
		opts.Owned = func(string, string) {}
	}
	if opts.Lost == nil {
		opts.Lost = func(string, string) {}
	}
	if opts.Gone == nil {
		opts.Gone = func(context.Context, string, string) error { return nil }
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{
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
func (k *Keeper) Changed(identity string) { k.queue.Add(identity) }

// NodeChanged says that a Node was written or deleted, by whomever.
func (k *Keeper) NodeChanged(n *corev1.Node) {
	if identity := n.Annotations[labels.Identity]; identity != "" {
		k.queue.Add(identity)
	}
}

// Depth is the number of bases that wait for a worker.
func (k *Keeper) Depth() int { return k.queue.Len() }

// Owns says whether this controller serves the base of that identity.
func (k *Keeper) Owns(identity string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.states[identity]
	return ok && s.owned
}

// Start works until ctx ends. Nodes and Leases stay as they are then: the next
// controller adopts them.
func (k *Keeper) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for range k.opts.Workers {
		wg.Go(func() {
			for k.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	k.queue.ShutDown()
	wg.Wait()
	return nil
}

func (k *Keeper) work(ctx context.Context) bool {
	identity, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(identity)
	after, err := k.reconcile(ctx, identity)
	switch {
	case err != nil && ctx.Err() != nil: // on the way out
	case err != nil:
		k.opts.Logger.Warn("could not keep the Node of a base", "base", identity, "err", err)
		k.queue.AddRateLimited(identity)
	default:
		k.queue.Forget(identity)
		if after > 0 {
			k.queue.AddAfter(identity, after)
		}
	}
	return true
}

// reconcile brings Lease and Node of one base up to date, and returns when to look again.
func (k *Keeper) reconcile(ctx context.Context, identity string) (time.Duration, error) {
	b, known := k.registry.Get(identity)
	s := k.state(identity, known)
	if s == nil {
		return 0, nil
	}
	if !known {
		return 0, k.remove(ctx, identity, s)
	}
	wait, err := k.keepLease(ctx, s)
	if err != nil {
		k.checkLost(identity, s)
		return 0, fmt.Errorf("keeping the lease of node %q: %w", s.nodeName, err)
	}
	if !s.lease.held {
		k.setOwned(identity, s, false)
		return wait, nil
	}
	k.setOwned(identity, s, true)
	if b.HealthAt.IsZero() && s.node == nil {
		if left := firstHealth - k.opts.Clock.Since(s.since); left > 0 {
			return left, nil
		}
	}
	if err := k.keepNode(ctx, b, s); err != nil {
		return 0, fmt.Errorf("keeping node %q: %w", s.nodeName, err)
	}
	return wait, nil
}

func (k *Keeper) state(identity string, create bool) *state {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.states[identity]
	if !ok && create {
		s = &state{nodeName: k.opts.Name(identity), since: k.opts.Clock.Now()}
		k.states[identity] = s
	}
	return s
}

func (k *Keeper) setOwned(identity string, s *state, owned bool) {
	k.mu.Lock()
	changed := s.owned != owned
	s.owned = owned
	k.mu.Unlock()
	if !changed {
		return
	}
	k.registry.Own(identity, owned)
	if owned {
		k.opts.Owned(identity, s.nodeName)
	} else {
		k.opts.Lost(identity, s.nodeName)
	}
}

// remove deletes Node and Lease of a base that is gone, after its Pods.
func (k *Keeper) remove(ctx context.Context, identity string, s *state) error {
	if s.lease.held {
		if err := k.opts.Gone(ctx, identity, s.nodeName); err != nil {
			return fmt.Errorf("removing the pods of node %q: %w", s.nodeName, err)
		}
		err := k.client.CoreV1().Nodes().Delete(ctx, s.nodeName, metav1.DeleteOptions{})
		if lease := k.deleteLease(ctx, s); lease != nil {
			err = errors.Join(ignoreNotFound(err), lease)
		}
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("removing node %q: %w", s.nodeName, err)
		}
		k.opts.Logger.Info("removed the node of a base that is gone", "base", identity, "node", s.nodeName)
	}
	k.setOwned(identity, s, false)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.states, identity)
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
