package board

import (
	"strconv"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// Kinds of rows: the names of the fields of Tables.
const (
	kindBoard     = "board"
	kindBase      = "base"
	kindPod       = "pod"
	kindWorkload  = "workload"
	kindRevision  = "revision"
	kindService   = "service"
	kindComponent = "component"
	kindFault     = "fault"
	kindStream    = "stream"
	kindStep      = "step"
	kindFinding   = "finding"
	kindNotice    = "notice"
)

// findEvery is the interval of looks for findings.
const findEvery = time.Second

// world is what is known, before it becomes rows. Sources add to it, and flush takes the rows that have changed. Its methods
// may be called concurrently.
type world struct {
	changed chan struct{} // has one element when flush has something to do

	mu    sync.Mutex
	now   time.Time // of the latest event
	state events.State
	dirty map[string]map[string]bool // keys of rows that have changed, by kind
	log   []any
	logs  int64 // entries so far
	// synced reports whether new events are changes, which the log shows.
	synced bool
	found  time.Time // when the last look for findings was

	// alone reports whether there is no daemon, so that bases are known only by their Nodes and Pods.
	alone bool
	// namespace of a run, whose bases have no Nodes here and whose Pods have no namespace; empty = this is not a run.
	namespace string

	// What the State does not have:
	board     BoardRow
	nodes     map[string]node // by base
	pods      map[string]pod  // by UID
	workloads map[string]WorkloadRow
	revisions map[string]RevisionRow
	processes map[string]ComponentRow // of the components of a sandbox
	leases    map[string]time.Time    // when the Leases of controllers expire, by holder
	streams   map[string]streamFigures
	uses      map[string]*use // of bases
	findings  map[string]*finding
	notices   map[string]NoticeRow
}

func newWorld(b BoardRow) *world {
	w := &world{
		changed: make(chan struct{}, 1), dirty: map[string]map[string]bool{}, board: b, nodes: map[string]node{},
		pods:      map[string]pod{},
		workloads: map[string]WorkloadRow{}, revisions: map[string]RevisionRow{}, processes: map[string]ComponentRow{},
		leases:  map[string]time.Time{},
		streams: map[string]streamFigures{}, uses: map[string]*use{}, findings: map[string]*finding{},
		notices: map[string]NoticeRow{},
	}
	w.mark(kindBoard, kindBoard)
	return w
}

// mark records that a row has changed. w.mu is held.
func (w *world) mark(kind, key string) {
	if key == "" {
		return
	}
	if w.dirty[kind] == nil {
		w.dirty[kind] = map[string]bool{}
	}
	w.dirty[kind][key] = true
	w.kick()
}

// kick wakes the publisher.
func (w *world) kick() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// write adds an entry to the log. w.mu is held.
func (w *world) write(e LogEntry) {
	w.logs++
	e.ID = w.logs
	w.log = append(w.log, e)
	w.kick()
}

// record is write for those who do not hold the lock.
func (w *world) record(e LogEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(e)
}

// note adds an event.
func (w *world) note(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apply(e)
}

// apply adds an event to the state. w.mu is held.
func (w *world) apply(e events.Event) {
	if e.Time.After(w.now) {
		w.now = e.Time
	}
	if e.Synced {
		w.state.Apply(e)
		for _, name := range w.state.Bases.Names() {
			w.mark(kindBase, name)
		}
		return
	}
	var before *events.PodStatus
	if e.Pod != nil {
		before = w.state.Pods.Get(e.Pod.PodKey())
	}
	w.state.Apply(e)
	w.touch(e, before)
	if w.synced {
		w.tell(e)
	}
}

// settle ends the initial events. The log shows the following ones.
func (w *world) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	w.kick()
}

// touch marks the rows that an event changes. w.mu is held.
func (w *world) touch(e events.Event, before *events.PodStatus) {
	w.mark(kindBase, e.BaseName())
	switch {
	case e.Pod != nil:
		if before != nil {
			w.mark(kindBase, before.Base)
		}
		key := e.Pod.PodKey()
		if now := w.state.Pods.Get(key); now != nil {
			w.mark(kindBase, now.Base)
		}
		w.mark(kindPod, key)
	case e.Endpoints != nil:
		w.mark(kindService, e.Endpoints.Service)
	case e.Component != nil:
		w.mark(kindComponent, e.Component.Name)
	case e.Fault != nil:
		w.mark(kindFault, e.Fault.Key())
	case e.Step != nil:
		w.mark(kindStep, strconv.Itoa(w.state.Step(e.Step.Name).Number))
	}
}

// notice adds a notice; an empty text removes it.
func (w *world) notice(about, text string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, there := w.notices[about]
	switch {
	case text == "" && there:
		delete(w.notices, about)
	case text != "" && before.Text != text:
		w.notices[about] = NoticeRow{Text: text, Since: millis(now)}
	default:
		return
	}
	w.mark(kindNotice, about)
}

// flush returns what has changed since the flush before, and the time of it.
func (w *world) flush(now time.Time) (time.Time, feed.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.found) >= findEvery {
		w.found = now
		w.find(now)
	}
	u := feed.Update{Set: map[string]map[string]any{}, Del: map[string][]string{}, Log: w.log}
	for kind, keys := range w.dirty {
		for key := range keys {
			row := w.row(kind, key)
			if row == nil {
				u.Del[kind] = append(u.Del[kind], key)
				continue
			}
			if u.Set[kind] == nil {
				u.Set[kind] = make(map[string]any, len(keys))
			}
			u.Set[kind][key] = row
		}
	}
	w.log = nil
	clear(w.dirty)
	return now, u
}
