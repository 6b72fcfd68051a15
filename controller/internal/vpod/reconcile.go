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
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// reconcile installs and uninstalls the versions of a lane step by step, as its Pods require. It returns when to look again.
func (p *Provider) reconcile(ctx context.Context, key workerKey) (time.Duration, error) {
	served := p.service(key.identity)
	if served == nil {
		return 0, nil
	}
	ctx, done := served.context(ctx)
	defer done()
	looked := false
	for {
		b, known := p.registry.Get(key.identity)
		if !known || b.Liveness != base.Reachable || !p.store.has(key) {
			return 0, nil
		}
		do := p.plan(key, b)
		if do.Do == plan.NoAction {
			if do.Look {
				p.askForModules(ctx, b)
			}
			return do.Wait, nil
		}
		if do.Do == plan.AskForList {
			if _, err := p.listModules(ctx, b, time.Time{}); err != nil {
				return 0, whileServed(ctx, err)
			}
			p.publishers.Add(key)
			continue
		}
		if do.Do == plan.AcquireReplaceTurn {
			if !p.beginReplacing(key, do.Module) {
				return p.opts.Speed.Of(plan.RecheckAfter), nil
			}
			continue
		}
		if do.Again && !looked { // a base that restarts installs its baseline by itself
			looked = true
			if _, err := p.listModules(ctx, b, time.Now()); err == nil {
				continue
			}
		}
		looked = false
		if !served.slots.take(key) {
			return 0, nil // a release adds the key again
		}
		err := p.carryOut(ctx, key, b, do)
		for _, waiting := range served.slots.release() {
			p.operators.Add(waiting)
		}
		if err != nil {
			return 0, whileServed(ctx, err)
		}
	}
}

// whileServed returns nil if the error is due to the end of ctx: the base is not served any more, or the controller stops.
func whileServed(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// plan returns the next step for a lane, and marks the Pods that are finished.
func (p *Provider) plan(key workerKey, b base.Snapshot) (do plan.Step) {
	lag := p.opts.EndpointLag()
	p.store.change(func() {
		l := p.store.lane(key)
		if l == nil {
			return
		}
		views := l.views(key.module)
		if b.Modules == nil || unasked(views, b) {
			do = plan.Step{Do: plan.AskForList}
			return
		}
		in := p.planInput(key, l, views, b)
		in.EndpointLag = lag
		decision := plan.Next(in)
		do = decision.Step
		before := l.memory
		l.memory = decision.Memory
		sameVersion := func(plan.Installed, plan.Installed) bool { return true }
		if !maps.EqualFunc(before.Installed, l.memory.Installed, sameVersion) {
			p.opts.LedgerChanged(key.identity)
		}
		if l.memory.Replacing == nil && !decision.ReplacesJar { // otherwise the jar may be unusable for other bases too
			p.store.leaveTurn(key)
		}
		removing := ""
		if (do.Do == plan.DoUninstall || do.Do == plan.UninstallConflicting) && !in.IsWanted(do.Module.Version) {
			removing = do.Module.Version
		}
		shown := len(l.memory.Failed) < len(before.Failed) || before.Replacing != nil && l.memory.Replacing == nil ||
			l.removing != removing
		l.removing = removing
		if finish(views, in, l.memory) || shown {
			p.publishers.Add(key)
		}
		p.store.dropEmpty(key)
	})
	return do
}

// planInput returns the input of the planner. The caller holds the lock of the store.
func (p *Provider) planInput(key workerKey, l *lane, views []podSnapshot, b base.Snapshot) plan.Input {
	in := plan.Input{
		Now: time.Now(), Name: key.module, Terminating: map[string]plan.Terminating{}, Kept: map[string]bool{},
		Listed: map[string]arklet.Biz{}, Memory: l.memory,
		CanSwitch: b.Tunnel == tunnel.HTTP, KeepSameVersion: p.opts.KeepSameVersion, Drain: p.opts.Drain,
		Speed: p.opts.Speed,
	}
	for _, biz := range b.Versions(key.module) {
		in.Listed[biz.Version] = biz
	}
	for version, installed := range l.memory.Installed {
		e := l.pods[installed.RequestedBy]
		in.Kept[version] = e != nil && !e.deleting
	}
	wanted := slices.ContainsFunc(views, podSnapshot.wants)
	for _, v := range slices.Backward(views) { // the newest Pod first
		m := v.module.Module
		if !v.module.installable() {
			continue
		}
		in.Requested = append(in.Requested, m)
		if v.deleting {
			in.Terminating[m.Version] = p.terminating(in.Terminating[m.Version], v, wanted, key, in.Now)
		} else if !slices.Contains(in.Wanted, m) {
			in.Wanted = append(in.Wanted, m)
		}
	}
	if r := l.memory.Replacing; r != nil && !r.NotReady.IsZero() {
		for _, v := range views {
			if v.module.Version == r.Module.Version { // with any jar: requests are sent to the installed one
				in.ReplacedEndpoints = in.ReplacedEndpoints.With(p.quietSince(v.podRecord, r.NotReady, in.Now, key))
			}
		}
	}
	return in
}

// terminating adds a Pod that is being deleted to its version. wanted is set if the lane has a Pod that is not being deleted:
// the planner does not use SuccessorComes then. The caller holds the lock of the store.
func (p *Provider) terminating(t plan.Terminating, v podSnapshot, wanted bool, key workerKey,
	now time.Time) plan.Terminating {
	if v.notReadySince.After(t.Since) {
		t.Since = v.notReadySince
	}
	t.WasReady = t.WasReady || v.served
	pod := p.live(v.pod)
	if pod == nil || pod.DeletionTimestamp == nil {
		return t
	}
	if until := pod.DeletionTimestamp.Add(-plan.LastMoment); until.After(t.Until) {
		t.Until = until
	}
	t.SuccessorComes = t.SuccessorComes || !wanted && p.rollouts.successorComes(pod)
	t.PreStop = max(t.PreStop, min(v.module.preStop, t.Until.Sub(t.Since)))
	if now.Before(t.Until) {
		t.Endpoints = t.Endpoints.With(p.quietSince(v.podRecord, v.notReadySince, now, key))
	}
	return t
}

// finish marks the deleted Pods of which nothing is left on the base, in this lane or another, and reports whether there
// is one more. The last Pod of a lane also waits for the versions that Pods before it have left there. The caller holds
// the lock of the store.
func finish(views []podSnapshot, in plan.Input, m plan.Memory) (more bool) {
	last, held := true, false
	for _, v := range views {
		last = last && v.deleting
	}
	for version := range m.Installed {
		_, listed := in.Listed[version]
		held = held || listed
	}
	for _, v := range views {
		if !v.deleting {
			continue
		}
		_, listed := in.Listed[v.module.Version]
		gone := !listed || in.IsWanted(v.module.Version)
		if v.module.installable() && (!gone || last && held) {
			continue
		}
		v.left[in.Name] = true
		if !v.finished && len(v.left) == len(v.names()) {
			v.podRecord.finished, more = true, true
		}
	}
	return more
}

// carryOut does one step. The list of the base shows the result, or the store has a failure.
func (p *Provider) carryOut(ctx context.Context, key workerKey, b base.Snapshot, do plan.Step) (err error) {
	if do.Do == plan.DoUninstall || do.Do == plan.UninstallConflicting {
		p.publishers.Add(key)
	}
	m := do.Module
	again := func() bool { return p.still(key, do) }
	var failed plan.Attempt
	switch do.Do {
	case plan.DoInstall:
		failed = plan.Install(m)
		b, err = p.install(ctx, key, b, m, again)
	case plan.DoSwitch:
		failed = plan.Install(m)
		b, err = p.switchTo(ctx, b, m, again)
	case plan.UninstallConflicting:
		failed = plan.Uninstall(m)
		b, err = p.uninstall(ctx, b, do.Conflicting, again)
		if errors.Is(err, base.ErrResendDeclined) {
			break
		}
		if err != nil { // it is tried again later
			p.opts.Logger.Debug("uninstalling a conflicting version failed", "base", b.Identity, "biz",
				do.Conflicting.Identity(), "err", err)
		}
		b, err = p.uninstall(ctx, b, m, again)
	case plan.DoUninstall:
		failed = plan.Uninstall(m)
		b, err = p.uninstall(ctx, b, m, again)
	case plan.NoAction, plan.AskForList, plan.AcquireReplaceTurn: // no command
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, base.ErrResendDeclined) {
		return nil
	}
	if errors.Is(err, errSuperseded) {
		p.showInstall(ctx, b)
		return nil
	}
	_, there := b.Module(m.Name, m.Version)
	if failed.Command == arklet.CommandUninstallBiz && err != nil && !there {
		p.reportFailure(key, failed, err) // the base has uninstalled it nevertheless
		err = nil
	}
	p.note(key, failed, b, err)
	p.publishers.Add(key)
	return nil
}

// still reports whether a step in progress is still the next one. Pods may have changed since it began.
func (p *Provider) still(key workerKey, do plan.Step) bool {
	b, known := p.registry.Get(key.identity)
	if !known {
		return false
	}
	now := p.plan(key, b)
	conflictGone := do.Do == plan.UninstallConflicting && now.Do == plan.DoInstall && now.Module == do.Conflicting
	return conflictGone || now.Do == do.Do && now.Module == do.Module
}

// note records the result of an attempt.
func (p *Provider) note(key workerKey, a plan.Attempt, b base.Snapshot, err error) {
	replaced := false
	p.store.change(func() {
		l := p.store.lane(key)
		if l == nil {
			return
		}
		if err == nil {
			delete(l.memory.Failed, a)
		}
		replaced = l.memory.Replacing != nil && plan.Install(l.memory.Replacing.Module) == a
		if replaced {
			l.memory.Replacing = nil
		}
	})
	if err != nil {
		p.recordFailure(key, a, b, err)
		return
	}
	if !replaced {
		return
	}
	for _, v := range p.store.views(key) {
		if v.wants() && v.module.Module == a.Module {
			p.opts.Recorder.Event(v.pod, corev1.EventTypeNormal, api.ReasonReplaced,
				"module "+a.Module.Identity()+" was uninstalled and installed again from "+redact.URL(a.Module.URL)+
					", since the image changed and BIZ_VERSION did not; a new BIZ_VERSION is released without a gap")
		}
	}
}

// reportInvalid reports the modules of a Pod that cannot be installed.
func (p *Provider) reportInvalid(e *podRecord) {
	var pod *corev1.Pod
	var modules []module
	p.store.read(func() { pod, modules = e.pod, e.modules })
	for _, m := range modules {
		if m.invalid != nil && pod.DeletionTimestamp == nil {
			p.opts.Recorder.Event(pod, corev1.EventTypeWarning, errcode.Of(m.invalid).Type(),
				errcode.Message(m.invalid))
			p.opts.Failure(pod, e.identity, m.Module, m.invalid)
		}
	}
}

// askForModules requests the list of a base without waiting for it.
func (p *Provider) askForModules(ctx context.Context, b base.Snapshot) {
	if err := p.requests.Query(ctx, b.Identity, arklet.CommandQueryAllBiz); err != nil {
		p.opts.Logger.Debug("could not ask a base for its modules", "base", b.Identity, "err", err)
	}
}
