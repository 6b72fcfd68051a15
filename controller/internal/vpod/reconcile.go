package vpod

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// reconcile is what a worker does: it brings one module name on one base to what its Pods want, and
// the Pods' status to what is so. It returns when to look again.
func (p *Provider) reconcile(ctx context.Context, key workerKey) (time.Duration, error) {
	b, known := p.registry.Get(key.identity)
	if !known || len(p.store.views(key)) == 0 {
		return 0, nil
	}
	if b.Liveness != base.Alive { // nothing can be done there, and its Pods serve nobody
		return 0, p.writeStatuses(ctx, key, b)
	}
	if b.Modules == nil {
		var err error
		if b, err = p.listModules(ctx, b, time.Time{}); err != nil {
			return 0, err
		}
	}
	var wait soonest
	b = p.activateNewest(ctx, key, b, &wait)
	if err := p.writeStatuses(ctx, key, b); err != nil {
		return 0, err
	}
	b, removed, err := p.uninstallUnwanted(ctx, key, b, &wait)
	if err != nil {
		return 0, err
	}
	if removed { // what was in the way may be out of it
		b = p.activateNewest(ctx, key, b, &wait)
		if err := p.writeStatuses(ctx, key, b); err != nil {
			return 0, err
		}
	}
	return wait.d, ctx.Err()
}

// soonest is the shortest of several waits; zero means none.
type soonest struct{ d time.Duration }

func (s *soonest) within(d time.Duration) {
	if d <= 0 {
		d = time.Millisecond
	}
	if s.d == 0 || d < s.d {
		s.d = d
	}
}

// recheckAfter is how soon a worker looks again at a module that somebody else is installing.
const recheckAfter = time.Second

// activateNewest sees to it that the newest Pod's version is active on the base, or, if that can't
// be had, the next older one's: the base is to have one version of the module that serves, and it
// does not get back an older one that a newer replaced.
func (p *Provider) activateNewest(ctx context.Context, key workerKey, b base.Snapshot, wait *soonest) base.Snapshot {
	views := p.store.views(key)
	for _, v := range slices.Backward(views) {
		if v.deleting || ctx.Err() != nil {
			continue
		}
		if v.module.invalid != nil {
			p.reportInvalid(v)
			continue
		}
		var active bool
		if b, active = p.ensureActive(ctx, b, v, wait); active {
			break
		}
	}
	return b
}

// reportInvalid tells once that a module can't be installed.
func (p *Provider) reportInvalid(v view) {
	if v.failure.err == nil {
		err := v.module.invalid
		p.store.change(func() { v.failures[v.module.Name] = failure{err: err, final: true} })
		p.opts.Recorder.Event(v.pod, corev1.EventTypeWarning, errcode.Of(err).Type(), errcode.Message(err))
		p.opts.Failure(v.pod, v.identity, v.module.Module, err)
	}
}

// ensureActive makes one version active, and says whether it is.
func (p *Provider) ensureActive(ctx context.Context, b base.Snapshot, v view, wait *soonest) (base.Snapshot, bool) {
	m := v.module.Module
	biz, there := b.Module(m.Name, m.Version)
	if there && biz.State == arklet.StateActivated {
		p.clearFailure(v, m.Name)
		return b, true
	}
	if there && biz.State == arklet.StateResolved {
		wait.within(recheckAfter)
		p.askForModules(ctx, b)
		return b, false
	}
	if v.failure.final {
		return b, false
	}
	if left := time.Until(v.failure.next); v.failure.err != nil && left > 0 {
		wait.within(left)
		return b, false
	}
	var err error
	switch {
	case !there:
		b, err = p.install(ctx, b, m)
	case biz.State == arklet.StateDeactivated:
		var tried bool
		if b, tried, err = p.activate(ctx, b, v, biz); !tried {
			return b, false
		}
	default: // broken: the base refuses to install over it
		b, err = p.reinstall(ctx, b, v, m)
	}
	if ctx.Err() != nil {
		return b, false
	}
	biz, there = b.Module(m.Name, m.Version)
	if err == nil && there && biz.State == arklet.StateActivated {
		p.clearFailure(v, m.Name)
		return b, true
	}
	if err == nil && there && biz.State == arklet.StateDeactivated {
		return b, false // it is installed, and another version serves: status says so
	}
	if err == nil {
		err = errcode.Wrap(errcode.ArkletInstallModuleFailed, errors.New("the base says that it installed "+m.Identity()+" and does not list it as activated"))
	}
	f := p.recordFailure(v, m, err, p.opts.MaxAttempts)
	if !f.final {
		wait.within(time.Until(f.next))
	}
	return b, false
}

// activate makes a version that the base has deactivated serve. Over HTTP there is a command for
// it. Over MQTT only a fresh install activates: that is safe when the version had served before
// (the base switched away from it, and will switch back), or when no other version serves.
// Otherwise the base does not activate new versions (protocol 5.3, mode 3), and trying would loop.
func (p *Provider) activate(ctx context.Context, b base.Snapshot, v view, biz arklet.Biz) (base.Snapshot, bool, error) {
	m := v.module.Module
	if b.Tunnel == tunnel.HTTP {
		answer, err := p.runCommand(ctx, b.Identity, arklet.Request{Command: arklet.CommandSwitchBiz, Module: m}, p.opts.InstallTimeout, errcode.ArkletInstallModuleTimedOut)
		if err != nil {
			return b, true, err
		}
		b, err = p.listModules(ctx, b, answer.PublishedAt)
		return b, true, err
	}
	const switched = "SWITCHED" // protocol 5.2
	if biz.Latest.Reason != switched && anyActive(b, m.Name) {
		return b, false, nil
	}
	b, err := p.reinstall(ctx, b, v, m)
	return b, true, err
}

// reinstall uninstalls a version and installs it again.
func (p *Provider) reinstall(ctx context.Context, b base.Snapshot, v view, m arklet.Module) (base.Snapshot, error) {
	b, err := p.uninstall(ctx, b, m)
	if _, there := b.Module(m.Name, m.Version); there && err != nil {
		return b, err
	}
	if err != nil {
		p.reportFailure(v, m, err)
	}
	return p.install(ctx, b, m)
}

// isActive says whether a version of a module is active on a base.
func isActive(b base.Snapshot, m arklet.Module) bool {
	biz, there := b.Module(m.Name, m.Version)
	return there && biz.State == arklet.StateActivated
}

// anyActive says whether any version of a module is active on a base.
func anyActive(b base.Snapshot, name string) bool {
	return slices.ContainsFunc(b.Modules, func(m arklet.Biz) bool {
		return m.Name == name && m.State == arklet.StateActivated
	})
}

// askForModules sends a question for the modules without waiting; the answer triggers the worker.
func (p *Provider) askForModules(ctx context.Context, b base.Snapshot) {
	if err := p.dialog.Ask(ctx, b.Identity, arklet.CommandQueryAllBiz); err != nil {
		p.opts.Logger.Debug("could not ask a base for its modules", "base", b.Identity, "err", err)
	}
}
