package vnode

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/labels"
)

var errConflict = errors.New("somebody else wrote the node meanwhile")

// standing is which controller serves the base of a Node.
type standing int

const (
	free     standing = iota // no controller does, or its Lease has expired
	mine                     // this controller does
	another                  // another controller does
	foreign                  // it belongs to another environment
	moved                    // to another environment, in which a controller of this one's name served it
	namesake                 // it is the Node of another base, of whose identity the same name comes
	older                    // a controller of another kind may, that writes no holder
)

// holderOf returns the controller that serves the base of a Node, and its fencing number.
func holderOf(n *corev1.Node) (holder string, fence int64, named bool) {
	holder, named = n.Annotations[labels.Holder]
	fence, _ = strconv.ParseInt(n.Annotations[labels.Fence], 10, 64) // absent or nonsense counts as 0
	return holder, fence, named
}

func (r *Reconciler) standing(s *state) standing {
	if s.node == nil {
		return free
	}
	holder, fence, named := holderOf(s.node)
	env := s.node.Labels[labels.Env]
	switch info, known := Info(s.node); {
	case known && info.Identity != s.identity:
		return namesake
	case env != "" && env != r.opts.Env && holder == r.opts.Holder && holder != "":
		return moved
	case env != "" && env != r.opts.Env:
		return foreign
	case holder == r.opts.Holder && s.fence == fence && s.epoch == r.ownLease.Epoch():
		return mine
	case holder == r.opts.Holder:
		return free
	case !named:
		return older
	case r.ownLease.left(holder) > 0:
		return another
	default:
		return free
	}
}

// takeDelay returns 0 if this controller may take a base that no controller serves, or else when to look again.
func (r *Reconciler) takeDelay(ctx context.Context, b base.Snapshot, s *state) (wait time.Duration, err error) {
	if r.opts.Cluster && r.ownLease.tunnelDownFor(b.Tunnel) > 0 && r.ownLease.reachableByPeers(b.Tunnel) {
		return time.Second, nil // it would hear nothing of the base
	}
	if wait := r.workloadDelay(s); wait > 0 {
		return wait, nil
	}
	if s.node == nil {
		return 0, nil
	}
	holder, _, named := holderOf(s.node)
	if !named || holder == "" || holder == r.opts.Holder {
		return 0, nil
	}
	if err := r.ownLease.confirm(ctx, holder); err != nil {
		return 0, err
	}
	return max(r.ownLease.left(holder), 0), nil
}

// handOver releases a base whose tunnel has been down here for the duration of a Lease, while another controller is
// connected.
func (r *Reconciler) handOver(ctx context.Context, identity string, b base.Snapshot, s *state) (bool, error) {
	if !r.opts.Cluster || r.ownLease.tunnelDownFor(b.Tunnel) < r.opts.LeaseDuration || !r.ownLease.reachableByPeers(b.Tunnel) {
		return false, nil
	}
	r.setOwned(identity, s, false)
	r.opts.Logger.Info("handing a base over: its tunnel is down here, and another controller hears it", "base",
		identity, "node", s.nodeName)
	n := s.node.DeepCopy()
	n.Annotations[labels.Holder] = ""
	n.Annotations[labels.Fence] = strconv.FormatInt(s.fence+1, 10)
	return true, r.put(ctx, s, n)
}

// workloadDelay returns how long a controller in a cluster waits before it takes a base: longer if it serves a larger
// share of all bases (Module Controller V2 document 5.4, WORKLOAD_MAX_LEVEL). A random part breaks ties.
func (r *Reconciler) workloadDelay(s *state) time.Duration {
	if !r.opts.Cluster {
		return 0
	}
	now := r.opts.Clock.Now()
	if !s.after.IsZero() { // messages of the base do not shorten it
		return s.after.Sub(now)
	}
	r.mu.Lock()
	mine, all := r.served, len(r.states)
	r.mu.Unlock()
	level := mine * r.opts.MaxLevel / (all + 1)
	delay := time.Duration(level)*levelDelay + rand.N(levelDelay)
	s.after = now.Add(delay)
	return delay
}

// levelDelay is the delay per workload level, as in ModuleController V2.
const levelDelay = 100 * time.Millisecond
