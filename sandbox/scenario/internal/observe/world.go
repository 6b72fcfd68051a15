package observe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
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
	// Now tells the time. Default: time.Now.
	Now func() time.Time
	// Logger for watches that break. Default: nothing is logged.
	Logger *slog.Logger
}

// World is what has been seen of a run. Its methods may be called concurrently.
type World struct {
	o Options

	mu       sync.Mutex
	events   []timeline.Event
	tables   map[Subject]*table
	state    timeline.State
	versions map[string]string // of bases, as the daemon says
	traffic  map[string]traffic.Summary
	cached   map[string]any // what expressions see, by name, until it changes
	watchers []*watcher
	change   chan struct{}             // closed at the next change
	held     map[string]timeline.Event // halves of switches, by base
	marks    []mark
	lastOf   map[schema.GroupVersionResource]time.Time // of the last event
	lag      time.Duration                             // the greatest so far
	synced   bool                                      // the daemon has told what was
	launch   func(*cache.Reflector)                    // nil while Start does not run
	waiting  []*cache.Reflector                        // for Start
}

type watcher struct{ changed func(Change) }

// Change is one thing that has changed. It is valid during the call only.
type Change struct {
	View
	// Topic is the name by which expressions know what has changed: pods, bases, traffic and so on;
	// empty for kinds that expressions do not see.
	Topic string
	// What describes it for people.
	What string
}

// View reads a World that is locked. It is valid during the call only that it is given to.
type View struct{ w *World }

// New returns a World that has seen nothing.
func New(o Options) *World {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &World{
		o: o, tables: map[Subject]*table{}, lastOf: map[schema.GroupVersionResource]time.Time{}, versions: map[string]string{}, traffic: map[string]traffic.Summary{},
		cached: map[string]any{}, change: make(chan struct{}), held: map[string]timeline.Event{},
	}
}

// Start follows what Follow has been called for, and will be, until ctx ends. It returns nil when
// all watches have ended; it can be called once.
func (w *World) Start(ctx context.Context) error {
	var following sync.WaitGroup
	w.mu.Lock()
	w.launch = func(r *cache.Reflector) { following.Go(func() { r.RunWithContext(ctx) }) }
	for _, r := range w.waiting {
		w.launch(r)
	}
	w.mu.Unlock()
	if w.o.LastWrite != nil {
		following.Go(func() { w.markWrites(ctx) })
	}
	<-ctx.Done()
	w.mu.Lock()
	w.launch = nil
	w.mu.Unlock()
	following.Wait()
	return nil
}

// Note takes an event of the daemon or of the run itself.
func (w *World) Note(e timeline.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == timeline.Synced {
		w.synced = true
		return
	}
	if w.synced && !e.Time.IsZero() {
		w.lag = max(w.lag, w.o.Now().Sub(e.Time))
	}
	if w.hold(e) {
		return
	}
	w.apply(e)
	w.announce(e)
}

// announce tells of an event that has been applied. w.mu is held.
func (w *World) announce(e timeline.Event) {
	switch e.Kind {
	case timeline.Step: // changes nothing itself
	case timeline.Base, timeline.Module:
		w.changed(topicBases, Describe(e))
	case timeline.Request:
		w.changed(topicTraffic, Describe(e))
	default:
		w.changed("", Describe(e))
	}
}

// apply makes an event a part of the recording and of what is. w.mu is held.
func (w *World) apply(e timeline.Event) {
	if e.Time.IsZero() {
		e.Time = w.o.Now()
	}
	w.events = append(w.events, e)
	w.state.Apply(e)
}

// changed tells watchers and those who wait. w.mu is held.
func (w *World) changed(topic, what string) {
	delete(w.cached, topic)
	for _, x := range slices.Clone(w.watchers) {
		x.changed(Change{View{w}, topic, what})
	}
	close(w.change)
	w.change = make(chan struct{})
}

// Watch calls changed at every change from now on, one at a time, in order and with the World
// locked, until stop is called. It is called once at the beginning, for what is.
func (w *World) Watch(changed func(Change)) (stop func()) {
	x := &watcher{changed}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers = append(w.watchers, x)
	changed(Change{View{w}, "", "the beginning"})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers = slices.DeleteFunc(w.watchers, func(y *watcher) bool { return x == y })
	}
}

// Until calls done for what is, and again when something has changed, until it returns true or an
// error, or ctx ends: then Until returns the cause of that. It may skip changes that were followed
// by others at once, and looks no more often than takes a tenth of the time: nothing else is taken in
// meanwhile, and a look at ten thousand Nodes for each change of one of them would be all that is done.
func (w *World) Until(ctx context.Context, done func(View) (bool, error)) error {
	for {
		w.mu.Lock()
		began := time.Now()
		ok, err := done(View{w})
		rested := time.After(restFor * time.Since(began))
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
		select {
		case <-rested:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// restFor is how many times as long as a look of Until took it rests after that.
const restFor = 9

// Look calls with what is.
func (w *World) Look(with func(View)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	with(View{w})
}

// Events returns everything that was seen so far, in order.
func (w *World) Events() []timeline.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// Describe tells an event in one line.
func Describe(e timeline.Event) string {
	subject := string(e.Kind)
	switch e.Kind {
	case timeline.Base:
		subject = "base " + e.Base
	case timeline.Module:
		subject = fmt.Sprintf("module %s:%s on %s", e.Module, e.Version, e.Base)
	case timeline.Command:
		of := ""
		if e.Module != "" {
			of = fmt.Sprintf(" of %s:%s", e.Module, e.Version)
		}
		subject = e.Name + of + " on " + e.Base
	case timeline.Pod:
		return describePod(e)
	case timeline.Endpoints:
		return fmt.Sprintf("Service %s has %d endpoints, %d of them ready", e.Name, len(e.Endpoints), e.ReadyEndpoints())
	case timeline.Node:
		subject = "Node of " + e.Base
	case timeline.Component, timeline.Fault, timeline.Step, timeline.API, timeline.MQTT:
		subject += " " + e.Name
	case timeline.Request:
		subject = fmt.Sprintf("a request of %s to %s", e.Name, e.Base)
	}
	state := cmp.Or(e.State, "gone")
	if e.Kind == timeline.Command {
		state = cmp.Or(e.Code, "ok")
	}
	return timeline.Join(": ", subject, state, e.Message)
}

func describePod(e timeline.Event) string {
	p := e.Pod
	state := p.Phase
	switch {
	case p.Gone:
		state = "gone"
	case p.Deleting && p.Ready:
		state = "Ready, being deleted"
	case p.Deleting:
		state = "not Ready, being deleted"
	case p.Ready:
		state = "Ready"
	case p.Reason != "":
		state += ", " + p.Reason
	}
	on := ""
	if e.Base != "" {
		on = " on " + e.Base
	}
	return fmt.Sprintf("Pod %s%s: %s", p.Name, on, state)
}
