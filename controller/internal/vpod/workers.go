package vpod

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// workerKey names a worker: one for each base and module name.
type workerKey struct{ identity, module string }

// workers reconciles modules on bases, those of one key one after the other. A worker has a
// goroutine only while it works; an idle one costs an entry in a map, or nothing.
type workers struct {
	reconcile func(ctx context.Context, key workerKey) (again time.Duration, err error)
	logger    *slog.Logger
	slots     *slots

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
func (w *workers) start(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spawn = func(f func(context.Context)) { w.wg.Go(func() { f(ctx) }) }
	for key, one := range w.byKey {
		w.launch(key, one)
	}
}

// stop lets no worker begin and waits for those that run; their context is over by then.
func (w *workers) stop() {
	w.mu.Lock()
	w.spawn = nil
	for _, one := range w.byKey {
		if one.timer != nil {
			one.timer.Stop()
		}
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// trigger has a worker look at its base and its Pods. It does not block.
func (w *workers) trigger(key workerKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.byKey[key]
	if one == nil {
		one = &worker{}
		w.byKey[key] = one
	}
	if one.running {
		one.triggered = true
		return
	}
	if one.timer != nil {
		one.timer.Stop()
		one.timer = nil
	}
	if w.spawn != nil {
		w.launch(key, one)
	}
}

// launch gives a worker its goroutine. The caller holds the lock.
func (w *workers) launch(key workerKey, one *worker) {
	one.running = true
	w.busy++
	w.spawn(func(ctx context.Context) {
		for w.runOnce(ctx, key, one) {
		}
	})
}

// runOnce reconciles once and returns whether to do it again at once.
func (w *workers) runOnce(ctx context.Context, key workerKey, one *worker) bool {
	again, err := w.reconcileInSlot(ctx, key)
	w.mu.Lock()
	defer w.mu.Unlock()
	stopping := ctx.Err() != nil || w.spawn == nil
	switch {
	case stopping:
		again = 0
	case err != nil:
		one.failures++
		again = backoff(one.failures)
		w.logger.Warn("a worker failed and tries again", "base", key.identity, "biz", key.module, "in", again, "err", err)
	default:
		one.failures = 0
	}
	triggered := one.triggered
	one.triggered = false
	if triggered && err == nil && !stopping {
		return true
	}
	one.running = false
	w.busy--
	if again > 0 {
		one.timer = time.AfterFunc(again, func() { w.trigger(key) })
	} else {
		delete(w.byKey, key)
	}
	return false
}

func (w *workers) reconcileInSlot(ctx context.Context, key workerKey) (time.Duration, error) {
	release, err := w.slots.acquire(ctx, key.identity)
	if err != nil {
		return 0, err
	}
	defer release()
	return w.reconcile(ctx, key)
}

// depth is the number of workers that run or wait for a slot, not counting those that wait for a
// time.
func (w *workers) depth() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}

// background runs f beside the workers while they run; stop waits for it.
func (w *workers) background(f func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spawn != nil {
		w.spawn(f)
	}
}

// backoff is how long to wait after a number of failures in a row: half a second, doubling, a
// minute at most.
func backoff(failures int) time.Duration {
	const first, most = 500 * time.Millisecond, time.Minute
	d := first
	for range failures - 1 {
		if d *= 2; d >= most {
			return most
		}
	}
	return d
}

// slots bounds how many workers of one base run at once (VNODE_WORKER_NUM).
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
