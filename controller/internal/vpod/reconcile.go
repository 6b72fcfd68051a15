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

// reconcile plans and executes actions for a module slot until no action is left. It returns the delay before the
// next reconciliation of the slot; 0 means that none is needed before the next change.
func (p *Provider) reconcile(ctx context.Context, key slotKey) (time.Duration, error) {
	served := p.servedBase(key.identity)
	if served == nil {
		return 0, nil
	}
	ctx, done := served.withContext(ctx)
	defer done()
	relisted := false
	for {
		b, known := p.registry.Get(key.identity)
		if !known || b.Liveness != base.Reachable || !p.store.hasSlot(key) {
			return 0, nil
		}
		action := p.nextAction(key, b)
		if action.Kind == plan.NoAction {
			if action.NeedsList {
				p.requestList(ctx, b)
			}
			return action.Wait, nil
		}
		if action.Kind == plan.RequestList {
			if _, err := p.listModules(ctx, b, time.Time{}); err != nil {
				return 0, ignoreCancelled(ctx, err)
			}
			p.publishers.Add(key)
			continue
		}
		if action.Kind == plan.AcquireReplacePermit {
			if !p.startReplacing(key, action) {
				return p.opts.TimeScale.Of(plan.RecheckInterval), nil
			}
			continue
		}
		if action.Retry && !relisted { // the base may have installed the module since, as part of its baseline
			relisted = true
			if _, err := p.listModules(ctx, b, time.Now()); err == nil {
				continue
			}
		}
		relisted = false
		if !served.commands.acquire(key) {
			return 0, nil // the next release of a command adds the key again
		}
		err := p.execute(ctx, key, b, action)
		for _, waiting := range served.commands.release() {
			p.operators.Add(waiting)
		}
		if err != nil {
			return 0, ignoreCancelled(ctx, err)
		}
	}
}

// ignoreCancelled returns err, or nil if ctx is done because this controller no longer serves the base or is
// stopping.
func ignoreCancelled(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// nextAction returns the next action for a module slot, and marks the Pods whose modules are all uninstalled as
// finished.
func (p *Provider) nextAction(key slotKey, b base.Snapshot) (action plan.Action) {
	lag := p.opts.EndpointLag()
	p.store.change(func() {
		l := p.store.slot(key)
		if l == nil {
			return
		}
		snapshots := l.snapshots(key.module)
		if b.Modules == nil || anyStale(snapshots, b) {
			action = plan.Action{Kind: plan.RequestList}
			return
		}
		in := p.planInput(key, l, snapshots, b)
		in.EndpointLag = lag
		decision := plan.Next(in)
		action = decision.Action
		before := l.memory
		l.memory = decision.Memory
		sameVersion := func(plan.InstalledVersion, plan.InstalledVersion) bool { return true }
		if !maps.EqualFunc(before.Installed, l.memory.Installed, sameVersion) {
			p.opts.InstallRecordChanged(key.identity)
		}
		// If the replacement failed, the jar may be unusable on other bases too: the slot keeps the permit.
		if l.memory.Replacing == nil && !decision.ReplacesJar {
			p.store.releaseReplacePermit(key)
		}
		removing := ""
		if (action.Kind == plan.DoUninstall || action.Kind == plan.UninstallConflicting) &&
			!in.IsWanted(action.Module.Version) {
			removing = action.Module.Version
		}
		shown := len(l.memory.Failed) < len(before.Failed) || before.Replacing != nil && l.memory.Replacing == nil ||
			l.uninstalling != removing
		l.uninstalling = removing
		if markFinished(snapshots, in, l.memory) || shown {
			p.publishers.Add(key)
		}
		p.store.dropEmpty(key)
	})
	return action
}

// planInput returns the state of a module slot as the input for plan.Next. The caller holds the lock of the store.
func (p *Provider) planInput(key slotKey, l *moduleSlot, snapshots []podSnapshot, b base.Snapshot) plan.Input {
	in := plan.Input{
		Now: time.Now(), Name: key.module, Terminating: map[string]plan.TerminatingVersion{}, Kept: map[string]bool{},
		Listed: map[string]arklet.Biz{}, Memory: l.memory,
		CanSwitch: b.Tunnel == tunnel.HTTP, KeepSameVersion: p.opts.KeepSameVersion, Drain: p.opts.Drain,
		TimeScale: p.opts.TimeScale,
	}
	for _, biz := range b.Versions(key.module) {
		in.Listed[biz.Version] = biz
	}
	for version, installed := range l.memory.Installed {
		e := l.pods[installed.RequestedBy]
		in.Kept[version] = e != nil && !e.deleting
	}
	wanted := slices.ContainsFunc(snapshots, podSnapshot.wants)
	for _, v := range slices.Backward(snapshots) { // the newest Pod first
		m := v.module.Module
		if !v.module.installable() {
			continue
		}
		in.Requested = append(in.Requested, m)
		if v.deleting {
			in.Terminating[m.Version] = p.addTerminating(in.Terminating[m.Version], v, wanted, key, in.Now)
		} else if !slices.Contains(in.Wanted, m) {
			in.UninstallFirst = in.UninstallFirst || len(in.Wanted) == 0 && v.module.uninstallFirst
			in.Wanted = append(in.Wanted, m)
		}
	}
	if r := l.memory.Replacing; r != nil && !r.NotReady.IsZero() {
		for _, v := range snapshots {
			if r.Replaces(v.module.Version) { // with any URL: the installed jar serves all of these Pods
				in.ReplacedEndpoints = in.ReplacedEndpoints.WithPod(
					p.endpointsDrainedSince(v.podRecord, r.NotReady, in.Now, key))
			}
		}
	}
	return in
}

// addTerminating adds a Pod that is being deleted to the record of its version. wanted reports whether another Pod of
// the slot requests the module. In that case, SuccessorExpected has no effect. The caller holds the lock of the
// store.
func (p *Provider) addTerminating(t plan.TerminatingVersion, v podSnapshot, wanted bool, key slotKey,
	now time.Time) plan.TerminatingVersion {
	if v.notReadySince.After(t.Since) {
		t.Since = v.notReadySince
	}
	t.WasReady = t.WasReady || v.wasReady
	pod := p.cachedPod(v.pod)
	if pod == nil || pod.DeletionTimestamp == nil {
		return t
	}
	if until := pod.DeletionTimestamp.Add(-plan.UninstallReserve); until.After(t.Until) {
		t.Until = until
	}
	t.SuccessorExpected = t.SuccessorExpected || !wanted && p.rollouts.mayGetSuccessor(pod)
	t.PreStop = max(t.PreStop, min(v.module.preStop, t.Until.Sub(t.Since)))
	if now.Before(t.Until) {
		t.Endpoints = t.Endpoints.WithPod(p.endpointsDrainedSince(v.podRecord, v.notReadySince, now, key))
	}
	return t
}

// markFinished marks Pods that are being deleted and whose modules are uninstalled as finished. It reports whether it
// marked any. The last Pod of a slot also waits until earlier versions are uninstalled. The caller holds the lock of
// the store.
func markFinished(snapshots []podSnapshot, in plan.Input, m plan.Memory) (more bool) {
	last, held := true, false
	for _, v := range snapshots {
		last = last && v.deleting
	}
	for version := range m.Installed {
		_, listed := in.Listed[version]
		held = held || listed
	}
	for _, v := range snapshots {
		if !v.deleting {
			continue
		}
		_, listed := in.Listed[v.module.Version]
		released := !listed || in.IsWanted(v.module.Version)
		if v.module.installable() && (!released || last && held) {
			continue
		}
		v.removedModules[in.Name] = true
		if !v.finished && len(v.removedModules) == len(v.moduleNames()) {
			v.podRecord.finished, more = true, true
		}
	}
	return more
}

// execute executes one action. When it returns, the module list of the base shows the result, and the store contains
// any failures.
func (p *Provider) execute(ctx context.Context, key slotKey, b base.Snapshot, action plan.Action) (err error) {
	if action.Kind == plan.DoUninstall || action.Kind == plan.UninstallConflicting {
		p.publishers.Add(key)
	}
	m := action.Module
	again := func() bool { return p.isStillPlanned(key, action) }
	var failed plan.Attempt
	switch action.Kind {
	case plan.DoInstall:
		failed = plan.InstallAttempt(m)
		b, err = p.install(ctx, key, b, action, again)
	case plan.DoSwitch:
		failed = plan.InstallAttempt(m)
		b, err = p.switchTo(ctx, b, m, again)
	case plan.UninstallConflicting:
		failed = plan.UninstallAttempt(m)
		b, err = p.uninstall(ctx, b, action.Conflicting, again)
		if errors.Is(err, base.ErrResendDeclined) {
			break
		}
		if err != nil { // the planner tries again later
			p.opts.Logger.Debug("could not uninstall a conflicting version", "base", b.Identity, "biz",
				action.Conflicting.Identity(), "err", err)
		}
		b, err = p.uninstall(ctx, b, m, again)
	case plan.DoUninstall:
		failed = plan.UninstallAttempt(m)
		b, err = p.uninstall(ctx, b, m, again)
	case plan.NoAction, plan.RequestList, plan.AcquireReplacePermit: // no command
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, base.ErrResendDeclined) {
		return nil
	}
	if errors.Is(err, errUnwanted) {
		p.listCancelledInstall(ctx, b)
		return nil
	}
	_, exists := b.Module(m.Name, m.Version)
	if failed.Command == arklet.CommandUninstallBiz && err != nil && !exists {
		p.reportFailure(key, failed, err) // the module was uninstalled nevertheless
		err = nil
	}
	p.recordResult(key, failed, b, err)
	p.publishers.Add(key)
	return nil
}

// isStillPlanned reports whether an action in progress is still the planned action. The Pods may have changed since
// the action started.
func (p *Provider) isStillPlanned(key slotKey, action plan.Action) bool {
	b, known := p.registry.Get(key.identity)
	if !known {
		return false
	}
	now := p.nextAction(key, b)
	conflictGone := action.Kind == plan.UninstallConflicting && now.Kind == plan.DoInstall &&
		now.Module == action.Conflicting
	return conflictGone || now.Kind == action.Kind && now.Module == action.Module
}

// recordResult records the result of an attempted action. If the jar of a version was replaced, it also records an
// Event.
func (p *Provider) recordResult(key slotKey, a plan.Attempt, b base.Snapshot, err error) {
	replaced := false
	p.store.change(func() {
		l := p.store.slot(key)
		if l == nil {
			return
		}
		if err == nil {
			delete(l.memory.Failed, a)
		}
		if r := l.memory.Replacing; r != nil && plan.InstallAttempt(r.Module) == a {
			replaced = !r.UninstallFirst
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
	for _, v := range p.store.snapshots(key) {
		if v.wants() && v.module.Module == a.Module {
			p.opts.Recorder.Event(v.pod, corev1.EventTypeNormal, api.ReasonReplaced,
				"module "+a.Module.Identity()+" was uninstalled and installed again from "+redact.URL(a.Module.URL)+
					", because the image changed and BIZ_VERSION did not; set a new BIZ_VERSION to release "+
					"without downtime")
		}
	}
}

// reportInvalid reports the invalid modules of a Pod in Events and to Options.ModuleFailed, unless the Pod is being
// deleted.
func (p *Provider) reportInvalid(e *podRecord) {
	var pod *corev1.Pod
	var modules []module
	p.store.withReadLock(func() { pod, modules = e.pod, e.modules })
	for _, m := range modules {
		if m.invalid != nil && pod.DeletionTimestamp == nil {
			p.opts.Recorder.Event(pod, corev1.EventTypeWarning, errcode.Of(m.invalid).Type(),
				errcode.Message(m.invalid))
			p.opts.ModuleFailed(pod, e.identity, m.Module, m.invalid)
		}
	}
}

// requestList requests the module list of a base without waiting for the list.
func (p *Provider) requestList(ctx context.Context, b base.Snapshot) {
	if err := p.requests.Query(ctx, b.Identity, arklet.CommandQueryAllBiz); err != nil {
		p.opts.Logger.Debug("could not request the module list", "base", b.Identity, "err", err)
	}
}
