package vpod

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// slotKey identifies a module slot.
type slotKey struct{ identity, module string }

func (k slotKey) attrs() []any { return []any{"base", k.identity, "biz", k.module} }

// podRecord contains the state of a Pod that this controller serves. store.mu guards its fields, except lastWrite,
// which has its own lock.
type podRecord struct {
	podState
	uid               types.UID
	identity          string // identity of the base
	modules           []module
	requestedVersions map[string][]string // most recently requested versions by module name
	stage             stage               // stage of the Pod at firstSeen
	sequence          uint64              // number of the Pod in the order in which Pods were added
	firstSeen         time.Time
	// removedModules contains the names of the modules that the base no longer has, if the Pod is being deleted.
	removedModules map[string]bool
	// origins maps each module name to the origin of the installed module: api.ReasonInstalled or
	// api.ReasonReplacedInPlace.
	origins map[string]string
	// endpointsDrained is the start of the first list of endpoints after notReadySince in which no Service sends
	// requests to the Pod. endpointsServing is the start of the last list in which a Service sends requests to the
	// Pod. The zero value means that there is no such list.
	endpointsDrained, endpointsServing time.Time
	wasReady                           bool // whether the Pod was Ready at least once, as far as this controller knows
	lastWrite                          lastWrite
}

// podState contains the fields of a podRecord that a podSnapshot copies.
type podState struct {
	pod *corev1.Pod
	// outdated is set if the current template of the Pod's workload requests another module than the Pod.
	outdated bool
	deleting bool
	// finished is set if the base no longer has any module of the Pod. The Pod must then be deleted from the API.
	finished bool
	// notReadySince is when the Pod status was written Not Ready, or when the deletion of the Pod began. readySince
	// is when the status was written Ready. The zero value means that this has not happened.
	notReadySince, readySince time.Time
}

// maxRequestedVersions is the maximum number of versions of a module that are kept for kubectl logs of a Pod.
const maxRequestedVersions = 50

// moduleSlot is the slot for one module name on a base. It contains the Pods that request a version of the module,
// and the installed versions.
type moduleSlot struct {
	pods   map[types.UID]*podRecord
	memory plan.Memory
	// currentInstall is the install in progress; nil if there is none.
	currentInstall *pendingInstall
	// uninstalling is the version that is being uninstalled because no Pod requests it; otherwise empty. The base may
	// still list this version.
	uninstalling string
	// switchedAwayAt is when the base switched away from a version. The entry is removed when the version is active
	// again.
	switchedAwayAt map[string]time.Time
	// waitingSince is when the slot started waiting for the replace permit; zero if it is not waiting.
	waitingSince time.Time
}

// podSnapshot is a copy of the changeable fields of a podRecord, for one of the modules of the Pod.
type podSnapshot struct {
	*podRecord
	podState
	module   module
	sortTime time.Time // sort key of the Pod; see compareAge
}

// wants reports whether the Pod requires that its module is installed on the base.
func (v podSnapshot) wants() bool { return !v.deleting && v.module.installable() }

// isStale reports whether the module list of the base is older than a new Pod but already contains the Pod's module.
// The base may have restarted after it sent this list. Pods that were already Ready or replaced when they were added
// are ignored.
func (v podSnapshot) isStale(b base.Snapshot) bool {
	_, listed := b.Module(v.module.Name, v.module.Version)
	return listed && v.wants() && v.stage == stageNew && b.ListReceivedAt.Before(v.firstSeen)
}

// anyStale reports whether isStale holds for any of the Pods.
func anyStale(snapshots []podSnapshot, b base.Snapshot) bool {
	return slices.ContainsFunc(snapshots, func(v podSnapshot) bool { return v.isStale(b) })
}

// stage is the progress of a Pod. The furthest stage comes first.
type stage int

const (
	stageReplaced stage = iota // another Pod serves in its place or will soon, or the Pod is being deleted
	stageReady
	stageNew
)

func stageOf(pod *corev1.Pod) stage {
	c := podstatus.Condition(&pod.Status, corev1.PodReady)
	switch {
	case pod.DeletionTimestamp != nil, pod.Annotations[corev1.PodDeletionCost] == deleteFirstCost,
		c != nil && c.Reason == api.ReasonDeactivated:
		return stageReplaced
	case podstatus.IsReady(&pod.Status):
		return stageReady
	default:
		return stageNew
	}
}

// store contains the Pods of all served bases, by UID and by module slot.
type store struct {
	// reports whether the template of a Pod's workload now requests another module than the Pod
	isOutdated func(*corev1.Pod) bool

	mu             sync.RWMutex
	lastSequence   uint64
	byUID          map[types.UID]*podRecord
	byBase         map[string]map[string]*moduleSlot // module slots by base identity and module name
	replacePermits map[string]slotKey                // holders of replace permits; see acquireReplacePermit
}

func newStore(isOutdated func(*corev1.Pod) bool) *store {
	return &store{isOutdated: isOutdated, byUID: map[types.UID]*podRecord{},
		byBase:         map[string]map[string]*moduleSlot{},
		replacePermits: map[string]slotKey{}}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// slot returns the slot of a module on a base; nil if it does not exist. The caller holds the lock.
func (s *store) slot(key slotKey) *moduleSlot { return s.byBase[key.identity][key.module] }

// ensureSlot returns the slot of a module on a base. It creates the slot if necessary. The caller holds the lock.
func (s *store) ensureSlot(key slotKey) *moduleSlot {
	l := s.slot(key)
	if l == nil {
		l = &moduleSlot{pods: map[types.UID]*podRecord{}, memory: plan.NewMemory(),
			switchedAwayAt: map[string]time.Time{}}
		if s.byBase[key.identity] == nil {
			s.byBase[key.identity] = map[string]*moduleSlot{}
		}
		s.byBase[key.identity][key.module] = l
	}
	return l
}

// dropEmpty removes a module slot that has neither Pods nor installed versions. The caller holds the lock.
func (s *store) dropEmpty(key slotKey) {
	if l := s.slot(key); l == nil || len(l.pods) > 0 || len(l.memory.Installed) > 0 {
		return
	}
	s.releaseReplacePermit(key)
	delete(s.byBase[key.identity], key.module)
	if len(s.byBase[key.identity]) == 0 {
		delete(s.byBase, key.identity)
	}
}

// putPod adds or updates a Pod. It returns the names of the modules that are new or have changed.
func (s *store) putPod(pod *corev1.Pod, identity string, modules []module) (e *podRecord, changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.byUID[pod.UID]
	if !known {
		s.lastSequence++
		e = &podRecord{
			uid: pod.UID, identity: identity, stage: stageOf(pod), sequence: s.lastSequence, firstSeen: time.Now(),
			podState:          podState{notReadySince: notReadySince(pod)},
			requestedVersions: map[string][]string{}, removedModules: map[string]bool{}, origins: map[string]string{},
			wasReady: pod.Status.Phase != corev1.PodPending, lastWrite: lastWrite{resourceVersion: pod.ResourceVersion},
		}
		s.byUID[pod.UID] = e
	}
	before := e.modules
	again := known && e.pod.Annotations[labels.Retry] != pod.Annotations[labels.Retry]
	e.pod, e.modules, e.outdated = pod, modules, s.isOutdated(pod)
	s.leaveSlots(e, before)
	for _, m := range modules {
		i := slices.IndexFunc(before, func(old module) bool { return old.Name == m.Name })
		if i >= 0 && before[i].Module == m.Module && before[i].pending == m.pending &&
			(before[i].invalid == nil) == (m.invalid == nil) && !again {
			continue
		}
		changed = append(changed, m.Name)
		if versions := e.requestedVersions[m.Name]; m.Version != "" && !slices.Contains(versions, m.Version) {
			e.requestedVersions[m.Name] = append(versions[max(0, len(versions)-maxRequestedVersions+1):], m.Version)
		}
		l := s.ensureSlot(slotKey{e.identity, m.Name})
		l.pods[e.uid] = e
		delete(e.origins, m.Name)
		if i >= 0 && before[i].Version != m.Version {
			l.memory.Update(before[i].Version, func(installed *plan.InstalledVersion) { installed.RequestedBy = e.uid })
		}
		delete(l.memory.Failed, plan.InstallAttempt(m.Module)) // try again after a change
		delete(l.memory.Failed, plan.UninstallAttempt(m.Module))
		if !known {
			l.restoreInstalled(pod, m.Name)
		}
	}
	return e, changed
}

// leaveSlots removes a Pod from the slots of containers that are no longer modules. The image of such a container was
// a URL before, and the container never had a version. The caller holds the lock.
func (s *store) leaveSlots(e *podRecord, oldModules []module) {
	names := e.moduleNames()
	for _, m := range oldModules {
		if !slices.Contains(names, m.Name) {
			s.leaveSlot(e, m.Name)
		}
	}
}

func (s *store) leaveSlot(e *podRecord, name string) {
	key := slotKey{e.identity, name}
	if l := s.slot(key); l != nil {
		delete(l.pods, e.uid)
		s.dropEmpty(key)
	}
}

// restoreInstalled reads the installed version and the jar of each module from a Pod status that an earlier
// controller wrote.
func (l *moduleSlot) restoreInstalled(pod *corev1.Pod, name string) {
	for _, c := range pod.Status.ContainerStatuses {
		version, url := podstatus.Installed(c)
		if c.Name != name || version == "" {
			continue
		}
		if _, known := l.memory.Installed[version]; !known {
			l.memory.Installed[version] = plan.InstalledVersion{URL: url}
		} else if url != "" && c.Ready {
			l.memory.Update(version, func(installed *plan.InstalledVersion) { installed.URL = url })
		}
	}
}

// notReadySince returns when a Pod became Not Ready according to its status on the API server; zero if it did not
// become Not Ready.
func notReadySince(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	}
	if c := podstatus.Condition(&pod.Status, corev1.PodReady); c != nil && c.Status != corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// markDeleting marks a Pod as being deleted, and returns the names of its modules. ok is false if the store does not
// contain the Pod.
func (s *store) markDeleting(uid types.UID) (e *podRecord, names []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok = s.byUID[uid]
	if !ok {
		return nil, nil, false
	}
	if !e.deleting {
		e.deleting = true
		e.finished = !slices.ContainsFunc(e.modules, module.installable) // no module was installed for it
		if e.notReadySince.IsZero() {
			e.notReadySince = time.Now()
		}
	}
	return e, e.moduleNames(), true
}

// moduleNames returns the sorted module names of a Pod without duplicates. The caller holds the lock of the store.
func (e *podRecord) moduleNames() []string {
	var names []string
	for _, m := range e.modules {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *store) removePod(e *podRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, e.uid)
	for _, name := range e.moduleNames() {
		s.leaveSlot(e, name)
	}
}

// removeBase removes a base from the store, and returns the Pods of the base.
func (s *store) removeBase(identity string) (pods []*podRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.byBase[identity] {
		s.releaseReplacePermit(slotKey{identity, name})
		for _, e := range l.pods {
			if s.byUID[e.uid] == e { // not yet removed with another slot
				delete(s.byUID, e.uid)
				pods = append(pods, e)
			}
		}
	}
	delete(s.byBase, identity)
	return pods
}

func (s *store) get(uid types.UID) (*podRecord, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.byUID[uid]
	return e, ok
}

// podsUsing returns the Pods that read a module version from a ConfigMap.
func (s *store) podsUsing(name types.NamespacedName) (pods []*corev1.Pod) {
	s.withReadLock(func() {
		for _, e := range s.byUID {
			if slices.ContainsFunc(e.pod.Spec.Containers, func(c corev1.Container) bool {
				return slices.ContainsFunc(workload.VersionSources(e.pod.Namespace, c),
					func(source workload.Source) bool { return source.ConfigMap == name })
			}) {
				pods = append(pods, e.pod)
			}
		}
	})
	return pods
}

// updateOutdated recomputes for the Pods of a workload whether they are outdated. It returns the slots of the Pods
// for which this has changed.
func (s *store) updateOutdated(workload string) (slots []slotKey) {
	s.change(func() {
		for _, e := range s.byUID {
			if workloadOf(e.pod) != workload || e.outdated == s.isOutdated(e.pod) {
				continue
			}
			e.outdated = !e.outdated
			for _, name := range e.moduleNames() {
				slots = append(slots, slotKey{e.identity, name})
			}
		}
	})
	return slots
}

// hasSlot reports whether a module slot exists.
func (s *store) hasSlot(key slotKey) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.slot(key) != nil
}

// snapshots returns snapshots of all Pods of a module slot, sorted from oldest to newest.
func (s *store) snapshots(key slotKey) (snapshots []podSnapshot) {
	s.withReadLock(func() {
		if l := s.slot(key); l != nil {
			snapshots = l.snapshots(key.module)
		}
	})
	return snapshots
}

// snapshots returns snapshots of all Pods of the slot, sorted from oldest to newest. The caller holds the lock of the
// store.
func (l *moduleSlot) snapshots(name string) []podSnapshot {
	outdated := map[string]time.Time{} // the creation time of the last outdated Pod by workload
	for _, e := range l.pods {
		if created := e.pod.CreationTimestamp.Time; e.outdated && created.After(outdated[workloadOf(e.pod)]) {
			outdated[workloadOf(e.pod)] = created
		}
	}
	snapshots := make([]podSnapshot, 0, len(l.pods))
	for _, e := range l.pods {
		i := slices.IndexFunc(e.modules, func(m module) bool { return m.Name == name })
		v := podSnapshot{podRecord: e, podState: e.podState, module: e.modules[i],
			sortTime: e.pod.CreationTimestamp.Time}
		if last := outdated[workloadOf(e.pod)]; !e.outdated && last.After(v.sortTime) {
			v.sortTime = last
		}
		snapshots = append(snapshots, v)
	}
	slices.SortFunc(snapshots, compareAge)
	return snapshots
}

// compareAge compares Pods by creation time. The oldest Pod sorts first. A Pod that is up to date sorts after the
// outdated Pods of the same workload. Pods that were created in the same second are compared by their stage, then by
// the order in which they were added. The stage comes first because a controller that starts during a rollout receives
// the Pods in any order.
func compareAge(a, b podSnapshot) int {
	current := func(v podSnapshot) int {
		if v.outdated {
			return 0
		}
		return 1
	}
	return cmp.Or(a.sortTime.Compare(b.sortTime), cmp.Compare(current(a), current(b)),
		cmp.Compare(a.stage, b.stage), cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.uid, b.uid))
}

// moduleNames returns the sorted names of the module slots of a base.
func (s *store) moduleNames(identity string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.byBase[identity]))
}

// forgetFailures removes the recorded failures on a base for which match returns true, and reports whether it removed
// any.
func (s *store) forgetFailures(identity string, match func(plan.Failure) bool) (removed bool) {
	s.change(func() {
		for _, l := range s.byBase[identity] {
			before := len(l.memory.Failed)
			maps.DeleteFunc(l.memory.Failed, func(_ plan.Attempt, f plan.Failure) bool { return match(f) })
			removed = removed || len(l.memory.Failed) < before
		}
	})
	return removed
}

// recordInstall records an install before the command is sent. If the base does not answer, it may still install the
// version until the time inDoubt. recordInstall returns the previous record of the version, and false if the slot no
// longer exists.
func (s *store) recordInstall(key slotKey, m arklet.Module,
	inDoubt time.Time) (oldVersion plan.InstalledVersion, ok bool) {
	s.change(func() {
		l := s.slot(key)
		ok = l != nil
		if !ok {
			return
		}
		oldVersion = l.memory.Installed[m.Version]
		l.memory.Installed[m.Version] = plan.InstalledVersion{URL: m.URL, InDoubtUntil: inDoubt}
		origin := api.ReasonInstalled
		if r := l.memory.Replacing; r != nil && r.Module == m {
			origin = api.ReasonReplacedInPlace
		}
		for _, v := range l.snapshots(key.module) {
			if v.wants() && v.module.Module == m {
				v.origins[key.module] = origin
			}
		}
	})
	return oldVersion, ok
}

// revertInstall restores the previous record of a version after the base refused the install. The previous record is
// needed because an earlier install of another jar of the version may still succeed.
func (s *store) revertInstall(key slotKey, m arklet.Module, oldVersion plan.InstalledVersion) {
	s.change(func() {
		if l := s.slot(key); l != nil && l.memory.Installed[m.Version].URL == m.URL {
			l.memory.Update(m.Version, func(installed *plan.InstalledVersion) { *installed = oldVersion })
		}
	})
}

// confirmInstall records that a module list has shown the result of an install.
func (s *store) confirmInstall(key slotKey, m arklet.Module) {
	s.change(func() {
		if l := s.slot(key); l != nil {
			l.memory.Update(m.Version, func(installed *plan.InstalledVersion) { installed.InDoubtUntil = time.Time{} })
		}
	})
}

// withReadLock calls f with the read lock held.
func (s *store) withReadLock(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f()
}

// change calls f with the write lock held.
func (s *store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// count returns the number of Pods in the store.
func (s *store) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byUID)
}
