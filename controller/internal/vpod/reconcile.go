package vpod

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// reconcile is what an operator does: step by step, it brings one module name on one base to what
// its Pods want. It returns when to look again.
func (p *Provider) reconcile(ctx context.Context, key workerKey) (time.Duration, error) {
	ctx, done, served := p.servedContext(ctx, key.identity)
	defer done()
	if !served {
		return 0, nil
	}
	looked := false
	for {
		b, known := p.registry.Get(key.identity)
		if !p.store.has(key) {
			p.turns.leave(key)
			return 0, nil
		}
		if !known || b.Liveness != base.Alive { // the controller cannot send commands to this base
			return 0, nil
		}
		do, finished := p.plan(key, b)
		if finished {
			p.publishers.trigger(key)
		}
		if do.do == rest {
			if do.look {
				p.askForModules(ctx, b)
			}
			return do.wait, nil
		}
		if do.do == ask {
			if _, err := p.listModules(ctx, b, time.Time{}); err != nil {
				return 0, whileServed(ctx, err)
			}
			p.publishers.trigger(key)
			continue
		}
		if do.do == beginReplace {
			if !p.beginReplacing(key, do.module) {
				return p.opts.Speed.Of(recheckAfter), nil
			}
			continue
		}
		if do.again && !looked { // a base that has started installs its baseline itself meanwhile
			looked = true
			if _, err := p.listModules(ctx, b, time.Now()); err == nil {
				continue
			}
		}
		looked = false
		release, free := p.slots.take(key)
		if !free {
			return 0, nil // it is called when it is its turn
		}
		if err := p.carryOut(ctx, key, b, do, release); err != nil {
			return 0, whileServed(ctx, err)
		}
	}
}

// whileServed drops an error that only says that the base is not served here any more, or that the
// controller ends.
func whileServed(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// plan says what is to be done next in a lane, and whether there is a Pod more of which nothing is
// left in any lane.
func (p *Provider) plan(key workerKey, b base.Snapshot) (do step, finished bool) {
	remembered, unsettled := 0, time.Duration(0)
	if p.opts.Unsettled != nil {
		unsettled = p.opts.Unsettled()
	}
	defer func() {
		if remembered != 0 {
			p.opts.Remembered(key.identity)
		}
	}()
	p.store.change(func() {
		l := p.store.lane(key)
		if l == nil {
			return
		}
		views := l.views(key.module)
		if b.Modules == nil || unasked(views, b) {
			do = step{do: ask}
			return
		}
		now := time.Now()
		before := len(l.placed)
		s := situation{
			now: now, name: key.module, leaving: map[string]departure{}, placed: l.placed, list: map[string]arklet.Biz{}, failed: l.failed,
			unsettled: unsettled, canSwitch: b.Tunnel == tunnel.HTTP, neverSame: p.opts.KeepSameVersion, drain: p.opts.Drain, speed: p.opts.Speed,
		}
		for _, biz := range b.Versions(key.module) {
			s.list[biz.Version] = biz
		}
		for i := len(views) - 1; i >= 0; i-- {
			s.add(views[i], p, key)
		}
		if r := l.replacing; r != nil && !r.notReady.IsZero() {
			r.quiet = quiet{}
			for _, v := range views {
				if v.module.Version == r.module.Version { // whichever jar it asks for: requests to it go to the one that is there
					r.quiet = r.quiet.with(p.quietSince(v.entry, r.notReady, now, key))
				}
			}
		}
		for _, placed := range l.placed {
			e := l.pods[placed.by]
			placed.held = e != nil && !e.deleting
		}
		l.settle(s.list, now)
		l.forgetAttempts(views, s.list)
		remembered = len(l.placed) - before
		troubles, replaces := len(l.failed), l.replacing != nil
		if r := l.replacing; r != nil && (len(s.wants) == 0 || s.wants[0] != r.module || s.has(r.module)) {
			l.replacing = nil
		}
		s.replacing = l.replacing
		do = s.next()                            // it forgets what failed and is there now
		if l.replacing == nil && !s.replaces() { // or it holds the others up: its jar may be no good for them either
			p.turns.leave(key)
		}
		if len(l.failed) < troubles || replaces && l.replacing == nil { // Pods show it
			p.publishers.trigger(key)
		}
		removing := ""
		if (do.do == doUninstall || do.do == makeWay) && !s.wanted(do.module.Version) {
			removing = do.module.Version
		}
		if l.removing != removing { // Pods of that version show it
			l.removing = removing
			p.publishers.trigger(key)
		}
		finished = s.finished(views)
		p.store.dropEmpty(key)
	})
	return do, finished
}

// add takes up what a Pod asks for, or gives up; the newest Pod comes first. The caller holds the
// store's lock.
func (s *situation) add(v view, p *Provider, key workerKey) {
	m := v.module.Module
	if !v.module.installable() {
		return
	}
	if _, there := s.list[m.Version]; there && s.placed[m.Version] == nil { // it was there before, and is the Pods' now
		s.placed[m.Version] = &placement{}
	}
	if v.deleting {
		l := s.leaving[m.Version]
		if v.notReadySince.After(l.since) {
			l.since = v.notReadySince
		}
		l.served = l.served || v.served
		if pod := p.live(v.pod); pod != nil && pod.DeletionTimestamp != nil {
			if until := pod.DeletionTimestamp.Add(-lastMoment); until.After(l.until) {
				l.until = until
			}
			l.comes = l.comes || p.rollouts.successorTo(pod)
			l.preStop = max(l.preStop, min(v.module.preStop, l.until.Sub(l.since)))
			if s.now.Before(l.until) {
				l.quiet = l.quiet.with(p.quietSince(v.entry, v.notReadySince, s.now, key))
			}
		}
		s.leaving[m.Version] = l
		return
	}
	if !slices.Contains(s.wants, m) {
		s.wants = append(s.wants, m)
	}
}

// settle forgets versions that the base does not list. The caller holds the store's lock.
func (l *lane) settle(list map[string]arklet.Biz, now time.Time) {
	for version, p := range l.placed {
		_, there := list[version]
		if there {
			p.unsettled = time.Time{}
		}
		if !there && now.After(p.unsettled) && now.After(p.expected) {
			delete(l.placed, version)
		}
	}
}

// forgetAttempts deletes the records of failed attempts for modules that no longer have a Pod: installs, and
// uninstalls of versions that the base does not list. The caller holds the store's lock.
func (l *lane) forgetAttempts(views []view, list map[string]arklet.Biz) {
	maps.DeleteFunc(l.failed, func(a attempt, _ failure) bool {
		_, listed := list[a.module.Version]
		return (a.command == arklet.CommandInstallBiz || !listed) && !slices.ContainsFunc(views, func(v view) bool {
			return a == install(v.module.Module) || a == uninstall(v.module.Module)
		})
	})
}

// finished notes the deleted Pods of which nothing is left on the base, in this lane or another, and
// reports whether there is one more. The last Pod of a lane takes along what Pods before it have left
// there. The caller holds the store's lock.
func (s *situation) finished(views []view) (more bool) {
	last, held := true, false
	for _, v := range views {
		last = last && v.deleting
	}
	for version := range s.placed {
		_, there := s.list[version]
		held = held || there
	}
	for _, v := range views {
		if !v.deleting {
			continue
		}
		_, there := s.list[v.module.Version]
		gone := !there || s.wanted(v.module.Version)
		if v.module.installable() && (!gone || last && held) {
			continue
		}
		v.left[s.name] = true
		if !v.finished && len(v.left) == len(v.names()) {
			v.entry.finished, more = true, true
		}
	}
	return more
}

// carryOut does one step, for which it has a slot. What comes of it shows in the base's list, or is
// noted as a failure, so that the next look at the lane sees another situation.
func (p *Provider) carryOut(ctx context.Context, key workerKey, b base.Snapshot, do step, release func()) (err error) {
	defer release()
	if do.do == doUninstall || do.do == makeWay {
		p.publishers.trigger(key)
	}
	m := do.module
	again := func() bool { return p.still(key, do) }
	var failed attempt
	switch do.do {
	case doInstall:
		failed = install(m)
		b, err = p.install(ctx, key, b, m, again)
	case doSwitch:
		failed = install(m)
		b, err = p.switchTo(ctx, b, m, again)
	case makeWay:
		failed = uninstall(m)
		b, err = p.uninstall(ctx, b, do.way, again)
		if errors.Is(err, base.ErrNotAgain) {
			break
		}
		if err != nil { // then it is in the way later, and goes then
			p.opts.Logger.Debug("could not make way for a fresh install", "base", b.Identity, "biz", do.way.Identity(), "err", err)
		}
		b, err = p.uninstall(ctx, b, m, again)
	case doUninstall:
		failed = uninstall(m)
		b, err = p.uninstall(ctx, b, m, again)
	case rest, ask, beginReplace: // nothing for the base to do
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, base.ErrNotAgain) {
		return nil
	}
	if errors.Is(err, errSuperseded) {
		p.showInstall(ctx, b)
		return nil
	}
	_, there := b.Module(m.Name, m.Version)
	if failed.command == arklet.CommandUninstallBiz && err != nil && !there {
		p.reportFailure(key, failed, err) // it went all the same
		err = nil
	}
	p.note(key, failed, b, err)
	p.publishers.hurry(key) // what Pods say is not true any more
	return nil
}

// still says whether a step that is being carried out is yet the next one: Pods may have come and gone since
// it began.
func (p *Provider) still(key workerKey, do step) bool {
	b, known := p.registry.Get(key.identity)
	if !known {
		return false
	}
	now, finished := p.plan(key, b)
	if finished {
		p.publishers.trigger(key)
	}
	hasMadeWay := do.do == makeWay && now.do == doInstall && now.module == do.way
	return hasMadeWay || now.do == do.do && now.module == do.module
}

// note remembers what came of an attempt.
func (p *Provider) note(key workerKey, a attempt, b base.Snapshot, err error) {
	replaced := false
	p.store.change(func() {
		l := p.store.lane(key)
		if l == nil {
			return
		}
		if err == nil {
			delete(l.failed, a)
		}
		if replaced = l.replacing != nil && install(l.replacing.module) == a; replaced {
			l.replacing = nil
		}
	})
	if err != nil {
		p.recordFailure(key, a, b, err)
		return
	}
	if replaced {
		p.tell(key, func(v view) bool { return v.wants() && v.module.Module == a.module }, corev1.EventTypeNormal, api.ReasonReplaced,
			"module "+a.module.Identity()+" was uninstalled and installed again from "+redact.URL(a.module.URL)+
				", since the image changed and BIZ_VERSION did not; a new BIZ_VERSION is released without a gap")
	}
}

// tell records an Event on the Pods of a lane that match.
func (p *Provider) tell(key workerKey, of func(view) bool, kind, reason, message string) {
	for _, v := range p.store.views(key) {
		if of(v) {
			p.opts.Recorder.Event(v.pod, kind, reason, message)
		}
	}
}

// reportInvalid tells once that modules of a Pod can't be installed.
func (p *Provider) reportInvalid(e *entry) {
	var pod *corev1.Pod
	var modules []module
	p.store.read(func() { pod, modules = e.pod, e.modules })
	for _, m := range modules {
		if m.invalid != nil && pod.DeletionTimestamp == nil {
			p.opts.Recorder.Event(pod, corev1.EventTypeWarning, errcode.Of(m.invalid).Type(), errcode.Message(m.invalid))
			p.opts.Failure(pod, e.identity, m.Module, m.invalid)
		}
	}
}

// askForModules sends a question for the modules without waiting; the answer triggers the workers.
func (p *Provider) askForModules(ctx context.Context, b base.Snapshot) {
	if err := p.dialog.Ask(ctx, b.Identity, arklet.CommandQueryAllBiz); err != nil {
		p.opts.Logger.Debug("could not ask a base for its modules", "base", b.Identity, "err", err)
	}
}
