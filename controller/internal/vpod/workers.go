package vpod

import (
	"context"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// workerKey names a worker: one for each base and module name.
type workerKey struct{ identity, module string }

// attrs name the worker in logs.
func (k workerKey) attrs() []any { return []any{"base", k.identity, "biz", k.module} }

// firstPause is the pause after the first failure.
const firstPause = 500 * time.Millisecond

// newQueue returns a queue with at most the given number of workers; 0 means no limit. maxDelay is the longest
// delay after an error.
func newQueue[K interface {
	comparable
	attrs() []any
}](opts Options, workers int, maxDelay time.Duration, do func(context.Context, K) (time.Duration, error)) *work.Queue[K] {
	return work.New(work.Options[K]{
		Do: do, Workers: workers, MinDelay: opts.Speed.Of(firstPause), MaxDelay: opts.Speed.Of(maxDelay),
		Message: "a worker failed and tries again", Attrs: K.attrs, Logger: opts.Logger,
	})
}

// slots bounds how many commands of one base are under way at once (VNODE_WORKER_NUM). A lane that
// gets none has no goroutine that waits, and no plan that grows old: it is called when its turn comes,
// and looks anew.
type slots struct {
	size int
	call func(workerKey) // it is the lane's turn

	mu     sync.Mutex
	byBase map[string]*baseSlots
}

// baseSlots are those of a base of which some are taken.
type baseSlots struct {
	taken   int
	waiting []string        // lanes, in the order in which they asked
	granted map[string]bool // lanes that have asked; true: it is their turn, and theirs is taken
}

// take takes a slot for a lane if one is free; else the lane is called later.
func (s *slots) take(key workerKey) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.byBase[key.identity]
	if b == nil {
		b = &baseSlots{granted: map[string]bool{}}
		s.byBase[key.identity] = b
	}
	switch {
	case b.granted[key.module]:
		delete(b.granted, key.module)
	case b.taken < s.size:
		b.taken++
	default:
		if _, asked := b.granted[key.module]; !asked {
			b.granted[key.module] = false
			b.waiting = append(b.waiting, key.module)
		}
		return nil, false
	}
	return func() { s.pass(key.identity, b) }, true
}

// use calls f, which may take a slot for a lane. A slot that was granted to the lane before and that f does not
// take is given back.
func (s *slots) use(key workerKey, f func() (time.Duration, error)) (time.Duration, error) {
	s.mu.Lock()
	b := s.byBase[key.identity]
	granted := b != nil && b.granted[key.module]
	s.mu.Unlock()
	if granted {
		defer s.decline(key)
	}
	return f()
}

func (s *slots) decline(key workerKey) {
	s.mu.Lock()
	b := s.byBase[key.identity]
	granted := b != nil && b.granted[key.module]
	if granted {
		delete(b.granted, key.module)
	}
	s.mu.Unlock()
	if granted {
		s.pass(key.identity, b)
	}
}

// pass gives a slot to the lane that has waited longest, or frees it.
func (s *slots) pass(identity string, b *baseSlots) {
	s.mu.Lock()
	if len(b.waiting) == 0 {
		if b.taken--; b.taken == 0 {
			delete(s.byBase, identity)
		}
		s.mu.Unlock()
		return
	}
	next := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.granted[next] = true
	s.mu.Unlock()
	s.call(workerKey{identity, next})
}

// waiting is the number of lanes that wait for a slot.
func (s *slots) waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.byBase {
		n += len(b.waiting)
	}
	return n
}
