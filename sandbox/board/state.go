package board

import (
	"strconv"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// The kinds of rows. Each kind is the JSON name of a field of Tables.
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

// findingsInterval is the interval at which the board runs the checks for findings.
const findingsInterval = time.Second

// boardState holds the current state of the board. Sources add events to it, and flush returns the rows that have
// changed. Its methods are safe for concurrent use.
type boardState struct {
	changed chan struct{} // capacity 1; contains an element if rows have changed since the last flush

	mu    sync.Mutex
	now   time.Time // time of the latest event
	state events.State
	dirty map[string]map[string]bool // keys of the rows that have changed, by kind
	log   []any
	logs  int64 // number of log entries so far
	// synced reports whether all initial events have been received. Only later events are logged.
	synced bool
	found  time.Time // time of the last check for findings
	// flushed is the time of the last flush.
	flushed time.Time

	// noDaemon reports whether the board has no daemon and no recorded run. The state of bases is then derived from
	// Nodes and Pods.
	noDaemon bool
	// namespace is the namespace of the recorded run, because recorded Pods have no namespace; empty if the board does
	// not show a recorded run.
	namespace string

	// The following fields hold state that events.State does not contain.
	board     BoardRow
	nodes     map[string]node // by base name
	pods      map[string]pod  // by UID
	workloads map[string]WorkloadRow
	revisions map[string]RevisionRow
	processes map[string]ComponentRow // sandbox components by name
	leases    map[string]time.Time    // expiry times of controller Leases, by holder
	streams   map[string]streamStats
	uses      map[string]*processUsage // metaspace history by base name
	findings  map[string]*finding
	notices   map[string]NoticeRow
}

func newBoardState(b BoardRow) *boardState {
	w := &boardState{
		changed: make(chan struct{}, 1), dirty: map[string]map[string]bool{}, board: b, nodes: map[string]node{},
		pods:      map[string]pod{},
		workloads: map[string]WorkloadRow{}, revisions: map[string]RevisionRow{}, processes: map[string]ComponentRow{},
		leases:  map[string]time.Time{},
		streams: map[string]streamStats{}, uses: map[string]*processUsage{}, findings: map[string]*finding{},
		notices: map[string]NoticeRow{},
	}
	w.mark(kindBoard, kindBoard)
	return w
}

// mark records that a row has changed, so that the next flush returns it. The caller must hold w.mu.
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

// signalChange notifies publish that there are changes.
func (w *boardState) signalChange() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// appendLog adds an entry to the log. The caller must hold w.mu.
func (w *boardState) appendLog(e LogEntry) {
	w.logs++
	e.ID = w.logs
	w.log = append(w.log, e)
	w.signalChange()
}

// record adds an entry to the log, like appendLog. The caller must not hold w.mu.
func (w *boardState) record(e LogEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appendLog(e)
}

// addEvent adds an event to the state, like apply. The caller must not hold w.mu.
func (w *boardState) addEvent(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apply(e)
}

// apply adds an event to the state. The caller must hold w.mu.
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

// endInitialEvents marks the end of the initial events. Only later events are logged.
func (w *boardState) endInitialEvents() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	w.signalChange()
}

// markChanged marks the rows that an event has changed. before is the previous state of the event's Pod, or nil. The
// caller must hold w.mu.
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

// notice sets the notice about a subject. An empty text removes the notice.
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

// flush returns the changes since the previous flush, and the time to send with them. It also updates the findings at
// most once per findingsInterval.
func (w *boardState) flush(now time.Time) (time.Time, feed.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed = now
	if now.Sub(w.found) >= findingsInterval {
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
