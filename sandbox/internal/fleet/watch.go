package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Watcher receives the events of bases. Calls for the same base are sequential. Calls for different bases can be
// concurrent. The base is locked during a call, so the methods must return quickly and must not call a base or the
// fleet.
type Watcher interface {
	// OnSnapshot reports the current state of a base. It is called when the watch begins or, for a new base, before
	// the base starts.
	OnSnapshot(m *Member, v BaseSnapshot)
	// OnEvent reports an event of a base. For a base with the HTTP tunnel, it also reports a connection event when
	// heartbeats begin to succeed, and a disconnection event when they begin to fail.
	OnEvent(m *Member, e fakebase.Event)
	// OnTrace reports a command to a base or a fault of a base.
	OnTrace(m *Member, t fakebase.Trace)
	// OnRemoved reports that a base has been removed.
	OnRemoved(m *Member)
}

// BaseSnapshot is the current state of a base.
type BaseSnapshot struct {
	fakebase.Status
	// Connected is the result of Fleet.Connected. (Status contains only the state of the connection to the broker.)
	Connected bool
	// Started reports whether a process of the base has ever run.
	Started bool
	Faults  []fault.Status
}

// watcher passes the events of bases to a Watcher. For each base, either the goroutine that runs the base or Watch
// sends the snapshot, but only once.
type watcher struct {
	target Watcher
	group  string // group whose bases are watched; empty = all bases

	mu    sync.Mutex         // must not be locked while a base is locked
	shown map[*Member]func() // functions that stop watching the bases whose snapshot was sent
	ended bool
}

// Watch calls the methods of w for the bases of a group until stop is called. If group is empty, it reports all
// bases. Before Watch returns, it has sent a snapshot of every existing base.
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

// notifyAdded sends a snapshot of a new member to all watchers.
func (f *Fleet) notifyAdded(m *Member) {
	for _, w := range f.currentWatchers() {
		w.show(f, m)
	}
}

// notifyRemoved notifies all watchers that a member has been removed.
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

// notify sends an event to all watchers. It is used for events that the base itself does not emit.
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
	// mu delays events that arrive before the snapshot is sent.
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
