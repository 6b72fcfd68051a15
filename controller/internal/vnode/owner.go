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

var errConflict = errors.New("the Node was changed by another client")

// ownership is the result of checking which controller may serve the base of a Node.
type ownership int

const (
	unowned     ownership = iota // no controller, or a controller whose Lease has expired
	ownedByMe                    // this controller
	ownedByPeer                  // another controller of the environment
	otherEnv                     // the Node belongs to another environment
	movedEnv                     // like otherEnv, and its holder has the CLIENT_ID of this controller
	sameName                     // the Node belongs to another base whose identity results in the same name
	upstream                     // ModuleController V2, which does not record the holder
)

// holderOf returns the CLIENT_ID of the controller that serves the base of a Node, and the fencing number of the
// Node. hasHolder reports whether the Node has the holder annotation.
func holderOf(n *corev1.Node) (holder string, fence int64, hasHolder bool) {
	holder, hasHolder = n.Annotations[labels.Holder]
	fence, _ = strconv.ParseInt(n.Annotations[labels.Fence], 10, 64) // 0 if absent or invalid
	return holder, fence, hasHolder
}

// ownership determines which controller may serve a base.
func (r *Reconciler) ownership(s *state) ownership {
	if s.node == nil {
		return unowned
	}
	holder, fence, named := holderOf(s.node)
	env := s.node.Labels[labels.Env]
	switch info, known := Info(s.node); {
	case known && info.Identity != s.identity:
		return sameName
	case env != "" && env != r.opts.Env && holder == r.opts.Holder && holder != "":
		return movedEnv
	case env != "" && env != r.opts.Env:
		return otherEnv
	case holder == r.opts.Holder && s.fence == fence && s.epoch == r.ownLease.Epoch():
		return ownedByMe
	case holder == r.opts.Holder:
		return unowned
	case !named:
		return upstream
	case r.ownLease.remainingFor(holder) > 0:
		return ownedByPeer
	default:
		return unowned
	}
}

// takeDelay returns 0 if this controller may start serving a base that no other controller serves. Otherwise, it
// returns the delay before the next check.
func (r *Reconciler) takeDelay(ctx context.Context, b base.Snapshot, s *state) (wait time.Duration, err error) {
	if r.opts.Cluster && r.ownLease.tunnelDownFor(b.Tunnel) > 0 && r.ownLease.reachableByPeers(b.Tunnel) {
		return time.Second, nil // this controller could not communicate with the base
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
	return max(r.ownLease.remainingFor(holder), 0), nil
}

// handOver stops serving a base if its tunnel has been down in this controller for the duration of a Lease, and
// another controller is connected to the tunnel. It reports whether it handed the base over.
func (r *Reconciler) handOver(ctx context.Context, identity string, b base.Snapshot, s *state) (bool, error) {
	if !r.opts.Cluster || r.ownLease.tunnelDownFor(b.Tunnel) < r.opts.LeaseDuration ||
		!r.ownLease.reachableByPeers(b.Tunnel) {
		return false, nil
	}
	r.setOwned(identity, s, false)
	r.opts.Logger.Info("handing over a base because its tunnel is down in this controller and up in another one",
		"base",
		identity, "node", s.nodeName)
	n := s.node.DeepCopy()
	n.Annotations[labels.Holder] = ""
	n.Annotations[labels.Fence] = strconv.FormatInt(s.fence+1, 10)
	return true, r.updateNode(ctx, s, n)
}

// workloadDelay returns how long to wait before serving a base that other controllers could also serve. The delay is
// longer if this controller serves a larger share of all bases (Module Controller V2 document 5.4,
// WORKLOAD_MAX_LEVEL). The delay has a random part, so that controllers with equal shares do not conflict.
func (r *Reconciler) workloadDelay(s *state) time.Duration {
	if !r.opts.Cluster {
		return 0
	}
	now := r.opts.Clock.Now()
	if !s.takeAfter.IsZero() { // messages of the base do not shorten it
		return s.takeAfter.Sub(now)
	}
	r.mu.Lock()
	mine, all := r.servedCount, len(r.states)
	r.mu.Unlock()
	level := mine * r.opts.MaxLevel / (all + 1)
	delay := time.Duration(level)*levelDelay + rand.N(levelDelay)
	s.takeAfter = now.Add(delay)
	return delay
}

// levelDelay is the additional delay per workload level, as in ModuleController V2.
const levelDelay = 100 * time.Millisecond
