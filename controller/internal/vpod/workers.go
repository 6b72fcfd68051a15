package vpod

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// minRetryDelay is the delay before the first retry of a failed key.
const minRetryDelay = 500 * time.Millisecond

// newQueue returns a queue with at most the given number of workers; 0 means no limit. maxDelay is the maximum delay
// after consecutive errors. The caller must have divided maxDelay by the time scale.
func newQueue[K interface {
	comparable
	attrs() []any
}](opts Options, workers int, maxDelay time.Duration,
	do func(context.Context, K) (time.Duration, error)) *work.Queue[K] {
	return work.New(work.Options[K]{
		Do: do, Workers: workers, MinDelay: opts.TimeScale.Of(minRetryDelay), MaxDelay: maxDelay,
		Message: "a worker failed and will retry", Attrs: K.attrs, Logger: opts.Logger,
	})
}

// commandLimiter limits the concurrent commands of a base (VNODE_WORKER_NUM). The zero value allows no commands.
type commandLimiter struct {
	mu      sync.Mutex
	free    int
	waiting []slotKey // module slots that acquire has refused, in the order of their attempts
}

// acquire reserves one of the concurrent commands of the base for a module slot, and reports whether the limit allows
// this. It does not block.
func (s *commandLimiter) acquire(key slotKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 {
		s.free--
		return true
	}
	if !slices.Contains(s.waiting, key) {
		s.waiting = append(s.waiting, key)
	}
	return false
}

// release ends the command of a module slot, and returns the slots that must try to acquire again.
func (s *commandLimiter) release() (waiting []slotKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	waiting, s.waiting = s.waiting, nil
	return waiting
}

func (s *commandLimiter) countWaiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
