package vnode

import (
	"context"
	"strings"
	"time"
)

const guardInterval = 200 * time.Millisecond

// guard stops serving all bases as soon as this controller may not act, until ctx is done. It does no I/O, which could
// delay it.
func (r *Reconciler) guard(ctx context.Context) {
	tick := r.opts.Clock.NewTicker(guardInterval)
	defer tick.Stop()
	for {
		r.checkActing()
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

// checkActing starts or stops serving bases if this controller started or stopped acting since the last call.
func (r *Reconciler) checkActing() {
	r.reportOthers()
	switch acting, began := r.ownLease.observe(); {
	case !acting:
		r.stopServingAll()
	case began:
		r.opts.Logger.Info("this controller is active, because it holds a valid Lease", "epoch", r.ownLease.Epoch())
		r.enqueueAll(false)
	default:
		r.reconcileTunnelsDown()
	}
}

// reportOthers logs a warning if there are other controllers in the environment and this controller does not share its
// bases.
func (r *Reconciler) reportOthers() {
	others := strings.Join(r.ownLease.renewing(), ", ")
	if !r.opts.Cluster && others != "" && others != r.reported {
		r.opts.Logger.Warn("another controller serves this environment and keeps its bases until it stops; "+
			"set a unique ENV for this controller, or set IS_CLUSTER=true on both to share the bases",
			"env", r.opts.Env, "controllers", others)
	}
	r.reported = others
}

// OtherControllers returns the number of other controllers of this environment that renew their Leases.
func (r *Reconciler) OtherControllers() int { return len(r.ownLease.renewing()) }

// ClientIDConflict reports whether another controller with the same CLIENT_ID renews the Lease of this controller.
func (r *Reconciler) ClientIDConflict() bool { return r.ownLease.conflict() }

func (r *Reconciler) stopServingAll() {
	r.mu.Lock()
	served := map[string]*state{}
	for identity, s := range r.states {
		if s.owned {
			served[identity] = s
		}
	}
	r.mu.Unlock()
	if len(served) > 0 {
		r.opts.Logger.Warn("this controller has not renewed its Lease in time; it serves no bases until it has",
			"bases",
			len(served))
	}
	for identity, s := range served {
		r.setOwned(identity, s, false)
	}
}

// reconcileTunnelsDown reconciles the served bases if another controller should take them over, because a tunnel is
// down in this controller.
func (r *Reconciler) reconcileTunnelsDown() {
	for _, key := range r.opts.Tunnels {
		if r.opts.Cluster && r.ownLease.tunnelDownFor(key) >= r.opts.LeaseDuration && r.ownLease.reachableByPeers(key) {
			r.enqueueAll(true)
		}
	}
}

// enqueueAll reconciles all bases, or only the bases that this controller serves.
func (r *Reconciler) enqueueAll(served bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for identity, s := range r.states {
		if s.owned || !served {
			r.queue.Add(identity)
		}
	}
}
