package agent

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// look is how often a source is asked that does not say when something has changed.
const look = time.Second

// Source returns what a stream may pick from now, and a channel that is closed at the next change. The channel
// is nil if the source does not report changes. A Source does not block.
type Source func() (traffic.TargetSet, <-chan struct{})

func equal(a, b traffic.TargetSet) bool {
	return slices.Equal(a.Targets, b.Targets) && a.Affinity == b.Affinity && a.EmptyReason == b.EmptyReason
}

// telling keeps an agent informed of what one of its streams may pick from.
type telling struct {
	on     *session
	of     streamRequest
	source Source
	known  traffic.TargetSet // to the agent
	asked  chan chan struct{}

	done chan struct{} // closed when nothing more is told
	once sync.Once
}

func newTelling(on *session, of streamRequest, source Source) *telling {
	return &telling{on: on, of: of, source: source, asked: make(chan chan struct{}), done: make(chan struct{})}
}

// first is what the agent is told when the stream begins.
func (t *telling) first() traffic.TargetSet {
	t.known, _ = t.source()
	return t.known
}

// run tells every change, until stop, the end of ctx or of the agent.
func (t *telling) run(ctx context.Context, log *slog.Logger) {
	defer t.stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	var waiting chan struct{} // closed when all of now has been told; nil = nobody waits
	for {
		is, change := t.source()
		if !equal(t.known, is) {
			if _, err := ask(ctx, t.on, tell, tellRequest{t.of, is}); err != nil {
				if ctx.Err() == nil && t.on.ended() == nil {
					log.Error("the traffic agent cannot be told what a stream may pick from", "group", t.of.Group,
						"stream", t.of.Name, "err", err)
				}
				return
			}
			t.known = is
		}
		if waiting != nil {
			close(waiting)
			waiting = nil
		}
		select {
		case <-change:
		case <-tick.C:
		case waiting = <-t.asked:
		case <-t.done:
			return
		case <-t.on.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// wait blocks until the agent knows what there is now, or nothing more is told, or ctx ends.
func (t *telling) wait(ctx context.Context) {
	known := make(chan struct{})
	select {
	case t.asked <- known:
	case <-t.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-known:
	case <-t.done:
	case <-ctx.Done():
	}
}

// stop ends run; nil is fine.
func (t *telling) stop() {
	if t != nil {
		t.once.Do(func() { close(t.done) })
	}
}
