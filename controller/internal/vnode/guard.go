package vnode

import (
	"context"
	"strings"
	"time"
)

const guardInterval = 200 * time.Millisecond

// runGuard stops serving all bases as soon as this controller may no longer act. It blocks until ctx is done. It does
// no I/O, because I/O could delay it.
func (r *Reconciler) runGuard(ctx context.Context) {
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

// checkActing starts serving bases if this controller started acting since the last call, and stops serving all bases
// if it stopped acting.
func (r *Reconciler) checkActing() {
	r.reportOthers()
	switch acting, began := r.ownLease.observeTunnels(); {
	case !acting:
		r.stopServingAll()
	case began:
		r.opts.Logger.Info("this controller is active, because it holds a valid Lease", "epoch", r.ownLease.Epoch())
		r.enqueueAll()
	default:
		r.reconcileTunnelsDown()
	}
}

// reportOthers logs a warning if other controllers run in the environment although this controller is not configured
// to share its bases.
func (r *Reconciler) reportOthers() {
	others := strings.Join(r.ownLease.renewing(), ", ")
	if !r.opts.Cluster && others != "" && others != r.reportedControllers {
		r.opts.Logger.Warn("another controller serves this environment and keeps the bases until that "+
			"controller stops; "+
			"set a unique ENV for this controller, or set IS_CLUSTER=true on both to share the bases",
			"env", r.opts.Env, "controllers", others)
	}
	r.reportedControllers = others
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
		r.opts.Logger.Warn("this controller has not renewed its Lease in time; it serves no bases until the "+
			"Lease is renewed",
			"bases",
			len(served))
	}
	for identity, s := range served {
		r.setOwned(identity, s, false)
	}
}

// reconcileTunnelsDown schedules the reconciliation of all served bases if a tunnel of this controller has been down
// for a Lease duration and another controller is connected to the tunnel. The other controller can then take over the
// bases.
func (r *Reconciler) reconcileTunnelsDown() {
	for _, key := range r.opts.Tunnels {
		if r.opts.Cluster && r.ownLease.tunnelDownFor(key) >= r.opts.LeaseDuration && r.ownLease.reachableByPeers(key) {
			r.enqueueOwned()
		}
	}
}

// enqueueAll schedules the reconciliation of all bases.
func (r *Reconciler) enqueueAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for identity := range r.states {
		r.queue.Add(identity)
	}
}

// enqueueOwned schedules the reconciliation of the bases that this controller serves.
func (r *Reconciler) enqueueOwned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for identity, s := range r.states {
		if s.owned {
			r.queue.Add(identity)
		}
	}
}
