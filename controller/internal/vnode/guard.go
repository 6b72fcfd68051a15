package vnode

import (
	"context"
	"strings"
	"time"
)

const guardInterval = 200 * time.Millisecond

// guard stops serving all bases as soon as this controller may not act. It does no I/O that could block it.
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

func (r *Reconciler) checkActing() {
	r.reportOthers()
	switch acting, began := r.ownLease.look(); {
	case !acting:
		r.loseAll()
	case began:
		r.opts.Logger.Info("this controller may act", "epoch", r.ownLease.Epoch())
		r.changedAll(false)
	default:
		r.handOverDue()
	}
}

// reportOthers logs when a controller that does not share its bases finds other controllers in its environment.
func (r *Reconciler) reportOthers() {
	others := strings.Join(r.ownLease.renewing(), ", ")
	if !r.opts.Cluster && others != "" && others != r.reported {
		r.opts.Logger.Warn("another controller serves this environment: its bases stay with it until it ends; "+
			"set a unique ENV for this controller, or set IS_CLUSTER=true on both to share the bases",
			"env", r.opts.Env, "controllers", others)
	}
	r.reported = others
}

// OtherControllers returns the number of other controllers of this environment that renew their Leases.
func (r *Reconciler) OtherControllers() int { return len(r.ownLease.renewing()) }

// ClientIDConflict reports whether another controller with the same CLIENT_ID renews the Lease of this controller.
func (r *Reconciler) ClientIDConflict() bool { return r.ownLease.conflict() }

func (r *Reconciler) loseAll() {
	r.mu.Lock()
	served := map[string]*state{}
	for identity, s := range r.states {
		if s.owned {
			served[identity] = s
		}
	}
	r.mu.Unlock()
	if len(served) > 0 {
		r.opts.Logger.Warn("this controller has not renewed its lease in time: it serves no base until it has", "bases",
			len(served))
	}
	for identity, s := range served {
		r.setOwned(identity, s, false)
	}
}

// handOverDue reconciles the bases whose tunnel has been down for too long.
func (r *Reconciler) handOverDue() {
	for _, key := range r.opts.Tunnels {
		if r.opts.Cluster && r.ownLease.tunnelDownFor(key) >= r.opts.LeaseDuration && r.ownLease.reachableByPeers(key) {
			r.changedAll(true)
		}
	}
}

// changedAll reconciles all bases, or only those served here.
func (r *Reconciler) changedAll(served bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for identity, s := range r.states {
		if s.owned || !served {
			r.queue.Add(identity)
		}
	}
}
