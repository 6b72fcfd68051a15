package vpod

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/handover"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
)

// publishAtOnce is the maximum number of concurrent writes of publishers. The API server and the connection must have room
// for the renewal of Leases.
const publishAtOnce = 32

// publish deletes the Pods of a lane of which nothing is left on the base, and writes the status of the others. It does not
// wait for the base.
func (p *Provider) publish(ctx context.Context, key workerKey) (time.Duration, error) {
	served := p.service(key.identity)
	b, known := p.registry.Get(key.identity)
	if served == nil || !known {
		return 0, nil
	}
	ctx, done := served.context(ctx)
	defer done()
	views := p.store.views(key)
	finishing := p.finishPods(ctx, views)
	wait, err := p.publishStatuses(ctx, key, b, views)
	return wait, whileServed(ctx, errors.Join(finishing, err))
}

func (p *Provider) finishPods(ctx context.Context, views []podSnapshot) error {
	var errs []error
	for _, v := range views {
		if v.deleting && v.finished && ctx.Err() == nil {
			errs = append(errs, p.finishPod(ctx, v.podRecord))
		}
	}
	return errors.Join(errs...)
}

// finishPod deletes a Pod from the API. A Pod with finalizers stays there, with the status of a Pod that has ended.
func (p *Provider) finishPod(ctx context.Context, e *podRecord) error {
	var pod *corev1.Pod
	p.store.read(func() { pod = e.pod })
	if len(pod.Finalizers) > 0 {
		if err := p.writer.ended(ctx, e, pod); err != nil {
			return err
		}
	}
	if err := p.writer.delete(ctx, pod); err != nil {
		return err
	}
	p.store.remove(e)
	names := e.names()
	p.prober.Forget(e.uid, names...)
	for _, name := range names { // the version of an older Pod may become active again
		p.trigger(workerKey{e.identity, name})
	}
	return nil
}

// publishStatuses writes the status of the Pods of a lane, in the order that loses no request.
func (p *Provider) publishStatuses(ctx context.Context, key workerKey, b base.Snapshot,
	views []podSnapshot) (time.Duration, error) {
	if b.Liveness == base.Reachable && unasked(views, b) {
		return p.untilListed(ctx, views, b), nil
	}
	now := time.Now()
	var wait soonest
	p.noteSwitches(key, b, &wait)
	byKey := map[string]podSnapshot{}
	var pods []handover.Pod
	for _, v := range views {
		if v.deleting {
			continue
		}
		before := p.writer.status(v.podRecord, v.pod)
		p.probe(ctx, v, key.module, b, before)
		target := p.desiredStatus(v.podRecord, b, before)
		if b.Modules == nil && b.Liveness == base.Reachable && podstatus.IsReady(&before) {
			continue // this controller has no list of the base yet
		}
		if left := v.came.Add(p.acceptWithin()).Sub(now); left > 0 && onlyAccepted(&before, &target) {
			wait.within(left)
			continue
		}
		byKey[string(v.uid)] = v
		biz, _ := b.Module(key.module, v.module.Version)
		pods = append(pods, handover.Pod{
			Key: string(v.uid), IsReady: podstatus.IsReady(&before), Ready: podstatus.IsReady(&target),
			Yields:  podstatus.Yields(&target),
			Version: v.module.Version, Active: biz.State == arklet.StateActivated, Outdated: v.outdated,
			ReadySince: v.readySince,
		})
	}
	pods, again := handover.Admit(pods, now)
	if again > 0 {
		wait.within(again)
	}
	asPlanned, err := p.writeInOrder(ctx, key, b, pods, byKey)
	if err != nil {
		return 0, err
	}
	if !asPlanned {
		p.publishers.Add(key)
		return 0, nil
	}
	p.noteDrain(key)
	if slices.ContainsFunc(pods, func(pod handover.Pod) bool { return pod.IsReady && pod.Yields }) {
		wait.within(handover.YieldAfter)
	}
	return wait.d, nil
}

// soonest is the shortest of several delays; 0 means none.
type soonest struct{ d time.Duration }

func (s *soonest) within(d time.Duration) {
	d = max(d, time.Millisecond)
	if s.d == 0 || d < s.d {
		s.d = d
	}
}

// listWithin is how long the publisher waits for the operator of the lane to request the list of the base.
const listWithin = time.Second

// untilListed requests the list of the base if the operator has not done so, and returns when to look again.
func (p *Provider) untilListed(ctx context.Context, views []podSnapshot, b base.Snapshot) time.Duration {
	within := p.opts.Speed.Of(listWithin)
	if !slices.ContainsFunc(views, func(v podSnapshot) bool { return v.unasked(b) && time.Since(v.came) < within }) {
		p.askForModules(ctx, b)
	}
	return within
}

// noteSwitches records from which versions the base has switched away, until they are active again.
func (p *Provider) noteSwitches(key workerKey, b base.Snapshot, wait *soonest) {
	p.store.change(func() {
		l := p.store.lane(key)
		if l == nil {
			return
		}
		now := time.Now()
		for _, biz := range b.Versions(key.module) {
			if l.switched[biz.Version].IsZero() && biz.State == arklet.StateDeactivated &&
				biz.Latest.Reason == arklet.ReasonSwitched {
				l.switched[biz.Version] = now
			}
		}
		for version, since := range l.switched {
			left := since.Add(p.opts.Speed.Of(api.SwitchedReady)).Sub(now)
			biz, there := b.Module(key.module, version)
			if biz.State == arklet.StateActivated || !there && left <= 0 {
				delete(l.switched, version)
			} else if left > 0 {
				wait.within(left)
			}
		}
	})
}

// acceptWithin returns how long an install may take before the status shows that the Pod waits for it.
func (p *Provider) acceptWithin() time.Duration {
	if p.publishers.Behind() {
		return p.opts.Speed.Of(acceptLater)
	}
	return p.opts.Speed.Of(acceptAfter)
}

// onlyAccepted reports whether a status only shows that a new Pod waits for its modules. Most Pods are Ready before that is
// worth a write.
func onlyAccepted(before, target *corev1.PodStatus) bool {
	if len(before.ContainerStatuses) > 0 || podstatus.IsReady(target) || target.Phase != corev1.PodPending {
		return false
	}
	return !slices.ContainsFunc(target.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		w := c.State.Waiting
		return !podstatus.IsSidecar(c) &&
			(w == nil || w.Reason != api.ReasonContainerCreating && w.Reason != api.ReasonResolved)
	})
}

// writeInOrder writes the status of all Pods of a lane. It stops and returns false if the planned order is out of date,
// because a Pod or a workload has changed.
func (p *Provider) writeInOrder(ctx context.Context, key workerKey, b base.Snapshot, pods []handover.Pod,
	byKey map[string]podSnapshot) (asPlanned bool, err error) {
	if len(pods) == 0 {
		return true, nil
	}
	ready := map[string]bool{}
	for _, pod := range pods {
		ready[pod.Key] = pod.Ready
	}
	first := byKey[pods[0].Key].pod
	here := gap{first.Namespace, key.module, first.Spec.NodeName}
	entered := false
	steps := handover.Order(pods, func() bool {
		entered = p.readyElsewhere(here, true)
		return entered
	})
	if entered {
		defer p.gaps.leave(here)
	}
	marked := false
	for _, s := range steps {
		v := byKey[s.Key]
		if s.PreferDeletion {
			if err := p.writer.preferDeletion(ctx, v.podRecord, v.pod, true); err != nil {
				return false, err
			}
			marked = true
			continue
		}
		if marked && p.readyElsewhere(gap{v.pod.Namespace, key.module, v.pod.Spec.NodeName}, false) {
			return false, nil // Pods turn Not Ready first again
		}
		marked = false
		if asPlanned, err := p.writeStatus(ctx, v.podRecord, v.pod, b, ready[s.Key]); !asPlanned || err != nil {
			return false, err
		}
		if ready[s.Key] { // after a rollback, the Pod no longer needs to be deleted first
			if err := p.writer.preferDeletion(ctx, v.podRecord, v.pod, false); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// isReadyNow reports whether a Pod is Ready in the API server, according to the last write or the informer.
func (p *Provider) isReadyNow(pod *corev1.Pod) bool {
	e, known := p.store.get(pod.UID)
	if !known || !e.written.mu.TryLock() { // it belongs to another controller, or is being written
		return podstatus.IsReady(&pod.Status)
	}
	defer e.written.mu.Unlock()
	return podstatus.IsReady(&p.writer.newest(e, pod).Status)
}

// desiredStatus returns the status that a Pod should have.
func (p *Provider) desiredStatus(e *podRecord, b base.Snapshot, before corev1.PodStatus) corev1.PodStatus {
	pod, modules := p.moduleStates(e, b)
	return podstatus.Of(pod, b, modules, p.opts.Failed, before, time.Now())
}

// writeStatus writes the status of a Pod, unless its readiness is not the planned one any more. b is the base at the time of
// the plan.
func (p *Provider) writeStatus(ctx context.Context, e *podRecord, pod *corev1.Pod, b base.Snapshot,
	ready bool) (asPlanned bool, err error) {
	gone, err := p.writer.write(ctx, e, pod, func(before corev1.PodStatus) corev1.PodStatus {
		if newest, known := p.registry.Get(b.Identity); known { // the write before may have taken long
			b = newest
		}
		status := p.desiredStatus(e, b, before)
		asPlanned = podstatus.IsReady(&status) == ready
		if !asPlanned {
			return before
		}
		return status
	})
	if err != nil || !asPlanned {
		return asPlanned, err
	}
	p.store.change(func() {
		e.served = e.served || ready
		switch {
		case gone:
		case ready && e.deleting: // the deletion began during the write, and requests may come until now
			e.notReadySince = time.Now()
		case ready:
			e.notReadySince = time.Time{}
			if e.readySince.IsZero() {
				e.readySince = time.Now()
			}
		case e.notReadySince.IsZero():
			e.notReadySince = time.Now()
		}
		if !ready {
			e.readySince = time.Time{}
		}
	})
	return true, nil
}

// noteDrain records when all Pods of a version whose jar is being replaced were written Not Ready: its drain begins.
func (p *Provider) noteDrain(key workerKey) {
	drained := false
	p.store.change(func() {
		l := p.store.lane(key)
		if l == nil || l.memory.Replacing == nil || !l.memory.Replacing.NotReady.IsZero() {
			return
		}
		for _, e := range l.pods {
			if !e.deleting && e.notReadySince.IsZero() {
				return
			}
		}
		l.memory.Replacing, drained = &plan.Replacing{Module: l.memory.Replacing.Module, NotReady: time.Now()}, true
	})
	if drained {
		p.operators.Add(key)
	}
}

// moduleStates returns the modules of a Pod on the base.
func (p *Provider) moduleStates(e *podRecord, b base.Snapshot) (pod *corev1.Pod, list []podstatus.Module) {
	p.store.read(func() {
		pod = e.pod
		for _, m := range e.modules {
			s := podstatus.Module{Module: m.Module, Invalid: m.invalid, Origin: e.origins[m.Name]}
			s.Biz, s.Listed = b.Module(m.Name, m.Version)
			if l := p.store.lane(workerKey{e.identity, m.Name}); l != nil {
				p.addLane(&s, l, e, b)
			}
			list = append(list, s)
		}
	})
	return pod, list
}

// addLane adds what is known of the lane of a module. The caller holds the lock of the store.
func (p *Provider) addLane(s *podstatus.Module, l *lane, e *podRecord, b base.Snapshot) {
	for _, a := range []plan.Attempt{plan.Install(s.Module), plan.Uninstall(s.Module)} {
		if f, failed := l.memory.Failed[a]; failed && s.Failure == nil && s.Invalid == nil {
			s.Failure = p.shownError(a, f)
		}
	}
	installed, known := l.memory.Installed[s.Version]
	if installed.Unhealthy {
		s.Unready = "its liveness probe failed: it is uninstalled and installed again"
	} else if ready, why := p.prober.Ready(e.uid, s.Name); !ready {
		s.Unready = why
	}
	if !p.opts.KeepSameVersion {
		s.InstalledURL = installed.URL
	}
	for version, earlier := range l.memory.Installed {
		if biz, there := b.Module(s.Name, version); there && earlier.RequestedBy == e.uid && version != s.Version &&
			biz.State == arklet.StateActivated {
			s.Previous = version
		}
	}
	s.Replacing = l.memory.Replacing != nil && l.memory.Replacing.Module.Version == s.Version
	s.Uninstalling = l.removing != "" && l.removing == s.Version
	coming, newest := false, true
	views := l.views(s.Name)
	mine := slices.IndexFunc(views, func(v podSnapshot) bool { return v.uid == e.uid })
	for _, v := range views[mine+1:] { // the newer Pods
		other := v.module.Module
		if !v.wants() || other == s.Module {
			continue
		}
		newest = false
		biz, there := b.Module(s.Name, other.Version)
		sameVersion := other.Version == s.Version
		if there && biz.State == arklet.StateActivated && (!sameVersion || known && installed.URL == other.URL) {
			s.Superseded = true
		}
		coming = coming || !sameVersion && l.memory.Failed[plan.Install(other)].Err == nil
	}
	coming = coming || newest && s.Failure == nil // its own version becomes active again
	since := l.switched[s.Version]
	s.Overtaken = coming && !since.IsZero() && time.Since(since) < p.opts.Speed.Of(api.SwitchedReady) &&
		slices.ContainsFunc(b.Versions(s.Name), func(biz arklet.Biz) bool {
			_, installed := l.memory.Installed[biz.Version]
			return biz.State == arklet.StateActivated && installed
		})
}

// gap is a module on a Node during a handover: its old Pod is already Not Ready, and its new Pod is not Ready yet.
type gap struct{ namespace, module, node string }

// gaps counts the open gaps. A Node with a gap does not process requests to the module.
type gaps struct {
	mu   sync.Mutex
	open map[gap]int
}

func (g *gaps) leave(of gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[of]--
	if g.open[of] == 0 {
		delete(g.open, of)
	}
}

// readyElsewhere reports whether a module has a Ready Pod on another Node that has no gap. If it has one and enter is set,
// a gap is opened on the Node of g.
func (p *Provider) readyElsewhere(g gap, enter bool) bool {
	p.gaps.mu.Lock()
	defer p.gaps.mu.Unlock()
	ready := slices.ContainsFunc(p.informer.elsewhere(g.namespace, g.module, g.node), func(pod *corev1.Pod) bool {
		return p.gaps.open[gap{g.namespace, g.module, pod.Spec.NodeName}] == 0 && p.isReadyNow(pod)
	})
	if ready && enter {
		p.gaps.open[g]++
	}
	return ready
}
