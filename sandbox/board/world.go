package board

import (
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

// findEvery is how often the whole is looked at for findings: it costs a look at every base.
const findEvery = time.Second

// world is what is seen, before it becomes rows. Sources tell it, flush takes what has changed. Its
// methods may be called concurrently.
type world struct {
	changed chan struct{} // has one element when flush has something to do

	mu    sync.Mutex
	now   time.Time // of what was told last
	state events.State
	dirty map[string]map[string]bool // keys of rows that are to be written anew, by kind
	log   []any
	logs  int64 // entries so far
	// synced tells that what is told now are changes, which the log shows.
	synced bool
	found  time.Time // when findings were looked for last

	// alone tells that no daemon tells of bases, so that Nodes and Pods are all that is known of them.
	alone bool
	// namespace of a run, whose bases have no Nodes here and whose Pods say no namespace; empty = this
	// is no run.
	namespace string
	board     BoardRow
	nodes     map[string]node // by name
	nodeOf    map[string]string
	pods      map[string]pod // by UID
	podsOn    map[string]map[string]bool
	workloads map[string]WorkloadRow
	revisions map[string]RevisionRow
	processes map[string]ComponentRow // what is known beside events
	leases    map[string]lease        // of the controllers of a cluster, by their holders
	streams   map[string]StreamRow
	looks     map[string]look // at streams
	steps     map[string]StepRow
	stepKeys  map[string]string // of steps that go on, by name
	fired     map[string]int    // by the key of a fault
	started   map[string]int64  // of bases
	uses      map[string]*use   // of bases
	findings  map[string]FindingRow
	pending   map[string]int64 // since when it would be a finding, by key
	notices   map[string]NoticeRow
}

func newWorld(b BoardRow) *world {
	w := &world{
		changed: make(chan struct{}, 1), dirty: map[string]map[string]bool{}, board: b,
		nodes: map[string]node{}, nodeOf: map[string]string{}, pods: map[string]pod{}, podsOn: map[string]map[string]bool{},
		workloads: map[string]WorkloadRow{}, revisions: map[string]RevisionRow{}, processes: map[string]ComponentRow{}, leases: map[string]lease{},
		streams: map[string]StreamRow{}, looks: map[string]look{}, steps: map[string]StepRow{}, stepKeys: map[string]string{}, fired: map[string]int{},
		started: map[string]int64{}, uses: map[string]*use{}, findings: map[string]FindingRow{},
		pending: map[string]int64{}, notices: map[string]NoticeRow{},
	}
	w.mark(kindBoard, kindBoard)
	return w
}

// mark notes that a row is to be written anew. w.mu is held.
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

// kick tells whoever flushes that there is something to do.
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

// apply makes an event a part of what is. w.mu is held.
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

// settle notes that what is told from now on are changes, which the log shows.
func (w *world) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	w.kick()
}

// touch marks the rows that an event changes. w.mu is held.
func (w *world) touch(e events.Event, before *events.PodStatus) {
	switch {
	case e.Base != nil:
		if e.Base.Change == events.BaseUp {
			w.started[e.Base.Base] = millis(e.Time)
			delete(w.uses, e.Base.Base)
		}
		w.mark(kindBase, e.Base.Base)
	case e.Module != nil:
		w.mark(kindBase, e.Module.Base)
	case e.Node != nil:
		if e.Node.Base != "" && e.Node.State != "" {
			w.nodeOf[e.Node.Base] = e.Node.Name
		}
		w.mark(kindBase, e.Node.Base)
	case e.Pod != nil:
		if before != nil && before.Base != "" {
			delete(w.podsOn[before.Base], before.PodKey())
			w.mark(kindBase, before.Base)
		}
		key := e.Pod.PodKey()
		if now := w.state.Pods.Get(key); now != nil && now.Base != "" {
			if w.podsOn[now.Base] == nil {
				w.podsOn[now.Base] = map[string]bool{}
			}
			w.podsOn[now.Base][key] = true
			w.mark(kindBase, now.Base)
		}
		w.mark(kindPod, key)
	case e.Endpoints != nil:
		w.mark(kindService, e.Endpoints.Service)
	case e.Component != nil:
		w.mark(kindComponent, e.Component.Name)
	case e.Fault != nil:
		w.faultChanged(e.Fault)
	case e.Step != nil:
		w.stepChanged(e.Step, e.Time)
	}
}

func (w *world) faultChanged(e *events.FaultEvent) {
	key := e.Key()
	switch e.Change {
	case events.FaultFired:
		w.fired[key]++
	case events.FaultSet:
		delete(w.fired, key)
	case events.FaultCleared:
	}
	w.mark(kindFault, key)
	if e.Base != "" {
		w.mark(kindBase, e.Base)
	}
}

// stepChanged follows the steps of a scenario, which the State has not either.
func (w *world) stepChanged(e *events.StepEvent, now time.Time) {
	if e.State == events.StepBegan {
		n := len(w.steps) + 1
		key := itoa(n)
		w.stepKeys[e.Name] = key
		w.steps[key] = StepRow{Number: n, Name: e.Name, State: e.State, From: millis(now), Message: e.Message}
		w.mark(kindStep, key)
		return
	}
	key, goesOn := w.stepKeys[e.Name]
	if !goesOn { // a step that was skipped never began
		key = itoa(len(w.steps) + 1)
		w.steps[key] = StepRow{Number: len(w.steps) + 1, Name: e.Name, From: millis(now)}
	}
	delete(w.stepKeys, e.Name)
	s := w.steps[key]
	s.State, s.To, s.Message = e.State, millis(now), e.Message
	w.steps[key] = s
	w.mark(kindStep, key)
}

// notice says that something cannot be seen; an empty text, that it can.
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
