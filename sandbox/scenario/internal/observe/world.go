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

// Options of a World.
type Options struct {
	// Client reads the API. Required for Follow.
	Client dynamic.Interface
	// Namespace and Group of the run. Required.
	Namespace, Group string
	// LastWrite returns the version of the last write to the API, of any object: the resource version of a list. It is
	// called every 200 ms, and must return when its context ends. Default: events have the time at which a watch
	// delivers them.
	LastWrite func(context.Context) (uint64, error)
	// Now returns the time. Default: time.Now.
	Now func() time.Time
	// Logger for watches that break. Default: nothing is logged.
	Logger *slog.Logger
}

// Recorder is what has been seen of a run. Its methods may be called concurrently.
type Recorder struct {
	o Options

	mu              sync.Mutex
	events          []events.Event
	tables          map[Subject]*table
	state           events.State
	versions        map[string]string // of bases, as the daemon says
	traffic         map[string]traffic.Summary
	cached          map[string]any // what expressions see, by name, until it changes
	watchers        []*watcher
	change          chan struct{}           // closed at the next change
	pendingSwitches map[string]events.Event // halves of switches, by base
	marks           []writeMark
	lastOf          map[schema.GroupVersionResource]time.Time // of the last event
	lag             time.Duration                             // the greatest so far
	synced          bool                                      // the daemon has told what was
	startReflector  func(*cache.Reflector)                    // nil while Start does not run
	unstarted       []*cache.Reflector                        // for Start
}

type watcher struct{ changed func(Update) }

// Update is one thing that has changed. It is valid during the call only.
type Update struct {
	Snapshot
	// Topic is the name by which expressions know what has changed: pods, bases, traffic and so on;
	// empty for kinds that expressions do not see.
	Topic string
	// Description describes it for people.
	Description string
}

// Snapshot reads a World that is locked. It is valid during the call only that it is given to.
type Snapshot struct{ w *Recorder }

// New returns a World that has seen nothing.
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

// Start follows what Follow has been called for, and will be, until ctx ends. It returns nil when
// all watches have ended; it can be called once.
func (w *Recorder) Start(ctx context.Context) error {
	var following sync.WaitGroup
	w.mu.Lock()
	w.startReflector = func(r *cache.Reflector) { following.Go(func() { r.RunWithContext(ctx) }) }
	for _, r := range w.unstarted {
		w.startReflector(r)
	}
	w.mu.Unlock()
	if w.o.LastWrite != nil {
		following.Go(func() { w.markWrites(ctx) })
	}
	<-ctx.Done()
	w.mu.Lock()
	w.startReflector = nil
	w.mu.Unlock()
	following.Wait()
	return nil
}

// AddEvent adds an event of the daemon or of the run itself.
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

// announce reports an applied event. w.mu is held.
func (w *Recorder) announce(e events.Event) {
	switch {
	case e.Step != nil: // changes nothing itself
	case e.Base != nil, e.Module != nil:
		w.notifyWatchers(topicBases, e.String())
	case e.Request != nil:
		w.notifyWatchers(topicTraffic, e.String())
	default:
		w.notifyWatchers("", e.String())
	}
}

// apply records an event and adds it to the state. w.mu is held.
func (w *Recorder) apply(e events.Event) {
	if e.Time.IsZero() {
		e.Time = w.o.Now()
	}
	w.events = append(w.events, e)
	w.state.Apply(e)
}

// notifyWatchers calls watchers and wakes Until. w.mu is held.
func (w *Recorder) notifyWatchers(topic, what string) {
	delete(w.cached, topic)
	for _, x := range slices.Clone(w.watchers) {
		x.changed(Update{Snapshot{w}, topic, what})
	}
	close(w.change)
	w.change = make(chan struct{})
}

// Watch calls changed at every change until stop is called, one at a time, in order, and with the World locked. The first call
// is for the present state.
func (w *Recorder) Watch(changed func(Update)) (stop func()) {
	x := &watcher{changed}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers = append(w.watchers, x)
	changed(Update{Snapshot{w}, "", "the beginning"})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers = slices.DeleteFunc(w.watchers, func(y *watcher) bool { return x == y })
	}
}

// WaitUntil calls done for the present state, and again after changes, until it returns true or an error, or ctx ends: then Until
// returns the cause of that. It may skip changes that are followed by others.
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

// Read calls with for the present state.
func (w *Recorder) Read(with func(Snapshot)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	with(Snapshot{w})
}

// Events returns everything that was seen so far, in order.
func (w *Recorder) Events() []events.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}
