package vpod

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// workerKey names a worker: one for each base and module name.
type workerKey struct{ identity, module string }

// workers work on modules of bases, those of one key one after the other. A worker has a goroutine
// only while it works; an idle one costs an entry in a map, or nothing.
type workers struct {
	work   func(ctx context.Context, key workerKey) (again time.Duration, err error)
	atMost time.Duration // between attempts after an error
	speed  pace.Speed
	logger *slog.Logger
	slots  *slots // nil for those that ask nothing of bases

	mu    sync.Mutex
	spawn func(f func(ctx context.Context)) // nil before start and after stop
	byKey map[workerKey]*worker
	busy  int
	wg    sync.WaitGroup
}

type worker struct {
	running   bool
	triggered bool // while it was running
	timer     *time.Timer
	failures  int // in a row
}

// start lets workers run until stop.
func (ws *workers) start(ctx context.Context) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.spawn = func(f func(context.Context)) { ws.wg.Go(func() { f(ctx) }) }
	for key, w := range ws.byKey {
		ws.launch(key, w)
	}
}

// stop lets no worker begin and waits for those that run; their context is over by then.
func (ws *workers) stop() {
	ws.mu.Lock()
	ws.spawn = nil
	for _, w := range ws.byKey {
		if w.timer != nil {
			w.timer.Stop()
		}
	}
	ws.mu.Unlock()
	ws.wg.Wait()
}

// trigger has a worker look at its base and its Pods. It does not block.
func (ws *workers) trigger(key workerKey) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byKey[key]
	if w == nil {
		w = &worker{}
		ws.byKey[key] = w
	}
	if w.running {
		w.triggered = true
		return
	}
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if ws.spawn != nil {
		ws.launch(key, w)
	}
}

// launch gives a worker its goroutine. The caller holds the lock.
func (ws *workers) launch(key workerKey, w *worker) {
	w.running = true
	ws.busy++
	ws.spawn(func(ctx context.Context) {
		for ws.runOnce(ctx, key, w) {
		}
	})
}

// runOnce works once and returns whether to do it again at once.
func (ws *workers) runOnce(ctx context.Context, key workerKey, w *worker) bool {
	again, err := ws.work(ctx, key)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	stopping := ctx.Err() != nil || ws.spawn == nil
	switch {
	case stopping:
		again = 0
	case err != nil:
		w.failures++
		again = backoff(ws.speed, w.failures, ws.atMost)
		level := slog.LevelWarn
		if w.failures > 1 { // once is enough for one outage
			level = slog.LevelDebug
		}
		ws.logger.Log(ctx, level, "a worker failed and tries again", "base", key.identity, "biz", key.module, "in", again, "err", err)
	default:
		w.failures = 0
	}
	triggered := w.triggered
	w.triggered = false
	if triggered && err == nil && !stopping {
		return true
	}
	w.running = false
	ws.busy--
	if again > 0 {
		w.timer = time.AfterFunc(again, func() { ws.trigger(key) })
	} else {
		delete(ws.byKey, key)
	}
	return false
}

// depth is the number of workers that run or wait for a slot, not counting those that wait for a
// time.
func (ws *workers) depth() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.busy
}

// background runs f beside the workers while they run; stop waits for it.
func (ws *workers) background(f func(context.Context)) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.spawn != nil {
		ws.spawn(f)
	}
}

// firstPause is the pause after the first failure.
const firstPause = 500 * time.Millisecond

// backoff is how long to wait after a number of failures in a row: half a second, doubling.
func backoff(speed pace.Speed, failures int, atMost time.Duration) time.Duration {
	d := min(speed.Of(firstPause), atMost)
	for range failures - 1 {
		if d *= 2; d >= atMost {
			return atMost
		}
	}
	return d
}

// slots bounds how many commands of one base are under way at once (VNODE_WORKER_NUM).
type slots struct {
	size   int
	mu     sync.Mutex
	byBase map[string]*baseSlots
}

type baseSlots struct {
	taken chan struct{}
	users int // that have a slot or wait for one
}

// acquire waits for a slot of a base, at most until ctx ends.
func (s *slots) acquire(ctx context.Context, identity string) (release func(), err error) {
	s.mu.Lock()
	b := s.byBase[identity]
	if b == nil {
		b = &baseSlots{taken: make(chan struct{}, s.size)}
		s.byBase[identity] = b
	}
	b.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if b.users--; b.users == 0 {
			delete(s.byBase, identity)
		}
	}
	select {
	case b.taken <- struct{}{}:
		return func() { <-b.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
