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
	"github.com/koupleless/koupsandbox/controller/internal/handover"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// settle is the work of a lane: bring one module name on one base to what its
// Pods want, and the Pods' status to what is so. It returns when to look again.
func (p *Provider) settle(ctx context.Context, key laneKey) (time.Duration, error) {
	b, known := p.registry.Get(key.identity)
	if !known || len(p.store.lane(key)) == 0 {
		return 0, nil
	}
	if b.Liveness != base.Alive { // nothing can be done there, and its Pods serve nobody
		return 0, p.publish(ctx, key, b)
	}
	if b.Modules == nil {
		var err error
		if b, err = p.truth(ctx, b, time.Time{}); err != nil {
			return 0, err
		}
	}
	var wait soonest
	b = p.provide(ctx, key, b, &wait)
	if err := p.publish(ctx, key, b); err != nil {
		return 0, err
	}
	b, removed, err := p.clear(ctx, key, b, &wait)
	if err != nil {
		return 0, err
	}
	if removed { // what was in the way may be out of it
		b = p.provide(ctx, key, b, &wait)
		if err := p.publish(ctx, key, b); err != nil {
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

// lookAgain is how soon a lane looks again at a module that somebody else is installing.
const lookAgain = time.Second

// provide sees to it that the newest Pod's version is active on the base, or,
// if that can't be had, the next older one's: the base is to have one version of
// the module that serves, and it does not get back an older one that a newer replaced.
func (p *Provider) provide(ctx context.Context, key laneKey, b base.Snapshot, wait *soonest) base.Snapshot {
	views := p.store.lane(key)
	for _, v := range slices.Backward(views) {
		if v.deleting || ctx.Err() != nil {
			continue
		}
		if v.module.invalid != nil {
			p.noteInvalid(v)
			continue
		}
		var active bool
		if b, active = p.ensure(ctx, b, v, wait); active {
			break
		}
	}
	return b
}

func (p *Provider) noteInvalid(v view) {
	if v.failure.err == nil {
		v.failure.attempts = p.opts.MaxAttempts
		err := v.module.invalid
		p.store.change(func() { v.failures[v.module.Name] = failure{err: err, final: true} })
		p.opts.Recorder.Event(v.pod, corev1.EventTypeWarning, errcode.Of(err).Type(), errcode.Message(err))
		p.opts.Failure(v.pod, v.identity, v.module.Module, err)
	}
}

// ensure makes one version active, and says whether it is.
func (p *Provider) ensure(ctx context.Context, b base.Snapshot, v view, wait *soonest) (base.Snapshot, bool) {
	m := v.module.Module
	biz, there := b.Module(m.Name, m.Version)
	if there && biz.State == arklet.StateActivated {
		p.clearFailure(v, m.Name)
		return b, true
	}
	if there && biz.State == arklet.StateResolved {
		wait.within(lookAgain)
		p.askSoon(ctx, b)
		return b, false
	}
	if v.failure.final {
		return b, false
	}
	if left := v.failure.next.Sub(p.opts.Clock.Now()); v.failure.err != nil && left > 0 {
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
	f := p.noteFailure(v, m, err, p.opts.MaxAttempts)
	if !f.final {
		wait.within(f.next.Sub(p.opts.Clock.Now()))
	}
	return b, false
}

// activate makes a version that the base has deactivated serve. Over HTTP there
// is a command for it. Over MQTT only a fresh install activates: that is safe
// when the version had served before (the base switched away from it, and will
// switch back), or when no other version serves. Otherwise the base does not
// activate new versions (protocol 5.3, mode 3), and trying would loop.
func (p *Provider) activate(ctx context.Context, b base.Snapshot, v view, biz arklet.Biz) (base.Snapshot, bool, error) {
	m := v.module.Module
	if b.Tunnel == tunnel.HTTP {
		answer, err := p.do(ctx, b.Identity, arklet.Request{Command: arklet.CommandSwitchBiz, Module: m}, p.opts.InstallTimeout, errcode.ArkletInstallModuleTimedOut)
		if err != nil {
			return b, true, err
		}
		b, err = p.truth(ctx, b, answer.PublishedAt)
		return b, true, err
	}
	const switched = "SWITCHED" // protocol 5.2
	if biz.Latest.Reason != switched && serves(b, m.Name) {
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
		p.tell(v, m, err)
	}
	return p.install(ctx, b, m)
}

// serves says whether any version of a module is active on a base.
func serves(b base.Snapshot, name string) bool {
	return slices.ContainsFunc(b.Modules, func(m arklet.Biz) bool {
		return m.Name == name && m.State == arklet.StateActivated
	})
}

// askSoon sends a question for the modules without waiting; the answer kicks the lane.
func (p *Provider) askSoon(ctx context.Context, b base.Snapshot) {
	if err := p.dialog.Ask(ctx, b.Identity, arklet.CommandQueryAllBiz); err != nil {
		p.opts.Logger.Debug("could not ask a base for its modules", "base", b.Identity, "err", err)
	}
}

// publish writes the status of the lane's Pods, in the order that loses no request.
func (p *Provider) publish(ctx context.Context, key laneKey, b base.Snapshot) error {
	views := slices.DeleteFunc(p.store.lane(key), func(v view) bool { return v.deleting })
	byKey := map[string]view{}
	pods := make([]handover.Pod, 0, len(views))
	for i, v := range views {
		byKey[string(v.uid)] = v
		target := p.target(v.entry, b, *v.pod.Status.DeepCopy())
		pods = append(pods, handover.Pod{Key: string(v.uid), Created: v.pod.CreationTimestamp.Time, Seen: uint64(i), IsReady: p.writer.isReady(v.entry, v.pod), Ready: isReady(&target)})
	}
	leave := func() {}
	steps := handover.Order(pods, func() (ok bool) {
		first := views[0].pod
		leave, ok = p.gaps.enter(first.Namespace+"/"+key.module, first.Spec.NodeName, func(gap map[string]int) bool {
			return p.informer.readyElsewhere(first.Namespace, key.module, first.Spec.NodeName, gap)
		})
		return ok
	})
	defer func() { leave() }()
	for _, s := range steps {
		v := byKey[s.Key]
		if s.PreferDeletion {
			if err := p.writer.preferDeletion(ctx, v.entry, v.pod); err != nil {
				return err
			}
			continue
		}
		if err := p.write(ctx, v.entry, v.pod, b, true); err != nil {
			return err
		}
	}
	return nil
}

// target is the status that a Pod should have.
func (p *Provider) target(e *entry, b base.Snapshot, before corev1.PodStatus) corev1.PodStatus {
	pod, modules := p.situations(e, b)
	return statusOf(pod, b, modules, p.opts.Failed, before, p.opts.Clock.Now())
}

// write brings one Pod's status up to date. Unless ready is set it writes nothing
// that changes whether the Pod is Ready: only its lane knows the order.
func (p *Provider) write(ctx context.Context, e *entry, pod *corev1.Pod, b base.Snapshot, ready bool) error {
	writing, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	nowReady := false
	gone, err := p.writer.status(writing, e, pod, func(before corev1.PodStatus) corev1.PodStatus {
		status := p.target(e, b, before)
		if !ready && isReady(&status) != isReady(&before) {
			status = before
		}
		nowReady = isReady(&status)
		return status
	})
	if err != nil {
		return err
	}
	p.store.change(func() {
		switch {
		case gone: // the informer will say so too
		case nowReady:
			e.notReadySince = time.Time{}
		case e.notReadySince.IsZero():
			e.notReadySince = p.opts.Clock.Now()
		}
	})
	return nil
}

// writeAccepted writes the status of a Pod whose install takes long: it is
// accepted, and waits. Turning Ready, or Not Ready since a newer Pod's version serves,
// is left to the lane.
func (p *Provider) writeAccepted(ctx context.Context, e *entry) {
	var pod *corev1.Pod
	p.store.read(func() {
		if !e.deleting {
			pod = e.pod
		}
	})
	b, known := p.registry.Get(e.identity)
	if pod == nil || !known {
		return
	}
	if err := p.write(ctx, e, pod, b, false); err != nil && ctx.Err() == nil {
		p.opts.Logger.Warn("could not write that a pod is accepted", "pod", nameOf(pod).String(), "err", err)
	}
}

// situations says of each container of a Pod how things are on the base.
func (p *Provider) situations(e *entry, b base.Snapshot) (*corev1.Pod, []situation) {
	var pod *corev1.Pod
	var modules []module
	failures := map[string]failure{}
	p.store.read(func() {
		pod, modules = e.pod, e.modules
		for name, f := range e.failures {
			failures[name] = f
		}
	})
	list := make([]situation, 0, len(modules))
	for _, m := range modules {
		s := situation{module: m, failure: failures[m.Name]}
		s.biz, s.there = b.Module(m.Name, m.Version)
		for _, other := range p.store.lane(laneKey{e.identity, m.Name}) {
			if other.deleting || other.uid == e.uid || other.module.invalid != nil || other.module.Version == m.Version {
				continue
			}
			newest, there := b.Module(m.Name, other.module.Version)
			serves := there && newest.State == arklet.StateActivated
			if mine := (view{entry: e, pod: pod}); serves && older(mine, other) < 0 {
				s.superseded = true
			}
		}
		list = append(list, s)
	}
	return pod, list
}
