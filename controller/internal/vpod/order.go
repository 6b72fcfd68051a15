package vpod

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// order is the Pods of a lane, the oldest first, and what those of them that stay ask for. It is made
// when it is asked for after a change, and shared then: a base may have hundreds of Pods of one module.
type order struct {
	ranks  []rank
	place  map[types.UID]int
	wanted []wanted
}

// rank is a Pod of a lane.
type rank struct {
	*entry
	module int // the lane's, among those of the Pod
	// since is when the Pod was created, or, if that was later, when one that its workload does not
	// want any more was.
	since time.Time
}

// wanted is what Pods that stay ask for, each once, and the place of the newest of them.
type wanted struct {
	module arklet.Module
	newest int
}

// older orders Pods by creation, but those that their workload wants after those that it does not
// want any more; then by how far they were when they came, then by when they came. A controller that
// starts in the middle of a rollout gets the Pods of one second in any order: what was written to
// them tells which one is to serve.
func older(a, b rank) int {
	current := func(r rank) int {
		if r.outdated {
			return 0
		}
		return 1
	}
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(current(a), current(b)),
		cmp.Compare(a.stage, b.stage), cmp.Compare(a.seen, b.seen), cmp.Compare(a.uid, b.uid))
}

// ordered returns the order of a lane; name is its module's. The caller holds the store's lock, for
// reading at least.
func (l *lane) ordered(name string) *order {
	if o := l.order.Load(); o != nil {
		return o
	}
	o := &order{ranks: make([]rank, 0, len(l.pods)), place: make(map[types.UID]int, len(l.pods))}
	outdated := map[string]time.Time{} // when the last one was created, by workload
	for _, e := range l.pods {
		if created := e.pod.CreationTimestamp.Time; e.outdated && created.After(outdated[e.workload]) {
			outdated[e.workload] = created
		}
	}
	for _, e := range l.pods {
		r := rank{e, slices.IndexFunc(e.modules, func(m module) bool { return m.Name == name }), e.pod.CreationTimestamp.Time}
		if last := outdated[e.workload]; !e.outdated && last.After(r.since) {
			r.since = last
		}
		o.ranks = append(o.ranks, r)
	}
	slices.SortFunc(o.ranks, older)
	for i, r := range o.ranks {
		o.place[r.uid] = i
		m := r.modules[r.module]
		if r.deleting || !m.installable() {
			continue
		}
		if j := slices.IndexFunc(o.wanted, func(w wanted) bool { return w.module == m.Module }); j >= 0 {
			o.wanted[j].newest = i
		} else {
			o.wanted = append(o.wanted, wanted{m.Module, i})
		}
	}
	l.order.Store(o)
	return o
}

// disorder says that something of a Pod has changed by which its lanes are ordered. The caller holds the
// lock.
func (s *store) disorder(e *entry) {
	for _, m := range e.modules {
		if l := s.lane(workerKey{e.identity, m.Name}); l != nil {
			l.order.Store(nil)
		}
	}
}

// index finds entries by something that they have in common.
type index[K comparable] map[K]map[types.UID]*entry

func (x index[K]) add(key K, e *entry) {
	if x[key] == nil {
		x[key] = map[types.UID]*entry{}
	}
	x[key][e.uid] = e
}

func (x index[K]) remove(key K, e *entry) {
	if delete(x[key], e.uid); len(x[key]) == 0 {
		delete(x, key)
	}
}

// file notes what a Pod is found by, and reports whether its place among others stays. The caller holds
// the lock.
func (s *store) file(e *entry, pod *corev1.Pod) (ordered bool) {
	s.unfile(e)
	of, outdated := workloadOf(pod), s.outdated(pod)
	ordered = e.workload == of && e.outdated == outdated
	e.workload, e.outdated, e.sources = of, outdated, nil
	for _, c := range pod.Spec.Containers {
		for _, source := range workload.VersionSources(pod.Namespace, c) {
			e.sources = append(e.sources, source.ConfigMap)
			s.bySource.add(source.ConfigMap, e)
		}
	}
	s.byWorkload.add(e.workload, e)
	return ordered
}

func (s *store) unfile(e *entry) {
	s.byWorkload.remove(e.workload, e)
	for _, source := range e.sources {
		s.bySource.remove(source, e)
	}
}

// drop forgets an entry, but for its lanes. The caller holds the lock.
func (s *store) drop(e *entry) {
	delete(s.byUID, e.uid)
	s.unfile(e)
}
