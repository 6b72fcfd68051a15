package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// ErrEnded is returned, wrapped, when the sandbox stops.
var ErrEnded = errors.New("the sandbox has stopped")

// Source reports the events of bases, components, faults and requests. control.Client implements it.
type Source interface {
	Watch(ctx context.Context, r control.WatchRequest, sink func(events.Event)) error
}

// Options of Follow.
type Options struct {
	// Source reports all events except for events of Pods. Required.
	Source Source
	// API is the client of the API server, for events of Pods. Default: Pods are not followed.
	API kubernetes.Interface
	// Group is the group of the followed bases and the namespace of the followed Pods. Default: all.
	Group string
	// Clock is the source of the time of Pod events. Default: the real clock.
	Clock clock.PassiveClock
}

// Follow calls sink for each event, one call at a time: first for the current state, then for Synced, then for
// changes. It blocks until ctx ends, and returns its cause; until the sandbox stops, and returns ErrEnded, wrapped;
// or until sink fails, and returns its error.
func Follow(ctx context.Context, o Options, sink func(events.Event) error) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	group, ctx := errgroup.WithContext(ctx)
	f := &follower{o: o, sink: sink, synced: make(chan struct{})}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f.stop = stop
	group.Go(func() error {
		err := o.Source.Watch(ctx, control.WatchRequest{Group: o.Group}, f.event)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return fmt.Errorf("watching: %w", ErrEnded)
		default:
			return fmt.Errorf("watching: %w", err)
		}
	})
	if o.API != nil {
		group.Go(func() error { return f.pods(ctx) })
	}
	return group.Wait()
}

// follower merges the events of the two sources.
type follower struct {
	o      Options
	stop   context.CancelCauseFunc
	synced chan struct{} // closed when the existing bases are known

	mu    sync.Mutex
	sink  func(events.Event) error
	state events.State
}

// event handles an event of the daemon.
func (f *follower) event(e events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Synced {
		close(f.synced)
	}
	f.emit(e)
}

// emit applies an event to the state and calls the sink. The caller must hold f.mu.
func (f *follower) emit(e events.Event) {
	f.state.Apply(e)
	if err := f.sink(e); err != nil {
		f.stop(err)
	}
}
