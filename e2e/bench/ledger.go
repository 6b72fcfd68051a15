package main

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// lag is how long a Pod may still say what was so before: a base switches by
// itself, and nobody can know before it says so. The times of the API are whole seconds.
const lag = time.Second

// ledger compares, at every change of a base and of a Pod, what Pods say with
// what their bases serve. Bases of this process tell of a change while they make it; Pods
// come by a watch, so that what is held against them lasted a little shorter in truth.
type ledger struct {
	module string

	mu    sync.Mutex
	bases map[string]*booked // by Node
	pods  map[types.UID]*entry
	early map[types.UID]bool // turned Ready before their version was active
	gaps  []span             // of a base without any active version
	gone  map[string]int     // how often each base was so
	wrong []span             // of a Pod that was Ready without its version being active
	left  []span             // of a Pod that said Ready after its module was gone
	apart []span             // of a Pod whose readiness was not what its base served
	pace  chan struct{}      // closed at the next change of anything
}

// booked is a base.
type booked struct {
	active, installed, ever map[string]bool // by version
	since                   time.Time       // without any active version; zero while there is one, and before the first
}

// entry is a Pod that is bound.
type entry struct {
	node, version      string
	ready, terminating bool
	since              [3]time.Time // of wrong, left and apart; zero while it is not so
}

// span is how long something was so.
type span struct {
	of       string
	from, to time.Time
}

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// longest is the longest span in seconds.
func longest(spans []span) float64 {
	most := 0.0
	for _, s := range spans {
		most = max(most, s.length().Seconds())
	}
	return most
}

// longer is how many spans are longer than d.
func longer(spans []span, d time.Duration) float64 {
	n := 0.0
	for _, s := range spans {
		if s.length() > d {
			n++
		}
	}
	return n
}

// newLedger keeps books of one module.
func newLedger(module string) *ledger {
	return &ledger{module: module, bases: map[string]*booked{}, pods: map[types.UID]*entry{}, early: map[types.UID]bool{}, gone: map[string]int{}, pace: make(chan struct{})}
}

// base takes a change of the base behind a Node. Changes of one moment come one
// after the other: a span without length was none.
func (l *ledger) base(node string, e fakebase.Event) {
	if e.Kind != fakebase.EventBiz || e.Biz != l.module {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bases[node]
	if b == nil {
		b = &booked{active: map[string]bool{}, installed: map[string]bool{}, ever: map[string]bool{}}
		l.bases[node] = b
	}
	set(b.active, e.Version, e.To == fakebase.StateActivated)
	set(b.installed, e.Version, e.To != fakebase.StateStopped && e.To != fakebase.StateUnresolved)
	switch {
	case len(b.active) > 0:
		b.ever[e.Version] = b.ever[e.Version] || b.active[e.Version]
		if !b.since.IsZero() && e.Time.After(b.since) {
			l.gaps = append(l.gaps, span{node, b.since, e.Time})
			l.gone[node]++
		}
		b.since = time.Time{}
	case len(b.ever) > 0 && b.since.IsZero():
		b.since = e.Time
	}
	for id, p := range l.pods {
		if p.node == node {
			l.judge(id, p, e.Time)
		}
	}
	l.changed()
}

// set keeps a name in a set, or out of it.
func set(of map[string]bool, name string, in bool) {
	if in {
		of[name] = true
	} else {
		delete(of, name)
	}
}

// pod takes an event of a watch.
func (l *ledger) pod(e watch.Event) {
	pod, is := e.Object.(*corev1.Pod)
	if !is || pod.Spec.NodeName == "" {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed()
	p := l.pods[pod.UID]
	if p == nil {
		p = &entry{node: pod.Spec.NodeName, version: version(pod)}
		l.pods[pod.UID] = p
	}
	ready := module.IsReady(pod) && e.Type != watch.Deleted
	if b := l.bases[p.node]; ready && !p.ready && (b == nil || !b.ever[p.version]) {
		l.early[pod.UID] = true
	}
	p.ready, p.terminating = ready, pod.DeletionTimestamp != nil || e.Type == watch.Deleted
	l.judge(pod.UID, p, now)
	if e.Type == watch.Deleted {
		delete(l.pods, pod.UID)
	}
}

// judge holds a Pod against its base. mu is held.
func (l *ledger) judge(id types.UID, p *entry, now time.Time) {
	active, installed := false, false
	if b := l.bases[p.node]; b != nil {
		active, installed = b.active[p.version], b.installed[p.version]
	}
	for i, is := range [...]struct {
		so   bool
		into *[]span
	}{
		{p.ready && !p.terminating && !active, &l.wrong},
		{p.ready && !installed, &l.left},
		{!p.terminating && p.ready != active, &l.apart},
	} {
		switch {
		case is.so && p.since[i].IsZero():
			p.since[i] = now
		case !is.so && !p.since[i].IsZero():
			*is.into = append(*is.into, span{string(id), p.since[i], now})
			p.since[i] = time.Time{}
		}
	}
}

// changed wakes those who wait. mu is held.
func (l *ledger) changed() {
	close(l.pace)
	l.pace = make(chan struct{})
}

// close ends every span that is open. Nothing is added afterwards.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for node, b := range l.bases {
		if !b.since.IsZero() {
			l.gaps = append(l.gaps, span{node, b.since, now})
			l.gone[node]++
			b.since = time.Time{}
		}
	}
	for id, p := range l.pods {
		p.ready, p.terminating = false, true
		l.judge(id, p, now)
	}
}

// standing is how far a rollout is.
type standing struct {
	pods, ready int // Pods that are bound, and those that are Ready and stay, of the version
	active      int // bases on which the version is active and no other is installed
	begun       int // bases on which the version is active
	without     int // bases without an active version
}

// standing says how things are, and gives a channel that is closed when they change.
func (l *ledger) standing(version string) (standing, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := standing{pods: len(l.pods)}
	for _, p := range l.pods {
		if p.version == version && p.ready && !p.terminating {
			s.ready++
		}
	}
	for _, b := range l.bases {
		if b.active[version] {
			s.begun++
			if len(b.installed) == 1 {
				s.active++
			}
		}
		if len(b.active) == 0 {
			s.without++
		}
	}
	return s, l.pace
}
