package agent

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// pollInterval is the interval between calls of a Source that does not report changes.
const pollInterval = time.Second

// Source returns the current targets of a stream, and a channel that is closed when the targets change. The channel
// is nil if the Source does not report changes. A Source must not block.
type Source func() (traffic.TargetSet, <-chan struct{})

func equal(a, b traffic.TargetSet) bool {
	return slices.Equal(a.Targets, b.Targets) && a.Affinity == b.Affinity && a.EmptyReason == b.EmptyReason
}

// targetSync keeps the targets of one stream in the agent up to date. The agent does not watch the API server itself:
// it would need permissions in the user's cluster, and its order of changes would differ from that of the daemon.
type targetSync struct {
	session *session
	id      streamRequest
	source  Source
	sent    traffic.TargetSet  // targets that the agent has received
	waiters chan chan struct{} // receives channels to close when the agent has received the current targets

	done chan struct{} // closed when stop is called or run has returned
	once sync.Once
}

func newTargetSync(s *session, id streamRequest, source Source) *targetSync {
	return &targetSync{session: s, id: id, source: source, waiters: make(chan chan struct{}), done: make(chan struct{})}
}

// initialTargets returns the targets for the start of the stream.
func (t *targetSync) initialTargets() traffic.TargetSet {
	t.sent, _ = t.source()
	return t.sent
}

// run sends the targets to the agent whenever they change. It blocks until stop is called, ctx ends, or the agent
// exits.
func (t *targetSync) run(ctx context.Context, log *slog.Logger) {
	defer t.stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var waiting chan struct{} // of the current call of wait; nil = none
	for {
		is, change := t.source()
		if !equal(t.sent, is) {
			if _, err := ask(ctx, t.session, setTargets, setTargetsRequest{t.id, is}); err != nil {
				if ctx.Err() == nil && t.session.endErr() == nil {
					log.Error("could not update the targets of a stream in the traffic agent", "group", t.id.Group,
						"stream", t.id.Name, "err", err)
				}
				return
			}
			t.sent = is
		}
		if waiting != nil {
			close(waiting)
			waiting = nil
		}
		select {
		case <-change:
		case <-tick.C:
		case waiting = <-t.waiters:
		case <-t.done:
			return
		case <-t.session.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// wait blocks until the agent has received the current targets. It returns early if run returns or ctx ends.
func (t *targetSync) wait(ctx context.Context) {
	known := make(chan struct{})
	select {
	case t.waiters <- known:
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

// stop makes run return. It may be called on a nil targetSync.
func (t *targetSync) stop() {
	if t != nil {
		t.once.Do(func() { close(t.done) })
	}
}
