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

// findEvery is the interval of checks for findings.
const findEvery = time.Second

// boardState is the current state. Sources add events to it, and flush returns the rows that have changed. Its
// methods may be called concurrently.
type boardState struct {
	changed chan struct{} // has one element if flush has changes to return

	mu    sync.Mutex
	now   time.Time // time of the latest event
	state events.State
	dirty map[string]map[string]bool // keys of rows that have changed, by kind
	log   []any
	logs  int64 // number of log entries
	// synced reports whether new events are changes, which the log shows.
	synced bool
	found  time.Time // time of the last check for findings

	// noDaemon reports whether there is no daemon, so that bases are derived from Nodes and Pods.
	noDaemon bool
	// namespace of a run, whose bases have no Nodes here and whose Pods have no namespace; empty = this is not a run.
	namespace string

	// State that events.State does not contain:
	board     BoardRow
	nodes     map[string]node // by base
	pods      map[string]pod  // by UID
	workloads map[string]WorkloadRow
	revisions map[string]RevisionRow
	processes map[string]ComponentRow // of the components of a sandbox
	leases    map[string]time.Time    // expiry of the Leases of controllers, by holder
	streams   map[string]streamStats
	uses      map[string]*use // of bases
	findings  map[string]*finding
	notices   map[string]NoticeRow
}

func newBoardState(b BoardRow) *boardState {
	w := &boardState{
		changed: make(chan struct{}, 1), dirty: map[string]map[string]bool{}, board: b, nodes: map[string]node{},
		pods:      map[string]pod{},
		workloads: map[string]WorkloadRow{}, revisions: map[string]RevisionRow{}, processes: map[string]ComponentRow{},
		leases:  map[string]time.Time{},
		streams: map[string]streamStats{}, uses: map[string]*use{}, findings: map[string]*finding{},
		notices: map[string]NoticeRow{},
	}
	w.mark(kindBoard, kindBoard)
	return w
}

// mark records that a row has changed. w.mu is held.
func (w *boardState) mark(kind, key string) {
	if key == "" {
		return
	}
	if w.dirty[kind] == nil {
		w.dirty[kind] = map[string]bool{}
	}
	w.dirty[kind][key] = true
	w.signalChange()
}

// signalChange notifies the publisher.
func (w *boardState) signalChange() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// appendLog adds an entry to the log. w.mu is held.
func (w *boardState) appendLog(e LogEntry) {
	w.logs++
	e.ID = w.logs
	w.log = append(w.log, e)
	w.signalChange()
}

// record is appendLog for callers that do not hold w.mu.
func (w *boardState) record(e LogEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appendLog(e)
}

// addEvent adds an event.
func (w *boardState) addEvent(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apply(e)
}

// apply adds an event to the state. w.mu is held.
func (w *boardState) apply(e events.Event) {
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
	w.markChanged(e, before)
	if w.synced {
		w.logEvent(e)
	}
}

// endInitialEvents ends the initial events. The log shows only later events.
func (w *boardState) endInitialEvents() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	w.signalChange()
}

// markChanged marks the rows that an event changes. w.mu is held.
func (w *boardState) markChanged(e events.Event, before *events.PodStatus) {
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
func (w *boardState) notice(about, text string, now time.Time) {
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

// flush returns the changes since the previous flush, and their time.
func (w *boardState) flush(now time.Time) (time.Time, feed.Update) {
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
