package vpod

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// firstPause is the delay after the first failure.
const firstPause = 500 * time.Millisecond

// newQueue returns a queue with at most the given number of workers; 0 means no limit. maxDelay is the longest
// delay after an error, divided by the time scale.
func newQueue[K interface {
	comparable
	attrs() []any
}](opts Options, workers int, maxDelay time.Duration,
	do func(context.Context, K) (time.Duration, error)) *work.Queue[K] {
	return work.New(work.Options[K]{
		Do: do, Workers: workers, MinDelay: opts.TimeScale.Of(firstPause), MaxDelay: maxDelay,
		Message: "a worker failed and tries again", Attrs: K.attrs, Logger: opts.Logger,
	})
}

// slots limits the concurrent commands of a base (VNODE_WORKER_NUM).
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []workerKey // lanes that did not get a slot, in the order of their attempts
}

// take takes a slot for a lane and reports whether one was free.
func (s *slots) take(key workerKey) bool {
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

// release frees a slot, and returns the lanes that must try again.
func (s *slots) release() (waiting []workerKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	waiting, s.waiting = s.waiting, nil
	return waiting
}

func (s *slots) countWaiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
