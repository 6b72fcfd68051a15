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

// maxConcurrentWrites is the maximum number of publishers that run concurrently. The limit leaves capacity of the API
// server and of the connection for Lease renewals.
const maxConcurrentWrites = 32

// publish deletes the finished Pods of a module slot, and writes the status of the other Pods. It does not wait for
// the base. It returns the delay before the next call; 0 means that no call is needed before the next change.
func (p *Provider) publish(ctx context.Context, key slotKey) (time.Duration, error) {
	served := p.servedBase(key.identity)
	b, known := p.registry.Get(key.identity)
	if served == nil || !known {
		return 0, nil
	}
	ctx, done := served.withContext(ctx)
	defer done()
	snapshots := p.store.snapshots(key)
	finishing := p.deleteFinishedPods(ctx, snapshots)
	wait, err := p.publishStatuses(ctx, key, b, snapshots)
	return wait, ignoreCancelled(ctx, errors.Join(finishing, err))
}

func (p *Provider) deleteFinishedPods(ctx context.Context, snapshots []podSnapshot) error {
	var errs []error
	for _, v := range snapshots {
		if v.deleting && v.finished && ctx.Err() == nil {
			errs = append(errs, p.deleteFinishedPod(ctx, v.podRecord))
		}
	}
	return errors.Join(errs...)
}

// deleteFinishedPod deletes a Pod from the API. Before that, it writes a terminated status to a Pod with finalizers,
// because such a Pod remains.
func (p *Provider) deleteFinishedPod(ctx context.Context, e *podRecord) error {
	var pod *corev1.Pod
	p.store.withReadLock(func() { pod = e.pod })
	if len(pod.Finalizers) > 0 {
		if err := p.writer.writeCompleted(ctx, e, pod); err != nil {
			return err
		}
	}
	if err := p.writer.delete(ctx, pod); err != nil {
		return err
	}
	p.store.removePod(e)
	names := e.moduleNames()
	p.prober.Forget(e.uid, names...)
	for _, name := range names { // the version of an older Pod may have to become active again
		p.trigger(slotKey{e.identity, name})
	}
	return nil
}

// publishStatuses writes the status of the Pods of a module slot, in an order that loses no requests.
func (p *Provider) publishStatuses(ctx context.Context, key slotKey, b base.Snapshot,
	snapshots []podSnapshot) (time.Duration, error) {
	if b.Liveness == base.Reachable && anyStale(snapshots, b) {
		return p.requestStaleList(ctx, snapshots, b), nil
	}
	now := time.Now()
	var wait minDelay
	p.recordSwitches(key, b, &wait)
	byKey := map[string]podSnapshot{}
	var pods []handover.Pod
	for _, v := range snapshots {
		if v.deleting {
			continue
		}
		before := p.writer.status(v.podRecord, v.pod)
		p.updateProbes(ctx, v, key.module, b, before)
		target := p.desiredStatus(v.podRecord, b, before)
		if b.Modules == nil && b.Liveness == base.Reachable && podstatus.IsReady(&before) {
			continue // this controller has not received the module list yet
		}
		if left := v.firstSeen.Add(p.currentAcceptDelay()).Sub(now); left > 0 && isOnlyWaiting(&before, &target) {
			wait.add(left)
			continue
		}
		byKey[string(v.uid)] = v
		biz, _ := b.Module(key.module, v.module.Version)
		pods = append(pods, handover.Pod{
			Key: string(v.uid), IsReady: podstatus.IsReady(&before),
			ShouldBeReady: podstatus.IsReady(&target),
			Superseded:    podstatus.IsSuperseded(&target),
			Version:       v.module.Version, Active: biz.State == arklet.StateActivated, Outdated: v.outdated,
			ReadySince: v.readySince,
		})
	}
	pods, again := handover.Admit(pods, now)
	if again > 0 {
		wait.add(again)
	}
	asPlanned, err := p.writeInOrder(ctx, key, b, pods, byKey)
	if err != nil {
		return 0, err
	}
	if !asPlanned {
		p.publishers.Add(key)
		return 0, nil
	}
	p.startReplaceDrain(key)
	if slices.ContainsFunc(pods, func(pod handover.Pod) bool { return pod.IsReady && pod.Superseded }) {
		wait.add(handover.SupersedeDelay)
	}
	return wait.d, nil
}

// minDelay computes the minimum of several delays. The zero value has received no delays yet.
type minDelay struct{ d time.Duration }

func (s *minDelay) add(d time.Duration) {
	d = max(d, time.Millisecond)
	if s.d == 0 || d < s.d {
		s.d = d
	}
}

// staleListDelay is how long the publisher waits for the operator of a module slot to request a new module list
// before it requests the list itself.
const staleListDelay = time.Second

// requestStaleList requests the module list if the operator did not do so in time. It returns the delay before the
// next call of publish.
func (p *Provider) requestStaleList(ctx context.Context, snapshots []podSnapshot, b base.Snapshot) time.Duration {
	within := p.opts.TimeScale.Of(staleListDelay)
	if !slices.ContainsFunc(snapshots,
		func(v podSnapshot) bool { return v.isStale(b) && time.Since(v.firstSeen) < within }) {
		p.requestList(ctx, b)
	}
	return within
}

// recordSwitches records the times at which the base switched away from versions, and removes the records of versions
// that are active again.
func (p *Provider) recordSwitches(key slotKey, b base.Snapshot, wait *minDelay) {
	p.store.change(func() {
		l := p.store.slot(key)
		if l == nil {
			return
		}
		now := time.Now()
		for _, biz := range b.Versions(key.module) {
			if l.switchedAwayAt[biz.Version].IsZero() && biz.State == arklet.StateDeactivated &&
				biz.Latest.Reason == arklet.ReasonSwitched {
				l.switchedAwayAt[biz.Version] = now
			}
		}
		for version, since := range l.switchedAwayAt {
			left := since.Add(p.opts.TimeScale.Of(api.SwitchedReady)).Sub(now)
			biz, exists := b.Module(key.module, version)
			if biz.State == arklet.StateActivated || !exists && left <= 0 {
				delete(l.switchedAwayAt, version)
			} else if left > 0 {
				wait.add(left)
			}
		}
	})
}

// currentAcceptDelay returns how long an install may take before the Pod status shows that the Pod waits for it.
func (p *Provider) currentAcceptDelay() time.Duration {
	if p.publishers.IsBehind() {
		return p.opts.TimeScale.Of(busyAcceptDelay)
	}
	return p.opts.TimeScale.Of(acceptDelay)
}

// isOnlyWaiting reports whether a status only shows that a new Pod waits for its modules. Most Pods become Ready so
// soon that this status is not worth a write.
func isOnlyWaiting(oldStatus, target *corev1.PodStatus) bool {
	if len(oldStatus.ContainerStatuses) > 0 || podstatus.IsReady(target) || target.Phase != corev1.PodPending {
		return false
	}
	return !slices.ContainsFunc(target.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		w := c.State.Waiting
		return !podstatus.IsSidecar(c) &&
			(w == nil || w.Reason != api.ReasonContainerCreating && w.Reason != api.ReasonResolved)
	})
}

// writeInOrder writes the status of all Pods of a module slot in the order of handover.Order. It stops and returns
// false if the order is out of date because a Pod, a workload or the base has changed.
func (p *Provider) writeInOrder(ctx context.Context, key slotKey, b base.Snapshot, pods []handover.Pod,
	byKey map[string]podSnapshot) (asPlanned bool, err error) {
	if len(pods) == 0 {
		return true, nil
	}
	ready := map[string]bool{}
	for _, pod := range pods {
		ready[pod.Key] = pod.ShouldBeReady
	}
	first := byKey[pods[0].Key].pod
	current := handoverKey{first.Namespace, key.module, first.Spec.NodeName}
	started := false
	writes := handover.Order(pods, func() bool {
		started = p.readyOnOtherNode(current, true)
		return started
	})
	if started {
		defer p.handovers.end(current)
	}
	marked := false
	for _, write := range writes {
		v := byKey[write.Key]
		if write.PreferDeletion {
			if err := p.writer.preferDeletion(ctx, v.podRecord, v.pod, true); err != nil {
				return false, err
			}
			marked = true
			continue
		}
		if marked && p.readyOnOtherNode(handoverKey{v.pod.Namespace, key.module, v.pod.Spec.NodeName}, false) {
			return false, nil // another Node has a Ready Pod now, so old Pods must turn Not Ready first
		}
		marked = false
		if asPlanned, err := p.writeStatus(ctx, v.podRecord, v.pod, b, ready[write.Key]); !asPlanned || err != nil {
			return false, err
		}
		if ready[write.Key] { // after a rollback, the Pod must not be the first one to be deleted
			if err := p.writer.preferDeletion(ctx, v.podRecord, v.pod, false); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// isReadyNow reports whether a Pod is Ready according to the last write or the informer, whichever is newer.
func (p *Provider) isReadyNow(pod *corev1.Pod) bool {
	e, known := p.store.get(pod.UID)
	if !known || !e.lastWrite.mu.TryLock() { // another controller serves the Pod, or a write is in progress
		return podstatus.IsReady(&pod.Status)
	}
	defer e.lastWrite.mu.Unlock()
	return podstatus.IsReady(&p.writer.newestPod(e, pod).Status)
}

// desiredStatus computes the status of a Pod from its current status and the state of the base.
func (p *Provider) desiredStatus(e *podRecord, b base.Snapshot, oldStatus corev1.PodStatus) corev1.PodStatus {
	pod, modules := p.moduleStates(e, b)
	return podstatus.Of(pod, b, modules, p.opts.FailedPods, oldStatus, time.Now())
}

// writeStatus writes the status of a Pod, and returns true. If the readiness of the Pod is no longer as planned, it
// writes nothing and returns false.
func (p *Provider) writeStatus(ctx context.Context, e *podRecord, pod *corev1.Pod, b base.Snapshot,
	ready bool) (asPlanned bool, err error) {
	deleted, err := p.writer.write(ctx, e, pod, func(oldStatus corev1.PodStatus) corev1.PodStatus {
		if newest, known := p.registry.Get(b.Identity); known { // b may be old if the previous write was slow
			b = newest
		}
		status := p.desiredStatus(e, b, oldStatus)
		asPlanned = podstatus.IsReady(&status) == ready
		if !asPlanned {
			return oldStatus
		}
		return status
	})
	if err != nil || !asPlanned {
		return asPlanned, err
	}
	p.store.change(func() {
		e.wasReady = e.wasReady || ready
		switch {
		case deleted:
		case ready && e.deleting: // the deletion began during the write: requests may have been sent until now
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

// startReplaceDrain starts the drain of the versions that are being replaced, as soon as no Pod of the module slot is
// Ready.
func (p *Provider) startReplaceDrain(key slotKey) {
	drained := false
	p.store.change(func() {
		l := p.store.slot(key)
		if l == nil || l.memory.Replacing == nil || !l.memory.Replacing.NotReady.IsZero() {
			return
		}
		for _, e := range l.pods {
			if !e.deleting && e.wasReady && e.notReadySince.IsZero() {
				return
			}
		}
		r := *l.memory.Replacing // the planner shares the pointer
		r.NotReady = time.Now()
		l.memory.Replacing, drained = &r, true
	})
	if drained {
		p.operators.Add(key)
	}
}

// moduleStates returns a Pod and the states of its modules on the base.
func (p *Provider) moduleStates(e *podRecord, b base.Snapshot) (pod *corev1.Pod, list []podstatus.Module) {
	p.store.withReadLock(func() {
		pod = e.pod
		for _, m := range e.modules {
			s := podstatus.Module{Module: m.Module, Invalid: m.invalid, Origin: e.origins[m.Name]}
			s.Biz, s.Listed = b.Module(m.Name, m.Version)
			if l := p.store.slot(slotKey{e.identity, m.Name}); l != nil {
				p.addSlotState(&s, l, e, b)
			}
			list = append(list, s)
		}
	})
	return pod, list
}

// addSlotState adds data of the module slot to the state of a module. The caller holds the lock of the store.
func (p *Provider) addSlotState(s *podstatus.Module, l *moduleSlot, e *podRecord, b base.Snapshot) {
	for _, a := range []plan.Attempt{plan.InstallAttempt(s.Module), plan.UninstallAttempt(s.Module)} {
		if f, failed := l.memory.Failed[a]; failed && s.Failure == nil && s.Invalid == nil {
			s.Failure = p.statusError(a, f)
		}
	}
	installed, known := l.memory.Installed[s.Version]
	if installed.Unhealthy {
		s.NotReadyReason = "the liveness probe failed: the module is being uninstalled and installed again"
	} else if ready, why := p.prober.Ready(e.uid, s.Name); !ready {
		s.NotReadyReason = why
	}
	if !p.opts.KeepSameVersion {
		s.InstalledURL = installed.URL
	}
	for version, earlier := range l.memory.Installed {
		if biz, exists := b.Module(s.Name, version); exists && earlier.RequestedBy == e.uid && version != s.Version &&
			biz.State == arklet.StateActivated {
			s.PreviousVersion = version
		}
	}
	r := l.memory.Replacing
	s.Replacing = r != nil && !r.UninstallFirst && r.Replaces(s.Version)
	if r != nil && r.UninstallFirst {
		s.ReplacedBy = r.Module.Identity()
	}
	s.Uninstalling = l.uninstalling != "" && l.uninstalling == s.Version
	replacementExpected, newest := false, true
	snapshots := l.snapshots(s.Name)
	ownIndex := slices.IndexFunc(snapshots, func(v podSnapshot) bool { return v.uid == e.uid })
	for _, v := range snapshots[ownIndex+1:] { // the newer Pods
		other := v.module.Module
		if !v.wants() {
			continue
		}
		if !s.Listed {
			s.ReplacedBy = ""
			if v.module.uninstallFirst && other.Version != s.Version {
				s.ReplacedBy = other.Identity()
			}
		}
		if other == s.Module {
			continue
		}
		newest = false
		biz, exists := b.Module(s.Name, other.Version)
		sameVersion := other.Version == s.Version
		if exists && biz.State == arklet.StateActivated && (!sameVersion || known && installed.URL == other.URL) {
			s.Superseded = true
		}
		replacementExpected = replacementExpected ||
			!sameVersion && l.memory.Failed[plan.InstallAttempt(other)].Err == nil
	}
	// the version of this Pod becomes active again
	replacementExpected = replacementExpected || newest && s.Failure == nil
	since := l.switchedAwayAt[s.Version]
	s.SwitchedAway = replacementExpected && !since.IsZero() &&
		time.Since(since) < p.opts.TimeScale.Of(api.SwitchedReady) &&
		slices.ContainsFunc(b.Versions(s.Name), func(biz arklet.Biz) bool {
			_, installed := l.memory.Installed[biz.Version]
			return biz.State == arklet.StateActivated && installed
		})
}

// handoverKey identifies a handover: the period on a Node in which the old Pod of a module is already Not Ready, and
// the new Pod is not Ready yet.
type handoverKey struct{ namespace, module, node string }

// openHandovers counts the handovers in progress. During a handover, a Service sends no requests to the Node.
type openHandovers struct {
	mu     sync.Mutex
	counts map[handoverKey]int
}

func (h *openHandovers) end(key handoverKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[key]--
	if h.counts[key] == 0 {
		delete(h.counts, key)
	}
}

// readyOnOtherNode reports whether a module has a Ready Pod on another Node without a handover in progress. If it
// returns true and start is set, it also records that the handover key has started. The caller must then end this
// handover with openHandovers.end.
func (p *Provider) readyOnOtherNode(key handoverKey, start bool) bool {
	p.handovers.mu.Lock()
	defer p.handovers.mu.Unlock()
	ready := slices.ContainsFunc(p.informer.onOtherNodes(key.namespace, key.module, key.node),
		func(pod *corev1.Pod) bool {
			return p.handovers.counts[handoverKey{key.namespace, key.module, pod.Spec.NodeName}] == 0 &&
				p.isReadyNow(pod)
		})
	if ready && start {
		p.handovers.counts[key]++
	}
	return ready
}
