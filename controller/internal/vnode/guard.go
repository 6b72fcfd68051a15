package vnode

import (
	"context"
	"strings"
	"time"
)

const guardEvery = 200 * time.Millisecond

// guard stops serving all bases as soon as this controller may not act. It does no I/O that could block it.
func (r *Reconciler) guard(ctx context.Context) {
	tick := r.opts.Clock.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		r.watchOver()
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

func (r *Reconciler) watchOver() {
	r.reportOthers()
	switch acting, began := r.member.look(); {
	case !acting:
		r.loseAll()
	case began:
		r.opts.Logger.Info("this controller may act", "term", r.member.Term())
		r.changedAll(false)
	default:
		r.handOverDue()
	}
}

// reportOthers logs when a controller that does not share its bases finds other controllers in its environment.
func (r *Reconciler) reportOthers() {
	others := strings.Join(r.member.renewing(), ", ")
	if !r.opts.Cluster && others != "" && others != r.reported {
		r.opts.Logger.Warn("another controller serves this environment: its bases stay with it until it ends; "+
			"set a unique ENV for this controller, or set IS_CLUSTER=true on both to share the bases",
			"env", r.opts.Env, "controllers", others)
	}
	r.reported = others
}

// Others returns the number of other controllers of this environment that renew their Leases.
func (r *Reconciler) Others() int { return len(r.member.renewing()) }

// Conflict reports whether another controller with the same CLIENT_ID renews the Lease of this controller.
func (r *Reconciler) Conflict() bool { return r.member.conflict() }

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
		if r.opts.Cluster && r.member.blindFor(key) >= r.opts.LeaseDuration && r.member.seenByOthers(key) {
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
