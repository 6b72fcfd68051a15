package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Watcher receives the events of bases. Its methods are called in order for one base, concurrently for different bases,
// and while a base is locked: they must be fast and must not call a base or the fleet.
type Watcher interface {
	// OnSnapshot tells how a base is when it is first seen: with the beginning of the
	// watch, or new, before it starts.
	OnSnapshot(m *Member, v BaseSnapshot)
	// OnEvent tells what happens to it. Over HTTP it is connected when a heartbeat is
	// answered after one that was not.
	OnEvent(m *Member, e fakebase.Event)
	// OnTrace tells what it does.
	OnTrace(m *Member, t fakebase.Trace)
	// OnRemoved tells that it has been removed.
	OnRemoved(m *Member)
}

// BaseSnapshot is how a base is.
type BaseSnapshot struct {
	fakebase.Status
	// Connected is as Fleet.Connected has it: that of Status knows MQTT only.
	Connected bool
	// Started reports whether a process of it has ever run.
	Started bool
	Faults  []fault.Status
}

// watcher shows bases to a Watcher: each once, whoever comes first, the member's
// own goroutine or Watch.
type watcher struct {
	target Watcher
	group  string // empty = all

	mu    sync.Mutex // never taken while a base is locked
	shown map[*Member]func()
	ended bool
}

// Watch calls w for the bases of a group, or for all if it is empty, until stop is called. When Watch returns, all
// present bases have been shown.
func (f *Fleet) Watch(group string, w Watcher) (stop func()) {
	x := &watcher{target: w, group: group, shown: map[*Member]func(){}}
	f.mu.Lock()
	f.watchers = append(slices.Clone(f.watchers), x)
	members := slices.Clone(f.members)
	f.mu.Unlock()
	for _, m := range members {
		x.show(f, m)
	}
	return func() {
		f.mu.Lock()
		f.watchers = slices.DeleteFunc(slices.Clone(f.watchers), func(y *watcher) bool { return x == y })
		f.mu.Unlock()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ended = true
		for _, stop := range x.shown {
			stop()
		}
	}
}

func (f *Fleet) notifyAdded(m *Member) {
	for _, w := range f.currentWatchers() {
		w.show(f, m)
	}
}

// notifyRemoved tells all who watch that a member has ended.
func (f *Fleet) notifyRemoved(m *Member) {
	for _, w := range f.currentWatchers() {
		w.mu.Lock()
		stop, shown := w.shown[m]
		delete(w.shown, m)
		w.mu.Unlock()
		if shown {
			stop()
			w.target.OnRemoved(m)
		}
	}
}

// notify tells all who watch of something that the base itself does not.
func (f *Fleet) notify(m *Member, kind fakebase.EventKind) {
	e := fakebase.Event{Kind: kind, Time: time.Now(), Identity: m.Base.Identity()}
	for _, w := range f.currentWatchers() {
		w.mu.Lock()
		_, shown := w.shown[m]
		w.mu.Unlock()
		if shown {
			w.target.OnEvent(m, e)
		}
	}
}

func (f *Fleet) currentWatchers() []*watcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watchers
}

func (f *Fleet) hasEnded(m *Member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return m.ended
}

func (w *watcher) show(f *Fleet, m *Member) {
	if w.group != "" && w.group != m.Group {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, shown := w.shown[m]; shown || w.ended || f.hasEnded(m) {
		return
	}
	// Changes that come before the base has been shown wait for it.
	var mu sync.Mutex
	mu.Lock()
	untrace := m.Base.Trace(func(t fakebase.Trace) { w.target.OnTrace(m, t) })
	faults := m.Base.Faults()
	connected, started := f.connected(m)
	now, unwatch := m.Base.Watch(func(e fakebase.Event) {
		mu.Lock()
		defer mu.Unlock()
		w.target.OnEvent(m, e)
	})
	w.target.OnSnapshot(m, BaseSnapshot{now, connected, started || now.Running, faults})
	mu.Unlock()
	w.shown[m] = func() {
		unwatch()
		untrace()
	}
}
