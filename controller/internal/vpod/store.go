package vpod

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// entry is one Pod that this controller serves. The store's lock guards all of it but mu, which
// makes writes of this Pod one after the other.
type entry struct {
	uid      types.UID
	identity string // of the base
	pod      *corev1.Pod
	modules  []module
	asked    map[string][]string    // the last versions that it has asked for, by module
	workload string                 // its Deployment or DaemonSet; empty if it has none
	sources  []types.NamespacedName // the ConfigMaps that hold versions of its modules
	// outdated says that its workload wants another module now.
	outdated bool
	stage    stage  // how far it was when it came, and
	seen     uint64 // order in which Pods came, for those created in the same second
	came     time.Time
	deleting bool
	// left are the module names of which nothing is left on the base, when deleting; finished says that
	// nothing is left at all: the Pod is to leave the API.
	left     map[string]bool
	finished bool
	// origins say how each module got onto the base, by its name, as far as this controller saw it.
	origins map[string]origin
	// notReadySince is when the Pod was last written Not Ready, or began to be deleted: the drain
	// counts from here.
	notReadySince time.Time
	// quiet is the beginning of the first LIST of endpoints, since then, that showed none of it to which
	// requests are sent; sent is that of the last one that showed one.
	quiet, sent time.Time
	// readySince is when this controller wrote that the Pod is Ready, while it is; served says that it was
	// once, as far as anybody knows.
	readySince time.Time
	served     bool

	mu     sync.Mutex
	status *corev1.PodStatus // as the API server acknowledged it last; nil before the first write
	rv     string            // its resource version
	cost   *deletionCost     // the value that this controller wrote last; nil before the first write
}

// acknowledged keeps the status that the API server answered a write with, until the informer shows
// it. The caller holds mu.
func (e *entry) acknowledged(written *corev1.Pod) {
	status := written.Status
	e.status, e.rv = &status, written.ResourceVersion
}

// shown drops the acknowledged status once the informer has the Pod as new. foreign says that somebody
// else may have written it.
func (e *entry) shown(pod *corev1.Pod) (foreign bool) {
	if !e.mu.TryLock() { // a write is under way: its answer is newer, or older
		return true
	}
	defer e.mu.Unlock()
	if e.status != nil && !newer(e.rv, pod.ResourceVersion) {
		e.status = nil
	}
	return e.rv == "" || newer(pod.ResourceVersion, e.rv) // nothing was written since this controller started
}

// maxAsked is the maximum number of versions of a module that are kept for the log of a Pod.
const maxAsked = 50

// lane is one module name on one base: its Pods, and what is known beside what the base lists.
type lane struct {
	pods   map[types.UID]*entry
	order  atomic.Pointer[order] // nil after anything that it tells has changed
	memory plan.Memory
	// installing is the install under way, if any.
	installing *installing
	// removing is the version that is being uninstalled since no Pod wants it, from the moment at
	// which that is decided: a Pod that comes for it finds it in the list still, and must not count
	// on it.
	removing string
	// switched is since when the base is known to have switched away from a version, by version, until
	// that is active again.
	switched map[string]time.Time
}

// view is a copy of an entry at one moment, for one of its modules.
type view struct {
	*entry
	pod           *corev1.Pod
	module        module // the one of the lane
	deleting      bool
	finished      bool
	outdated      bool
	notReadySince time.Time
	readySince    time.Time
}

// wants says whether the Pod wants its module on the base: it stays, and its module can be
// installed.
func (v view) wants() bool { return !v.deleting && v.module.installable() }

// unasked says whether the base has listed nothing since a Pod came whose module it had before: it may have
// started again in between. A Pod that came Ready is what an earlier controller has left.
func (v view) unasked(b base.Snapshot) bool {
	_, there := b.Module(v.module.Name, v.module.Version)
	return there && v.wants() && v.stage == stageNew && b.HeardAt.Before(v.came)
}

// unasked says whether it is so for one of these views.
func unasked(views []view, b base.Snapshot) bool {
	return slices.ContainsFunc(views, func(v view) bool { return v.unasked(b) })
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
	case pod.DeletionTimestamp != nil, pod.Annotations[corev1.PodDeletionCost] == preferred, c != nil && c.Reason == api.ReasonDeactivated:
		return stageReplaced
	case isReady(&pod.Status):
		return stageReady
	default:
		return stageNew
	}
}

// store holds the entries by UID and finds them by name, base and module.
type store struct {
	// outdated says whether the workload of a Pod wants another module.
	outdated func(*corev1.Pod) bool

	mu         sync.RWMutex
	next       uint64
	byUID      map[types.UID]*entry
	byBase     map[string]map[string]*lane // then by module name
	byWorkload index[string]
	bySource   index[types.NamespacedName]
}

func newStore(outdated func(*corev1.Pod) bool) *store {
	return &store{
		outdated: outdated, byUID: map[types.UID]*entry{}, byBase: map[string]map[string]*lane{},
		byWorkload: index[string]{}, bySource: index[types.NamespacedName]{},
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// lane returns a lane, nil if there is none. The caller holds the lock.
func (s *store) lane(key workerKey) *lane { return s.byBase[key.identity][key.module] }

// needLane returns a lane, and makes it if there is none. The caller holds the lock.
func (s *store) needLane(key workerKey) *lane {
	l := s.lane(key)
	if l == nil {
		l = &lane{pods: map[types.UID]*entry{}, memory: plan.NewMemory(), switched: map[string]time.Time{}}
		if s.byBase[key.identity] == nil {
			s.byBase[key.identity] = map[string]*lane{}
		}
		s.byBase[key.identity][key.module] = l
	}
	return l
}

// dropEmpty forgets a lane in which nothing is to be known any more. The caller holds the lock.
func (s *store) dropEmpty(key workerKey) {
	if l := s.lane(key); l == nil || len(l.pods) > 0 || len(l.memory.Installed) > 0 {
		return
	}
	delete(s.byBase[key.identity], key.module)
	if len(s.byBase[key.identity]) == 0 {
		delete(s.byBase, key.identity)
	}
}

// put takes a Pod as the API server has it now. changed are the names of the modules that are
// another than before; a Pod that comes has all of them.
func (s *store) put(pod *corev1.Pod, identity string, modules []module) (e *entry, changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.byUID[pod.UID]
	if !known {
		s.next++
		e = &entry{
			uid: pod.UID, identity: identity, stage: stageOf(pod), seen: s.next, rv: pod.ResourceVersion, came: time.Now(),
			asked: map[string][]string{}, left: map[string]bool{}, origins: map[string]origin{}, notReadySince: notReadySince(pod),
			served: pod.Status.Phase != corev1.PodPending,
		}
		s.byUID[pod.UID] = e
	}
	ordered := s.file(e, pod)
	before := e.modules
	again := known && e.pod.Annotations[labels.Retry] != pod.Annotations[labels.Retry]
	e.pod, e.modules = pod, modules
	s.leaveLanes(e, before)
	for _, m := range modules {
		i := slices.IndexFunc(before, func(was module) bool { return was.Name == m.Name })
		if i >= 0 && before[i].Module == m.Module && before[i].pending == m.pending && (before[i].invalid == nil) == (m.invalid == nil) && !again {
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
		delete(l.memory.Failed, plan.Install(m.Module)) // whoever changes something wants it to be tried
		delete(l.memory.Failed, plan.Uninstall(m.Module))
		if !known {
			l.remember(pod, m.Name)
		}
	}
	if !ordered || len(changed) > 0 {
		s.disorder(e)
	}
	return e, changed
}

// leaveLanes removes a Pod from the lanes of containers that are no longer modules. Such a container never
// had a version, and its image was changed from a URL to something else. The caller holds the lock.
func (s *store) leaveLanes(e *entry, before []module) {
	names := e.names()
	for _, m := range before {
		key := workerKey{e.identity, m.Name}
		if l := s.lane(key); l != nil && !slices.Contains(names, m.Name) {
			delete(l.pods, e.uid)
			l.order.Store(nil)
			s.dropEmpty(key)
		}
	}
}

// remember takes what a Pod's status tells of the module on the base: its version and its jar. An
// earlier controller may have written it.
func (l *lane) remember(pod *corev1.Pod, name string) {
	for _, c := range pod.Status.ContainerStatuses {
		version, url := onBase(c)
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

// markDeleting notes that a Pod is to go, from now on, and names its modules.
func (s *store) markDeleting(uid types.UID) (e *entry, names []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok = s.byUID[uid]
	if !ok {
		return nil, nil, false
	}
	if !e.deleting {
		e.deleting = true
		e.finished = !slices.ContainsFunc(e.modules, module.installable) // there is nothing to wait for
		s.disorder(e)
		if e.notReadySince.IsZero() {
			e.notReadySince = time.Now()
		}
	}
	return e, e.names(), true
}

// names lists the names of a Pod's modules, each once. The caller holds the store's lock.
func (e *entry) names() []string {
	var names []string
	for _, m := range e.modules {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *store) remove(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(e)
	s.disorder(e)
	for _, name := range e.names() {
		key := workerKey{e.identity, name}
		if l := s.lane(key); l != nil {
			delete(l.pods, e.uid)
			s.dropEmpty(key)
		}
	}
}

// removeBase forgets all about a base, and returns the Pods that it had.
func (s *store) removeBase(identity string) (had []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byBase[identity] {
		for _, e := range l.pods {
			if s.byUID[e.uid] == e { // else another lane had it too
				s.drop(e)
				had = append(had, e)
			}
		}
	}
	delete(s.byBase, identity)
	return had
}

func (s *store) get(uid types.UID) (*entry, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.byUID[uid]
	return e, ok
}

// refersTo lists the Pods whose module versions stand in a ConfigMap.
func (s *store) refersTo(name types.NamespacedName) (pods []*corev1.Pod) {
	s.read(func() {
		for _, e := range s.bySource[name] {
			pods = append(pods, e.pod)
		}
	})
	return pods
}

// changed looks again at which Pods a workload wants, and returns the lanes where that is another
// than before.
func (s *store) changed(workload string) (lanes []workerKey) {
	s.change(func() {
		for _, e := range s.byWorkload[workload] {
			if e.outdated == s.outdated(e.pod) {
				continue
			}
			e.outdated = !e.outdated
			s.disorder(e)
			for _, name := range e.names() {
				lanes = append(lanes, workerKey{e.identity, name})
			}
		}
	})
	return lanes
}

// has says whether anything is known of a lane.
func (s *store) has(key workerKey) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lane(key) != nil
}

// views returns the views of all Pods of a lane, oldest first.
func (s *store) views(key workerKey) []view {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.lane(key)
	if l == nil {
		return nil
	}
	return l.views(key.module)
}

// views is called with the store's lock held.
func (l *lane) views(name string) []view {
	views := make([]view, 0, len(l.pods))
	for _, r := range l.ordered(name).ranks {
		e := r.entry
		views = append(views, view{
			entry: e, pod: e.pod, module: e.modules[r.module], deleting: e.deleting, finished: e.finished, outdated: e.outdated,
			notReadySince: e.notReadySince, readySince: e.readySince,
		})
	}
	return views
}

// names lists the module names of a base of which something is known.
func (s *store) names(identity string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.byBase[identity]))
}

// forgetFailures has what failed on a base and of holds for be tried again at once, and reports
// whether there is any.
func (s *store) forgetFailures(identity string, of func(plan.Failure) bool) (forgot bool) {
	s.change(func() {
		for _, l := range s.byBase[identity] {
			before := len(l.memory.Failed)
			maps.DeleteFunc(l.memory.Failed, func(_ plan.Attempt, f plan.Failure) bool { return of(f) })
			forgot = forgot || len(l.memory.Failed) < before
		}
	})
	return forgot
}

// placing notes what an install is to put on a base, before it is sent, and for which Pods.
// inDoubt is until when it may do so without an answer. It returns what was known before, and false
// if nobody asks for anything there any more.
func (s *store) placing(key workerKey, m arklet.Module, inDoubt time.Time) (before plan.Installed, asked bool) {
	s.change(func() {
		l := s.lane(key)
		if asked = l != nil; !asked {
			return
		}
		before = l.memory.Installed[m.Version]
		l.memory.Installed[m.Version] = plan.Installed{URL: m.URL, InDoubtUntil: inDoubt}
		from := originInstalled
		if r := l.memory.Replacing; r != nil && r.Module == m {
			from = originReplaced
		}
		for _, v := range l.views(key.module) {
			if v.wants() && v.module.Module == m {
				v.origins[key.module] = from
			}
		}
	})
	return before, asked
}

// refused notes that a base did not take a jar: what was known of its version before holds, and an
// install of another jar that is under way there may still end.
func (s *store) refused(key workerKey, m arklet.Module, before plan.Installed) {
	s.change(func() {
		if l := s.lane(key); l != nil && l.memory.Installed[m.Version].URL == m.URL {
			l.memory.Update(m.Version, func(installed *plan.Installed) { *installed = before })
		}
	})
}

// settled notes that a list has shown what came of an install.
func (s *store) settled(key workerKey, m arklet.Module) {
	s.change(func() {
		if l := s.lane(key); l != nil {
			l.memory.Update(m.Version, func(installed *plan.Installed) { installed.InDoubtUntil = time.Time{} })
		}
	})
}

// read runs f with the entry's fields under the lock.
func (s *store) read(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f()
}

// change runs f, which may change fields of entries and lanes, under the lock.
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
