package board

import (
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
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
	state timeline.State
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

// note takes an event of a timeline.
func (w *world) note(e timeline.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apply(e)
}

// apply makes an event a part of what is. w.mu is held.
func (w *world) apply(e timeline.Event) {
	if e.Time.After(w.now) {
		w.now = e.Time
	}
	if e.Kind == timeline.Synced {
		w.state.Apply(e)
		for _, name := range w.state.Bases.Names() {
			w.mark(kindBase, name)
		}
		return
	}
	var before *timeline.PodStatus
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
func (w *world) touch(e timeline.Event, before *timeline.PodStatus) {
	switch e.Kind {
	case timeline.Base, timeline.Module:
		if change := timeline.BaseChange(e.State); e.Kind == timeline.Base && change == timeline.BaseUp {
			w.started[e.Base] = millis(e.Time)
			delete(w.uses, e.Base)
		}
		w.mark(kindBase, e.Base)
	case timeline.Node:
		if e.Base != "" && e.State != "" {
			w.nodeOf[e.Base] = e.Name
		}
		w.mark(kindBase, e.Base)
	case timeline.Pod:
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
	case timeline.Endpoints:
		w.mark(kindService, e.Name)
	case timeline.Component:
		w.mark(kindComponent, e.Name)
	case timeline.Fault:
		w.faultChanged(e)
	case timeline.Step:
		w.stepChanged(e)
	}
}

func (w *world) faultChanged(e timeline.Event) {
	key := e.FaultKey()
	switch timeline.FaultChange(e.State) {
	case timeline.FaultFired:
		w.fired[key]++
	case timeline.FaultSet:
		delete(w.fired, key)
	}
	w.mark(kindFault, key)
	if e.Base != "" {
		w.mark(kindBase, e.Base)
	}
}

// stepBegan is the state of a step that goes on.
const stepBegan = "began"

// stepChanged follows the steps of a scenario, which the State has not either.
func (w *world) stepChanged(e timeline.Event) {
	if e.State == stepBegan {
		n := len(w.steps) + 1
		key := itoa(n)
		w.stepKeys[e.Name] = key
		w.steps[key] = StepRow{Number: n, Name: e.Name, State: e.State, From: millis(e.Time), Message: e.Message}
		w.mark(kindStep, key)
		return
	}
	key, goesOn := w.stepKeys[e.Name]
	if !goesOn { // a step that was skipped never began
		key = itoa(len(w.steps) + 1)
		w.steps[key] = StepRow{Number: len(w.steps) + 1, Name: e.Name, From: millis(e.Time)}
	}
	delete(w.stepKeys, e.Name)
	s := w.steps[key]
	s.State, s.To, s.Message = e.State, millis(e.Time), e.Message
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
