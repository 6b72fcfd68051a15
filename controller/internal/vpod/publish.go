package vpod

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/handover"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
)

// publishAtOnce is how many publishers work at the same time, so how many writes of Pods an API
// server is asked for at once. It is enough for thousands a second, and leaves room beside them, in a
// connection and in what the API server grants one client, for the Leases: a controller that can't
// renew its own serves nobody.
const publishAtOnce = 32

// publish is what a publisher does: it takes the Pods of a module on a base out of the API of which
// nothing is left there, and brings the status of the others to what the base says now. It asks the base
// nothing and waits for no command, so that what a list or an answer says is shown within the time of a
// write.
func (p *Provider) publish(ctx context.Context, key workerKey) (time.Duration, error) {
	ctx, done, served := p.servedContext(ctx, key.identity)
	defer done()
	b, known := p.registry.Get(key.identity)
	if !served || !known {
		return 0, nil
	}
	views := p.store.views(key)
	finishing := p.finishPods(ctx, views)
	wait, err := p.publishStatuses(ctx, key, b, views)
	return wait, whileServed(ctx, errors.Join(finishing, err))
}

// finishPods takes the Pods out of the API of which nothing is on their base any more. One that can't be
// keeps no other.
func (p *Provider) finishPods(ctx context.Context, views []view) error {
	var errs []error
	for _, v := range views {
		if v.deleting && v.finished && ctx.Err() == nil {
			errs = append(errs, p.finishPod(ctx, v.entry))
		}
	}
	return errors.Join(errs...)
}

// finishPod takes a Pod out of the API. One with finalizers stays there, as at its end.
func (p *Provider) finishPod(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
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
	for _, name := range names { // what an older Pod has may serve again
		p.trigger(workerKey{e.identity, name})
	}
	return nil
}

// publishStatuses writes the status of Pods where it is not what the base says, in the order that loses
// no request.
func (p *Provider) publishStatuses(ctx context.Context, key workerKey, b base.Snapshot, views []view) (time.Duration, error) {
	if b.Liveness == base.Alive && unasked(views, b) {
		return p.untilListed(ctx, views, b), nil
	}
	now := time.Now()
	var wait soonest
	if again := p.noteSwitches(key, b); again > 0 {
		wait.within(again)
	}
	byKey := map[string]view{}
	var pods []handover.Pod
	for _, v := range views {
		if v.deleting {
			continue
		}
		before := p.writer.status(v.entry, v.pod)
		p.probe(ctx, v, key.module, b, before)
		target := p.desiredStatus(v.entry, b, *before.DeepCopy())
		if b.Modules == nil && b.Liveness == base.Alive && isReady(&before) {
			continue // it has said nothing yet since this controller knows it
		}
		if left := v.came.Add(p.acceptWithin()).Sub(now); left > 0 && onlyAccepted(&before, &target) {
			wait.within(left)
			continue
		}
		byKey[string(v.uid)] = v
		pods = append(pods, handover.Pod{Key: string(v.uid), IsReady: isReady(&before), Ready: isReady(&target), Yields: gaveWay(&target)})
	}
	// Beside another version's Pod that stays Ready, none turns Ready that its workload does not want any
	// more, nor one whose version is yet to come again.
	pods = slices.DeleteFunc(pods, func(up handover.Pod) bool {
		if up.IsReady || !up.Ready {
			return false
		}
		v := byKey[up.Key]
		biz, _ := b.Module(key.module, v.module.Version)
		return slices.ContainsFunc(pods, func(stays handover.Pod) bool {
			beside := byKey[stays.Key]
			return stays.IsReady && stays.Ready && beside.module.Version != v.module.Version &&
				(v.outdated && !beside.outdated || biz.State != arklet.StateActivated)
		})
	})
	pods = slices.DeleteFunc(pods, func(down handover.Pod) bool {
		left := p.yieldsIn(down, pods, byKey, now)
		if left > 0 {
			wait.within(left)
		}
		return left > 0
	})
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
		wait.within(yieldAfter)
	}
	return wait.d, nil
}

// soonest is the shortest of several waits; zero means none.
type soonest struct{ d time.Duration }

func (s *soonest) within(d time.Duration) {
	d = max(d, time.Millisecond)
	if s.d == 0 || d < s.d {
		s.d = d
	}
}

// listWithin is how long the operator of a lane has to ask a base what it has. It may be busy for longer.
const listWithin = time.Second

// untilListed asks a base what it has if nobody else has done so, and returns when to look again.
func (p *Provider) untilListed(ctx context.Context, views []view, b base.Snapshot) time.Duration {
	within := p.opts.Speed.Of(listWithin)
	if !slices.ContainsFunc(views, func(v view) bool { return v.unasked(b) && time.Since(v.came) < within }) {
		p.askForModules(ctx, b)
	}
	return within
}

// yieldAfter is how long a Pod stays Ready beside the one that serves in its place. Its workload
// deletes it within that time, and its status is written but once. If a release comes at that moment,
// the workload deletes the newer one instead: the older one would be Not Ready, and kube-proxy, for
// which both are one address, takes that for the state of the base. It is the time that the workload's
// controller takes, whatever the speed is.
const yieldAfter = time.Second

// yieldsIn says how long a Pod stays Ready yet that only yields to another one.
func (p *Provider) yieldsIn(down handover.Pod, pods []handover.Pod, byKey map[string]view, now time.Time) time.Duration {
	if !down.IsReady || down.Ready || !down.Yields {
		return 0
	}
	var since time.Time // the last one turned Ready
	for _, up := range pods {
		if v := byKey[up.Key]; up.IsReady && up.Ready && v.readySince.After(since) {
			since = v.readySince
		}
	}
	return since.Add(yieldAfter).Sub(now)
}

// noteSwitches notes from which versions the base has switched away, until they are active again, and
// returns when it is time to look again.
func (p *Provider) noteSwitches(key workerKey, b base.Snapshot) (again time.Duration) {
	p.store.change(func() {
		l := p.store.lane(key)
		if l == nil {
			return
		}
		now := time.Now()
		for _, biz := range b.Versions(key.module) {
			if l.switched[biz.Version].IsZero() && biz.State == arklet.StateDeactivated && biz.Latest.Reason == plan.ReasonSwitched {
				l.switched[biz.Version] = now
			}
		}
		for version, since := range l.switched {
			left := since.Add(p.opts.Speed.Of(api.SwitchedReady)).Sub(now)
			biz, there := b.Module(key.module, version)
			if biz.State == arklet.StateActivated || !there && left <= 0 {
				delete(l.switched, version)
			} else if left > 0 && (again == 0 || left < again) {
				again = left
			}
		}
	})
	return again
}

// acceptWithin is how long an install may take before the Pod is written as accepted and waiting.
func (p *Provider) acceptWithin() time.Duration {
	if p.publishers.Behind() {
		return p.opts.Speed.Of(acceptLater)
	}
	return p.opts.Speed.Of(acceptAfter)
}

// onlyAccepted says whether a status tells no more than that a new Pod is waited for: most are Ready
// before that is worth a write.
func onlyAccepted(before, target *corev1.PodStatus) bool {
	if len(before.ContainerStatuses) > 0 || isReady(target) || target.Phase != corev1.PodPending {
		return false
	}
	return !slices.ContainsFunc(target.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		w := c.State.Waiting
		return !isSidecar(c) && (w == nil || w.Reason != api.ReasonContainerCreating && w.Reason != api.ReasonResolved)
	})
}

// writeInOrder writes the status of all Pods of a module on a base. It stops where a Pod is not to be as
// was planned, since a Pod or a workload has changed meanwhile: the order is another one then.
func (p *Provider) writeInOrder(ctx context.Context, key workerKey, b base.Snapshot, pods []handover.Pod, byKey map[string]view) (asPlanned bool, err error) {
	leave, ready := func() {}, map[string]bool{}
	for _, pod := range pods {
		ready[pod.Key] = pod.Ready
	}
	steps := handover.Order(pods, func() (ok bool) {
		first := byKey[pods[0].Key].pod
		leave, ok = p.gaps.enter(first.Namespace+"/"+key.module, first.Spec.NodeName, func(gap map[string]int) bool {
			return p.informer.readyElsewhere(first.Namespace, key.module, first.Spec.NodeName, gap, p.isReadyNow)
		})
		return ok
	})
	defer func() { leave() }()
	marked := false
	for _, s := range steps {
		v := byKey[s.Key]
		if s.PreferDeletion {
			if err := p.writer.preferDeletion(ctx, v.entry, v.pod, true); err != nil {
				return false, err
			}
			marked = true
			continue
		}
		if marked && p.gaps.elsewhere(p, v.pod.Namespace, key.module, v.pod.Spec.NodeName) {
			return false, nil // since this Pod was marked: what turns Not Ready comes first again
		}
		marked = false
		if asPlanned, err := p.writeStatus(ctx, v.entry, v.pod, b, ready[s.Key]); !asPlanned || err != nil {
			return false, err
		}
		if ready[s.Key] { // after a rollback, the Pod no longer needs to be deleted first
			if err := p.writer.preferDeletion(ctx, v.entry, v.pod, false); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// isReadyNow says whether the API server has a Pod as Ready, by what this controller wrote last if
// the informer has not shown that yet.
func (p *Provider) isReadyNow(pod *corev1.Pod) bool {
	e, known := p.store.get(pod.UID)
	if !known || !e.mu.TryLock() { // another controller's, or a write is under way
		return isReady(&pod.Status)
	}
	defer e.mu.Unlock()
	return isReady(&p.writer.newest(e, pod).Status)
}

// desiredStatus is the status that a Pod should have.
func (p *Provider) desiredStatus(e *entry, b base.Snapshot, before corev1.PodStatus) corev1.PodStatus {
	pod, modules := p.moduleStates(e, b)
	return statusOf(pod, b, modules, p.opts.Failed, before, time.Now())
}

// writeStatus brings one Pod's status up to date, if it is to be Ready, or not, as was planned: b is what
// the base said then.
func (p *Provider) writeStatus(ctx context.Context, e *entry, pod *corev1.Pod, b base.Snapshot, ready bool) (asPlanned bool, err error) {
	writing, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	gone, err := p.writer.write(writing, e, pod, func(before corev1.PodStatus) corev1.PodStatus {
		if said, known := p.registry.Get(b.Identity); known { // something else meanwhile, if the write before took long
			b = said
		}
		status := p.desiredStatus(e, b, before)
		if asPlanned = isReady(&status) == ready; !asPlanned {
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
		case gone: // the informer will say so too
		case ready && e.deleting: // that began meanwhile, and requests may come until now
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

// noteDrain notes when all Pods of a module that is to be replaced by another jar of its version
// have been written Not Ready: requests cease to come from then on.
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

// moduleStates says of each container of a Pod how things are on the base.
func (p *Provider) moduleStates(e *entry, b base.Snapshot) (pod *corev1.Pod, list []moduleState) {
	p.store.read(func() {
		pod = e.pod
		for _, m := range e.modules {
			s := moduleState{module: m, origin: e.origins[m.Name]}
			s.biz, s.there = b.Module(m.Name, m.Version)
			if l := p.store.lane(workerKey{e.identity, m.Name}); l != nil {
				p.addLane(&s, l, e, b)
			}
			list = append(list, s)
		}
	})
	return pod, list
}

// addLane adds what the lane of a module says to its state. The caller holds the store's lock.
func (p *Provider) addLane(s *moduleState, l *lane, e *entry, b base.Snapshot) {
	for _, a := range []plan.Attempt{plan.Install(s.Module), plan.Uninstall(s.Module)} {
		if f, failed := l.memory.Failed[a]; failed && s.failure == nil && s.invalid == nil {
			s.failure = p.shownError(a, f)
		}
	}
	installed, known := l.memory.Installed[s.Version]
	if installed.Unhealthy {
		s.unready = "its liveness probe failed: it is uninstalled and installed again"
	}
	if ready, why := p.prober.Ready(e.uid, s.Name); !ready && s.unready == "" {
		s.unready = why
	}
	if installed.URL != "" && !p.opts.KeepSameVersion {
		s.url = installed.URL
	}
	for version, earlier := range l.memory.Installed {
		if biz, there := b.Module(s.Name, version); there && earlier.RequestedBy == e.uid && version != s.Version && biz.State == arklet.StateActivated {
			s.earlier = version
		}
	}
	s.replacing = l.memory.Replacing != nil && l.memory.Replacing.Module.Version == s.Version
	s.removing = l.removing != "" && l.removing == s.Version
	coming, newest := false, true
	order := l.ordered(s.Name)
	for _, other := range order.wanted {
		if other.module == s.Module || other.newest <= order.place[e.uid] {
			continue
		}
		newest = false
		biz, there := b.Module(s.Name, other.module.Version)
		sameVersion := other.module.Version == s.Version
		if there && biz.State == arklet.StateActivated && (!sameVersion || known && installed.URL == other.module.URL) {
			s.superseded = true
		}
		coming = coming || !sameVersion && l.memory.Failed[plan.Install(other.module)].Err == nil
	}
	coming = coming || newest && s.failure == nil // its own version comes again
	since := l.switched[s.Version]
	s.overtaken = coming && !since.IsZero() && time.Since(since) < p.opts.Speed.Of(api.SwitchedReady) && slices.ContainsFunc(b.Versions(s.Name), func(biz arklet.Biz) bool {
		_, installed := l.memory.Installed[biz.Version]
		return biz.State == arklet.StateActivated && installed
	})
}

// gaps knows on which Nodes a module's old Pod is Not Ready already and its new one not Ready yet:
// such a Node does not count as one that serves.
type gaps struct {
	mu   sync.Mutex
	open map[string]map[string]int // by module of a namespace, then Node
}

// enter opens a gap on a Node unless no other Node serves; served is asked with the Nodes that are
// in a gap.
func (g *gaps) enter(module, node string, served func(gap map[string]int) bool) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !served(g.open[module]) {
		return func() {}, false
	}
	if g.open[module] == nil {
		g.open[module] = map[string]int{}
	}
	g.open[module][node]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.open[module][node]--; g.open[module][node] == 0 {
			delete(g.open[module], node)
			maps.DeleteFunc(g.open, func(_ string, nodes map[string]int) bool { return len(nodes) == 0 })
		}
	}, true
}

// elsewhere says whether another Node serves a module and is not in a gap.
func (g *gaps) elsewhere(p *Provider, namespace, module, node string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.informer.readyElsewhere(namespace, module, node, g.open[namespace+"/"+module], p.isReadyNow)
}
