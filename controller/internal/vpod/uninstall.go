package vpod

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// uninstallUnwanted uninstalls what no Pod wants any more: the modules of Pods that are deleted,
// and those that an in-place update replaced, once what replaced them serves; both once they are
// drained. Modules that no Pod ever asked for are left alone.
func (p *Provider) uninstallUnwanted(ctx context.Context, key workerKey, b base.Snapshot, wait *soonest) (base.Snapshot, bool, error) {
	views := p.store.views(key)
	wanted := map[arklet.Module]bool{} // without URL
	for _, v := range views {
		if v.wants() {
			wanted[arklet.Module{Name: v.module.Name, Version: v.module.Version}] = true
		}
	}
	next, _ := successor(views)
	replacementServes := isActive(b, next)
	removed := false
	for _, v := range views {
		if !v.deleting && !replacementServes {
			continue
		}
		versions := slices.Clone(v.replaced)
		if v.deleting && v.module.invalid == nil {
			versions = append(versions, v.module.Module)
		}
		gone := true
		for _, m := range versions {
			m.URL = ""
			_, there := b.Module(m.Name, m.Version)
			if wanted[m] || !there {
				continue
			}
			var done bool
			if p.mustStay(b, v, m, views) {
				wait.within(recheckAfter)
				gone = false
				continue
			}
			if b, done = p.uninstallDrained(ctx, b, v, m, views, wait); done {
				removed = true
			} else {
				gone = false
			}
		}
		if !gone {
			continue
		}
		if err := p.moduleRemoved(ctx, key, v); err != nil {
			return b, removed, err
		}
	}
	return b, removed, nil
}

// mustStay says whether the module of a deleted Pod stays, for what comes instead is not active
// yet. A Deployment that may make Pods unavailable deletes old ones without knowing where new ones
// will be: without this, their bases would have no version of the module meanwhile. It goes in time
// for the Pod's grace period, at whose end PodController takes the Pod out of the API whatever the
// base says.
func (p *Provider) mustStay(b base.Snapshot, v view, m arklet.Module, views []view) bool {
	if !v.deleting || !isOnlyActive(b, m) {
		return false
	}
	pod, there := p.informer.Get(nameOf(v.pod))
	if !there || pod.UID != v.uid || pod.DeletionTimestamp == nil || time.Now().Add(lastMoment).After(pod.DeletionTimestamp.Time) {
		return false
	}
	next, bound := successor(views)
	if !bound {
		return p.rollouts.successorTo(pod)
	}
	biz, there := b.Module(next.Name, next.Version)
	return !there || biz.State != arklet.StateDeactivated // which is active only after this one
}

// lastMoment is how much of a grace period is left for the uninstall.
const lastMoment = 5 * time.Second

// isOnlyActive says whether a version of a module is active, and no other.
func isOnlyActive(b base.Snapshot, m arklet.Module) bool {
	return isActive(b, m) && !slices.ContainsFunc(b.Modules, func(o arklet.Biz) bool {
		return o.Name == m.Name && o.Version != m.Version && o.State == arklet.StateActivated
	})
}

// successor is what the newest Pod that stays asks for.
func successor(views []view) (arklet.Module, bool) {
	for _, v := range slices.Backward(views) {
		if v.wants() {
			return v.module.Module, true
		}
	}
	return arklet.Module{}, false
}

// uninstallDrained uninstalls one version, when it is time.
func (p *Provider) uninstallDrained(ctx context.Context, b base.Snapshot, v view, m arklet.Module, views []view, wait *soonest) (base.Snapshot, bool) {
	now := time.Now()
	if left := p.drainedSince(v, m.Name).Add(p.opts.Drain).Sub(now); p.opts.Drain > 0 && left > 0 {
		wait.within(left)
		return b, false
	}
	if left := v.failure.next.Sub(now); v.deleting && v.failure.err != nil && left > 0 {
		wait.within(left)
		return b, false
	}
	if next, kept := deactivatedSuccessor(b, m, views); kept && v.failure.err == nil { // it makes way once
		var err error
		if b, err = p.uninstall(ctx, b, next); err != nil { // then it is in the way later, and goes then
			p.opts.Logger.Debug("could not make way for a fresh install", "base", b.Identity, "biz", next.Identity(), "err", err)
		}
	}
	b, err := p.uninstall(ctx, b, m)
	if ctx.Err() != nil {
		return b, false
	}
	if _, there := b.Module(m.Name, m.Version); err != nil && !there {
		p.reportFailure(v, m, err)
		return b, true
	}
	if err != nil {
		f := p.recordFailure(v, m, err, 0) // without limit: what is left behind drifts from the Pods for ever
		wait.within(f.next.Sub(now))
		return b, false
	}
	p.opts.Logger.Debug("uninstalled a module", "base", b.Identity, "biz", m.Identity(), "pod", nameOf(v.pod).String())
	return b, true
}

// deactivatedSuccessor finds the version that the base keeps deactivated for the one that is to go.
// Over MQTT only a fresh install activates it, so it is uninstalled while the other one still
// serves: the base is without the module for the time of an install, and no longer.
func deactivatedSuccessor(b base.Snapshot, m arklet.Module, views []view) (arklet.Module, bool) {
	next, bound := successor(views)
	if !bound || b.Tunnel == tunnel.HTTP || !isOnlyActive(b, m) {
		return arklet.Module{}, false
	}
	biz, there := b.Module(next.Name, next.Version)
	return next, there && biz.State == arklet.StateDeactivated
}

// drainedSince is when requests ceased to go to what a Pod gives up: when it turned Not Ready or
// began to be deleted, or, in place, when what came instead took over.
func (p *Provider) drainedSince(v view, module string) (from time.Time) {
	if v.deleting {
		return v.notReadySince
	}
	p.store.change(func() {
		if _, known := v.takenOver[module]; !known {
			v.takenOver[module] = time.Now()
		}
		from = v.takenOver[module]
	})
	return from
}

// moduleRemoved notes that nothing of a module is left of a Pod, and takes the Pod out of the API
// when that is so of all its modules.
func (p *Provider) moduleRemoved(ctx context.Context, key workerKey, v view) error {
	last := false
	p.store.change(func() {
		v.entry.replaced = slices.DeleteFunc(v.entry.replaced, func(m arklet.Module) bool { return m.Name == key.module })
		if !v.deleting {
			return
		}
		v.removed[key.module] = true
		last = !slices.ContainsFunc(v.moduleNames(), func(name string) bool { return !v.removed[name] })
	})
	if !last {
		return nil
	}
	return p.finishPod(ctx, v.entry)
}

// finishPod takes a Pod out of the API of which nothing is on its base any more.
func (p *Provider) finishPod(ctx context.Context, e *entry) error {
	var pod *corev1.Pod
	p.store.read(func() { pod = e.pod })
	if err := p.writer.delete(ctx, pod); err != nil {
		return err
	}
	p.store.remove(e)
	return nil
}
