package observe

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// Options configures a Recorder.
type Options struct {
	// Client accesses the API. Required for Follow.
	Client dynamic.Interface
	// Namespace is the namespace of the run. Group is the group of bases of the run. Both are required.
	Namespace, Group string
	// LastWrite returns the resource version of the last write to any object of the API. The Recorder calls it every
	// LastWriteInterval to measure when objects were written. It must return when its context ends. If LastWrite is
	// nil, the Recorder records each event with the time at which the watch delivers it.
	LastWrite func(context.Context) (uint64, error)
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// Logger logs objects that cannot be decoded. Default: nothing is logged.
	Logger *slog.Logger
}

// Recorder records the events of a run. Its methods may be called concurrently.
type Recorder struct {
	o Options

	mu              sync.Mutex
	events          []events.Event
	tables          map[Subject]*table
	state           events.State
	versions        map[string]string // versions that the daemon reports for bases
	traffic         map[string]traffic.Summary
	cached          map[string]any // cached data for expressions, by name; removed when the data change
	watchers        []*watcher
	change          chan struct{}           // closed at the next change of the state
	pendingSwitches map[string]events.Event // first events of version switches that are held back, by base
	marks           []writeMark
	lastOf          map[schema.GroupVersionResource]time.Time // time of the last event, by resource
	lag             time.Duration                             // longest lag so far
	synced          bool                                      // true after the daemon has sent its initial state
	startReflector  func(*cache.Reflector)                    // starts a reflector; nil unless Start is running
	unstarted       []*cache.Reflector                        // reflectors that Start will start
}

type watcher struct{ changed func(Update) }

// Update is a change of the recorded state. It is valid only during the call that receives it.
type Update struct {
	Snapshot
	// Topic is the name by which expressions use the changed data, such as pods, bases or traffic; empty if
	// expressions cannot use the data.
	Topic string
	// Description describes the change for users.
	Description string
}

// Snapshot gives access to the state of a Recorder that is locked. It is valid only during the call that receives it.
type Snapshot struct{ w *Recorder }

// New returns a Recorder without events.
func New(o Options) *Recorder {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Recorder{
		o: o, tables: map[Subject]*table{}, lastOf: map[schema.GroupVersionResource]time.Time{},
		versions: map[string]string{}, traffic: map[string]traffic.Summary{},
		cached: map[string]any{}, change: make(chan struct{}), pendingSwitches: map[string]events.Event{},
	}
}

// Start runs the watches that Follow has requested until ctx ends. It returns nil when all watches have ended. Call
// it once.
func (w *Recorder) Start(ctx context.Context) error {
	var watches sync.WaitGroup
	w.mu.Lock()
	w.startReflector = func(r *cache.Reflector) { watches.Go(func() { r.RunWithContext(ctx) }) }
	for _, r := range w.unstarted {
		w.startReflector(r)
	}
	w.mu.Unlock()
	if w.o.LastWrite != nil {
		watches.Go(func() { w.markWrites(ctx) })
	}
	<-ctx.Done()
	w.mu.Lock()
	w.startReflector = nil
	w.mu.Unlock()
	watches.Wait()
	return nil
}

// AddEvent records an event of the daemon or of the run itself.
func (w *Recorder) AddEvent(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Synced {
		w.synced = true
		return
	}
	if w.synced && !e.Time.IsZero() {
		w.lag = max(w.lag, w.o.Now().Sub(e.Time))
	}
	if w.holdSwitch(e) {
		return
	}
	w.apply(e)
	w.announce(e)
}

// announce notifies the watchers about an event that was already applied to the state. w.mu must be held.
func (w *Recorder) announce(e events.Event) {
	switch {
	case e.Step != nil: // a step event does not change the state
	case e.Base != nil, e.Health != nil, e.Module != nil:
		w.notifyWatchers(topicBases, e.String())
	case e.Request != nil:
		w.notifyWatchers(topicTraffic, e.String())
	default:
		w.notifyWatchers("", e.String())
	}
}

// apply records an event and applies it to the state. w.mu must be held.
func (w *Recorder) apply(e events.Event) {
	if e.Time.IsZero() {
		e.Time = w.o.Now()
	}
	w.events = append(w.events, e)
	w.state.Apply(e)
}

// notifyWatchers calls the watchers, and lets each WaitUntil evaluate the new state. w.mu must be held.
func (w *Recorder) notifyWatchers(topic, what string) {
	delete(w.cached, topic)
	for _, x := range slices.Clone(w.watchers) {
		x.changed(Update{Snapshot{w}, topic, what})
	}
	close(w.change)
	w.change = make(chan struct{})
}

// Watch calls changed for the current state, and then after each change until stop is called. The calls are
// sequential and in the order of the changes. The Recorder is locked during each call.
func (w *Recorder) Watch(changed func(Update)) (stop func()) {
	x := &watcher{changed}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers = append(w.watchers, x)
	changed(Update{Snapshot{w}, "", "initial state"})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers = slices.DeleteFunc(w.watchers, func(y *watcher) bool { return x == y })
	}
}

// WaitUntil calls done with the current state, and again after changes, until done returns true or an error. If ctx
// ends first, WaitUntil returns the cancellation cause of ctx. WaitUntil may skip intermediate states.
func (w *Recorder) WaitUntil(ctx context.Context, done func(Snapshot) (bool, error)) error {
	for {
		w.mu.Lock()
		ok, err := done(Snapshot{w})
		change := w.change
		w.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Read calls with with a Snapshot of the current state. The Recorder is locked during the call.
func (w *Recorder) Read(with func(Snapshot)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	with(Snapshot{w})
}

// Events returns all events that were recorded so far, in order.
func (w *Recorder) Events() []events.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}
