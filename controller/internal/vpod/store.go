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

// workerKey identifies a lane: a module name on a base.
type workerKey struct{ identity, module string }

func (k workerKey) attrs() []any { return []any{"base", k.identity, "biz", k.module} }

// podRecord is a Pod that this controller serves. The lock of the store guards it, except for written.
type podRecord struct {
	podState
	uid      types.UID
	identity string // of the base
	modules  []module
	asked    map[string][]string // the versions that it has requested last, by module
	stage    stage               // when it came
	seen     uint64              // order in which the Pods came
	came     time.Time
	// left has the names of the modules of which nothing is left on the base, if the Pod is being deleted.
	left map[string]bool
	// origins are the reasons api.ReasonInstalled and api.ReasonReplacedInPlace, by module.
	origins map[string]string
	// quiet is when the first list of endpoints began, since notReadySince, that shows that no Service sends requests to
	// the Pod. sent is when the last list began that shows the opposite.
	quiet, sent time.Time
	served      bool // the Pod was Ready once, as far as is known
	written     written
}

// podState is the part of a podRecord that a podSnapshot copies.
type podState struct {
	pod *corev1.Pod
	// outdated is set if the workload of the Pod requests another module now.
	outdated bool
	deleting bool
	// finished is set if nothing of the Pod is left on the base: the Pod must be deleted from the API.
	finished bool
	// notReadySince is when the Pod was written Not Ready, or its deletion began. readySince is when it was written Ready.
	notReadySince, readySince time.Time
}

// maxAsked is the maximum number of versions of a module that are kept for the log of a Pod.
const maxAsked = 50

// lane is a module name on a base.
type lane struct {
	pods   map[types.UID]*podRecord
	memory plan.Memory
	// installing is the install in progress; nil if there is none.
	installing *installing
	// removing is the unwanted version that is being uninstalled. The base may still list it.
	removing string
	// switched is when the base has switched away from a version, until the version is active again.
	switched map[string]time.Time
	// claimed is since when the lane waits for its turn to replace a jar; see store.enterTurn.
	claimed time.Time
}

// podSnapshot is a copy of a podRecord at one moment, for one of its modules.
type podSnapshot struct {
	*podRecord
	podState
	module module
	since  time.Time // see older
}

// wants reports whether the Pod requires its module on the base.
func (v podSnapshot) wants() bool { return !v.deleting && v.module.installable() }

// unasked reports whether the base has not listed its modules since a Pod came whose module it had before: the base may
// have restarted in the meantime. It ignores Pods that were Ready when they came.
func (v podSnapshot) unasked(b base.Snapshot) bool {
	_, listed := b.Module(v.module.Name, v.module.Version)
	return listed && v.wants() && v.stage == stageNew && b.ListReceivedAt.Before(v.came)
}

func unasked(views []podSnapshot, b base.Snapshot) bool {
	return slices.ContainsFunc(views, func(v podSnapshot) bool { return v.unasked(b) })
}

// stage is the progress of a Pod, the furthest first.
type stage int

const (
	stageReplaced stage = iota // another Pod serves in its place, or is about to
	stageReady
	stageNew
)

func stageOf(pod *corev1.Pod) stage {
	c := podstatus.Condition(&pod.Status, corev1.PodReady)
	switch {
	case pod.DeletionTimestamp != nil, pod.Annotations[corev1.PodDeletionCost] == preferred,
		c != nil && c.Reason == api.ReasonDeactivated:
		return stageReplaced
	case podstatus.IsReady(&pod.Status):
		return stageReady
	default:
		return stageNew
	}
}

// store holds the Pods of all bases.
type store struct {
	isOutdated func(*corev1.Pod) bool // reports whether the workload of a Pod requests another module

	mu     sync.RWMutex
	next   uint64
	byUID  map[types.UID]*podRecord
	byBase map[string]map[string]*lane // by identity and module name
	turns  map[string]workerKey        // see enterTurn
}

func newStore(isOutdated func(*corev1.Pod) bool) *store {
	return &store{isOutdated: isOutdated, byUID: map[types.UID]*podRecord{}, byBase: map[string]map[string]*lane{},
		turns: map[string]workerKey{}}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// lane returns a lane; nil if it does not exist. The caller holds the lock.
func (s *store) lane(key workerKey) *lane { return s.byBase[key.identity][key.module] }

// needLane returns a lane, and creates it if it does not exist. The caller holds the lock.
func (s *store) needLane(key workerKey) *lane {
	l := s.lane(key)
	if l == nil {
		l = &lane{pods: map[types.UID]*podRecord{}, memory: plan.NewMemory(), switched: map[string]time.Time{}}
		if s.byBase[key.identity] == nil {
			s.byBase[key.identity] = map[string]*lane{}
		}
		s.byBase[key.identity][key.module] = l
	}
	return l
}

// dropEmpty removes a lane that has neither Pods nor installed versions. The caller holds the lock.
func (s *store) dropEmpty(key workerKey) {
	if l := s.lane(key); l == nil || len(l.pods) > 0 || len(l.memory.Installed) > 0 {
		return
	}
	s.leaveTurn(key)
	delete(s.byBase[key.identity], key.module)
	if len(s.byBase[key.identity]) == 0 {
		delete(s.byBase, key.identity)
	}
}

// put adds or updates a Pod. changed are the names of the modules that have changed.
func (s *store) put(pod *corev1.Pod, identity string, modules []module) (e *podRecord, changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.byUID[pod.UID]
	if !known {
		s.next++
		e = &podRecord{
			uid: pod.UID, identity: identity, stage: stageOf(pod), seen: s.next, came: time.Now(),
			podState: podState{notReadySince: notReadySince(pod)},
			asked:    map[string][]string{}, left: map[string]bool{}, origins: map[string]string{},
			served: pod.Status.Phase != corev1.PodPending, written: written{rv: pod.ResourceVersion},
		}
		s.byUID[pod.UID] = e
	}
	before := e.modules
	again := known && e.pod.Annotations[labels.Retry] != pod.Annotations[labels.Retry]
	e.pod, e.modules, e.outdated = pod, modules, s.isOutdated(pod)
	s.leaveLanes(e, before)
	for _, m := range modules {
		i := slices.IndexFunc(before, func(was module) bool { return was.Name == m.Name })
		if i >= 0 && before[i].Module == m.Module && before[i].pending == m.pending &&
			(before[i].invalid == nil) == (m.invalid == nil) && !again {
			continue
		}
		changed = append(changed, m.Name)
		if asked := e.asked[m.Name]; m.Version != "" && !slices.Contains(asked, m.Version) {
			e.asked[m.Name] = append(asked[max(0, len(asked)-maxAsked+1):], m.Version)
		}
		l := s.needLane(workerKey{e.identity, m.Name})
		l.pods[e.uid] = e
		delete(e.origins, m.Name)
		if i >= 0 && before[i].Version != m.Version {
			l.memory.Update(before[i].Version, func(installed *plan.Installed) { installed.RequestedBy = e.uid })
		}
		delete(l.memory.Failed, plan.Install(m.Module)) // try again after a change
		delete(l.memory.Failed, plan.Uninstall(m.Module))
		if !known {
			l.remember(pod, m.Name)
		}
	}
	return e, changed
}

// leaveLanes removes a Pod from the lanes of containers that are not modules any more: their image was a URL, and they
// never had a version. The caller holds the lock.
func (s *store) leaveLanes(e *podRecord, before []module) {
	names := e.names()
	for _, m := range before {
		if !slices.Contains(names, m.Name) {
			s.leaveLane(e, m.Name)
		}
	}
}

func (s *store) leaveLane(e *podRecord, name string) {
	key := workerKey{e.identity, name}
	if l := s.lane(key); l != nil {
		delete(l.pods, e.uid)
		s.dropEmpty(key)
	}
}

// remember reads the installed version and jar of a module from the status of a Pod, which an earlier controller may have
// written.
func (l *lane) remember(pod *corev1.Pod, name string) {
	for _, c := range pod.Status.ContainerStatuses {
		version, url := podstatus.Installed(c)
		if c.Name != name || version == "" {
			continue
		}
		if _, known := l.memory.Installed[version]; !known {
			l.memory.Installed[version] = plan.Installed{URL: url}
		} else if url != "" && c.Ready {
			l.memory.Update(version, func(installed *plan.Installed) { installed.URL = url })
		}
	}
}

// notReadySince returns when a Pod turned Not Ready according to the API server; zero if it did not.
func notReadySince(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	}
	if c := podstatus.Condition(&pod.Status, corev1.PodReady); c != nil && c.Status != corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// markDeleting marks a Pod as being deleted, and returns the names of its modules.
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
	return e, e.names(), true
}

// names returns the names of the modules of a Pod without duplicates. The caller holds the lock of the store.
func (e *podRecord) names() []string {
	var names []string
	for _, m := range e.modules {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *store) remove(e *podRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, e.uid)
	for _, name := range e.names() {
		s.leaveLane(e, name)
	}
}

// removeBase removes a base, and returns its Pods.
func (s *store) removeBase(identity string) (pods []*podRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.byBase[identity] {
		s.leaveTurn(workerKey{identity, name})
		for _, e := range l.pods {
			if s.byUID[e.uid] == e { // not seen in another lane
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

// refersTo returns the Pods whose module versions are in a ConfigMap.
func (s *store) refersTo(name types.NamespacedName) (pods []*corev1.Pod) {
	s.read(func() {
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

// changed determines again which Pods of a workload are outdated, and returns the lanes in which this has changed.
func (s *store) changed(workload string) (lanes []workerKey) {
	s.change(func() {
		for _, e := range s.byUID {
			if workloadOf(e.pod) != workload || e.outdated == s.isOutdated(e.pod) {
				continue
			}
			e.outdated = !e.outdated
			for _, name := range e.names() {
				lanes = append(lanes, workerKey{e.identity, name})
			}
		}
	})
	return lanes
}

// has reports whether a lane exists.
func (s *store) has(key workerKey) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lane(key) != nil
}

// views returns snapshots of all Pods of a lane, oldest first.
func (s *store) views(key workerKey) (views []podSnapshot) {
	s.read(func() {
		if l := s.lane(key); l != nil {
			views = l.views(key.module)
		}
	})
	return views
}

// views returns snapshots of all Pods of the lane, oldest first. The caller holds the lock of the store.
func (l *lane) views(name string) []podSnapshot {
	outdated := map[string]time.Time{} // when the last outdated Pod was created, by workload
	for _, e := range l.pods {
		if created := e.pod.CreationTimestamp.Time; e.outdated && created.After(outdated[workloadOf(e.pod)]) {
			outdated[workloadOf(e.pod)] = created
		}
	}
	views := make([]podSnapshot, 0, len(l.pods))
	for _, e := range l.pods {
		i := slices.IndexFunc(e.modules, func(m module) bool { return m.Name == name })
		v := podSnapshot{podRecord: e, podState: e.podState, module: e.modules[i], since: e.pod.CreationTimestamp.Time}
		if last := outdated[workloadOf(e.pod)]; !e.outdated && last.After(v.since) {
			v.since = last
		}
		views = append(views, v)
	}
	slices.SortFunc(views, older)
	return views
}

// older compares Pods by creation. A Pod that its workload requests follows the outdated Pods of the workload. Pods of the
// same second are compared by their progress and by the order in which they came: a controller that starts during a rollout
// gets them in any order.
func older(a, b podSnapshot) int {
	current := func(v podSnapshot) int {
		if v.outdated {
			return 0
		}
		return 1
	}
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(current(a), current(b)),
		cmp.Compare(a.stage, b.stage), cmp.Compare(a.seen, b.seen), cmp.Compare(a.uid, b.uid))
}

// names returns the module names of a base for which a lane exists.
func (s *store) names(identity string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.byBase[identity]))
}

// forgetFailures removes the failures on a base for which match returns true, and reports whether there are any.
func (s *store) forgetFailures(identity string, match func(plan.Failure) bool) (forgot bool) {
	s.change(func() {
		for _, l := range s.byBase[identity] {
			before := len(l.memory.Failed)
			maps.DeleteFunc(l.memory.Failed, func(_ plan.Attempt, f plan.Failure) bool { return match(f) })
			forgot = forgot || len(l.memory.Failed) < before
		}
	})
	return forgot
}

// placing records an install before it is sent. Without an answer, the base may carry it out until inDoubt. placing
// returns what was known of the version before, and false if the lane does not exist any more.
func (s *store) placing(key workerKey, m arklet.Module, inDoubt time.Time) (before plan.Installed, ok bool) {
	s.change(func() {
		l := s.lane(key)
		ok = l != nil
		if !ok {
			return
		}
		before = l.memory.Installed[m.Version]
		l.memory.Installed[m.Version] = plan.Installed{URL: m.URL, InDoubtUntil: inDoubt}
		origin := api.ReasonInstalled
		if r := l.memory.Replacing; r != nil && r.Module == m {
			origin = api.ReasonReplacedInPlace
		}
		for _, v := range l.views(key.module) {
			if v.wants() && v.module.Module == m {
				v.origins[key.module] = origin
			}
		}
	})
	return before, ok
}

// refused records that a base did not install a jar. An earlier install of another jar of the version may still end.
func (s *store) refused(key workerKey, m arklet.Module, before plan.Installed) {
	s.change(func() {
		if l := s.lane(key); l != nil && l.memory.Installed[m.Version].URL == m.URL {
			l.memory.Update(m.Version, func(installed *plan.Installed) { *installed = before })
		}
	})
}

// settled records that a list of the base shows the result of an install.
func (s *store) settled(key workerKey, m arklet.Module) {
	s.change(func() {
		if l := s.lane(key); l != nil {
			l.memory.Update(m.Version, func(installed *plan.Installed) { installed.InDoubtUntil = time.Time{} })
		}
	})
}

// read calls f with the lock held for reading.
func (s *store) read(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f()
}

// change calls f with the lock held for writing.
func (s *store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// count returns the number of Pods.
func (s *store) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byUID)
}
