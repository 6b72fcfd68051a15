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

// ErrEnded is wrapped in the error that Follow returns when the sandbox stops.
var ErrEnded = errors.New("the sandbox has stopped")

// Source reports the events of bases, components, faults and requests. control.Client implements it.
type Source interface {
	Watch(ctx context.Context, r control.WatchRequest, sink func(events.Event)) error
}

// Options are the options of Follow.
type Options struct {
	// Source reports all events except Pod events. Required.
	Source Source
	// API is the API server client that is used to watch Pods. Default: Follow reports no Pod events.
	API kubernetes.Interface
	// Group restricts the events to the bases of a group and to the Pods in the namespace with the same name.
	// Default: all groups and namespaces.
	Group string
	// Clock provides the time of Pod events. Default: the real clock.
	Clock clock.PassiveClock
}

// Follow calls sink for each event, one call at a time. It first reports the current state, then Synced, then
// changes. It blocks until ctx ends, the sandbox stops, or sink fails. In these cases, Follow returns the cause of
// ctx, an error that wraps ErrEnded, or the error of sink, respectively.
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

// follower merges the events of the daemon and of the API server.
type follower struct {
	o      Options
	stop   context.CancelCauseFunc
	synced chan struct{} // closed when all existing bases are known

	mu    sync.Mutex
	sink  func(events.Event) error
	state events.State
}

// event handles an event from the daemon.
func (f *follower) event(e events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Synced {
		close(f.synced)
	}
	f.emit(e)
}

// emit applies an event to the state and calls the sink with the event. The caller must hold f.mu.
func (f *follower) emit(e events.Event) {
	f.state.Apply(e)
	if err := f.sink(e); err != nil {
		f.stop(err)
	}
}
