package vpod

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// entry is one Pod that this controller serves. The store's lock guards all of it but mu, which
// makes writes of this Pod one after the other.
type entry struct {
	uid      types.UID
	identity string // of the base
	pod      *corev1.Pod
	modules  []module
	stage    stage  // how far it was when it came, and
	seen     uint64 // order in which Pods came, for those created in the same second
	deleting bool
	// replaced are modules that an in-place update took out of the Pod; they go once what came
	// instead is active and they are drained.
	replaced []arklet.Module
	// takenOver is when what came instead was first seen to be active, by module name.
	takenOver map[string]time.Time
	// failures are what went wrong last, by module name.
	failures map[string]failure
	// removed are the module names of which nothing is left on the base, when deleting.
	removed map[string]bool
	// notReadySince is when the Pod was last written Not Ready, or began to be deleted: the drain
	// counts from here.
	notReadySince time.Time

	mu     sync.Mutex
	status *corev1.PodStatus // as the API server acknowledged it last; nil before the first write
	rv     string            // its resource version
	cost   bool              // the deletion preference was written
}

// acknowledged keeps the status that the API server answered a write with, until the informer shows
// it. The caller holds mu.
func (e *entry) acknowledged(written *corev1.Pod) {
	status := written.Status
	e.status, e.rv = &status, written.ResourceVersion
}

// shown drops the acknowledged status once the informer has the Pod as new.
func (e *entry) shown(pod *corev1.Pod) {
	if e.mu.TryLock() { // a write is under way: its answer is newer
		if e.status != nil && !newer(e.rv, pod.ResourceVersion) {
			e.status = nil
		}
		e.mu.Unlock()
	}
}

// view is a copy of an entry at one moment, for the worker of one of its modules.
type view struct {
	*entry
	pod           *corev1.Pod
	module        module // the one of the worker
	replaced      []arklet.Module
	deleting      bool
	failure       failure
	notReadySince time.Time
}

// wants says whether the Pod wants its module on the base: it stays, and its module can be
// installed.
func (v view) wants() bool { return !v.deleting && v.module.invalid == nil }

// older orders views by creation, then by how far they were when they came, then by when they came.
// A controller that starts in the middle of a rollout gets the Pods of one second in any order:
// what was written to them tells which one is to serve.
func older(a, b view) int {
	return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
		cmp.Compare(a.stage, b.stage), cmp.Compare(a.seen, b.seen), cmp.Compare(a.uid, b.uid))
}

// stage is how far a Pod's life has gone, the furthest first.
type stage int

const (
	stageReplaced stage = iota // another Pod has taken its place, or is about to
	stageReady
	stageNew
)

func stageOf(pod *corev1.Pod) stage {
	c := condition(&pod.Status, corev1.PodReady)
	switch {
	case pod.DeletionTimestamp != nil, pod.Annotations[corev1.PodDeletionCost] == preferred, c != nil && c.Reason == ReasonDeactivated:
		return stageReplaced
	case isReady(&pod.Status):
		return stageReady
	default:
		return stageNew
	}
}

// store holds the entries by UID and finds them by name, base and module.
type store struct {
	mu     sync.RWMutex
	next   uint64
	byUID  map[types.UID]*entry
	byName map[types.NamespacedName]types.UID
	byBase map[string]map[types.UID]*entry
}

func newStore() *store {
	return &store{byUID: map[types.UID]*entry{}, byName: map[types.NamespacedName]types.UID{}, byBase: map[string]map[types.UID]*entry{}}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// put takes a Pod as the API server has it now, and returns the names of the modules whose workers
// must look again.
func (s *store) put(pod *corev1.Pod, identity string) (e *entry, names []string) {
	modules := modulesOf(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.byUID[pod.UID]
	if !known {
		s.next++
		e = &entry{
			uid: pod.UID, identity: identity, stage: stageOf(pod), seen: s.next, rv: pod.ResourceVersion,
			failures: map[string]failure{}, removed: map[string]bool{}, takenOver: map[string]time.Time{}, notReadySince: notReadySince(pod),
		}
		s.byUID[pod.UID] = e
		if s.byBase[identity] == nil {
			s.byBase[identity] = map[types.UID]*entry{}
		}
		s.byBase[identity][pod.UID] = e
	}
	s.byName[nameOf(pod)] = pod.UID
	before := e.modules
	e.pod, e.modules = pod, modules
	for i, m := range modules {
		names = append(names, m.Name)
		if known && i < len(before) && before[i].Module != m.Module {
			if before[i].invalid == nil {
				e.replaced = append(e.replaced, before[i].Module)
			}
			delete(e.takenOver, m.Name)
			delete(e.failures, m.Name)
		}
	}
	return e, names
}

// notReadySince reads when the API server last saw a Pod turn Not Ready.
func notReadySince(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	}
	if c := condition(&pod.Status, corev1.PodReady); c != nil && c.Status != corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// markDeleting notes that a Pod is to go, from now on.
func (s *store) markDeleting(uid types.UID) (e *entry, names []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok = s.byUID[uid]
	if !ok {
		return nil, nil, false
	}
	if !e.deleting {
		e.deleting = true
		if e.notReadySince.IsZero() {
			e.notReadySince = time.Now()
		}
	}
	return e, e.moduleNames(), true
}

// moduleNames lists the names of the modules that may be on the base because of the Pod.
func (e *entry) moduleNames() []string {
	var names []string
	for _, m := range e.modules {
		if m.invalid == nil {
			names = append(names, m.Name)
		}
	}
	for _, m := range e.replaced {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *store) remove(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(e)
}

// removeBase removes the entries of a base.
func (s *store) removeBase(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byBase[identity] {
		s.drop(e)
	}
}

// drop is called with the lock held.
func (s *store) drop(e *entry) {
	delete(s.byUID, e.uid)
	if name := nameOf(e.pod); s.byName[name] == e.uid {
		delete(s.byName, name)
	}
	delete(s.byBase[e.identity], e.uid)
	if len(s.byBase[e.identity]) == 0 {
		delete(s.byBase, e.identity)
	}
}

// find returns the Pod of a name, nil if it is not served here.
func (s *store) find(name types.NamespacedName) *corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e, ok := s.byUID[s.byName[name]]; ok {
		return e.pod
	}
	return nil
}

func (s *store) get(uid types.UID) (*entry, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.byUID[uid]
	return e, ok
}

// views returns the views of all Pods that have to do with a module name on a base, oldest first.
func (s *store) views(key workerKey) []view {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var views []view
	for _, e := range s.byBase[key.identity] {
		i := slices.IndexFunc(e.modules, func(m module) bool { return m.Name == key.module })
		if i < 0 {
			continue
		}
		v := view{entry: e, pod: e.pod, module: e.modules[i], deleting: e.deleting, failure: e.failures[key.module], notReadySince: e.notReadySince}
		for _, m := range e.replaced {
			if m.Name == key.module {
				v.replaced = append(v.replaced, m)
			}
		}
		views = append(views, v)
	}
	slices.SortFunc(views, older)
	return views
}

// names lists the module names that Pods of a base ask for.
func (s *store) names(identity string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for _, e := range s.byBase[identity] {
		for _, m := range e.modules {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// read runs f with the entry's fields under the lock.
func (s *store) read(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f()
}

// change runs f, which may change fields of entries, under the lock.
func (s *store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// count is the number of Pods served.
func (s *store) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byUID)
}
