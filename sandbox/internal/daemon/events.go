package daemon

import (
	"context"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

// progressLog keeps the steps since the start and hands them to any number of
// listeners, each from the first on.
type progressLog struct {
	mu   sync.Mutex
	all  []progress.Event
	more chan struct{} // closed at the next event
}

func newProgressLog() *progressLog { return &progressLog{more: make(chan struct{})} }

func (e *progressLog) add(event progress.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
	close(e.more)
	e.more = make(chan struct{})
}

// follow calls sink for every event until ctx ends or end is closed.
func (e *progressLog) follow(ctx context.Context, end <-chan struct{}, sink func(progress.Event)) {
	next := 0
	for {
		e.mu.Lock()
		fresh, more := e.all[next:], e.more
		e.mu.Unlock()
		next += len(fresh)
		for _, event := range fresh {
			sink(event)
		}
		select {
		case <-more:
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}
