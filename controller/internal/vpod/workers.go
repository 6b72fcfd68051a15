package vpod

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// workerKey names a worker: one for each base and module name.
type workerKey struct{ identity, module string }

// attrs name the worker in logs.
func (k workerKey) attrs() []any { return []any{"base", k.identity, "biz", k.module} }

// workers work on things that have a key, on those of one key one after the other. A worker has a
// goroutine only while it works; an idle one costs an entry in a map, or nothing.
type workers[K named] struct {
	work   func(ctx context.Context, key K) (again time.Duration, err error)
	atMost time.Duration // between attempts after an error
	// atOnce is how many work at the same time; further ones wait their turn without a goroutine. 0
	// means that nothing bounds them.
	atOnce int
	rests  func(K) // hears of each worker that has nothing to do at once; may be nil
	speed  pace.Speed
	logger *slog.Logger

	mu    sync.Mutex
	spawn func(f func(ctx context.Context)) // nil before start and after stop
	byKey map[K]*worker
	due   []K // wait their turn
	first []K // theirs comes before that of the others
	busy  int // have a goroutine
	wg    sync.WaitGroup
}

// named is what workers work on.
type named interface {
	comparable
	attrs() []any
}

type worker struct {
	running   bool // it has a goroutine, or waits its turn
	triggered bool // while it had a goroutine
	timer     *time.Timer
	failures  int // in a row
}

// start lets workers run until stop.
func (ws *workers[K]) start(ctx context.Context) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.spawn = func(f func(context.Context)) { ws.wg.Go(func() { f(ctx) }) }
	for key, w := range ws.byKey {
		ws.launch(key, w)
	}
}

// stop lets no worker begin and waits for those that run; their context is over by then.
func (ws *workers[K]) stop() {
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

// trigger has a worker look at what its key names. It does not block.
func (ws *workers[K]) trigger(key K) {
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

// hurry is trigger for a worker whose turn is to come before that of others. It does not block.
func (ws *workers[K]) hurry(key K) {
	ws.trigger(key)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if i := slices.Index(ws.due, key); i >= 0 {
		ws.due = slices.Delete(ws.due, i, i+1)
		ws.first = append(ws.first, key)
	}
}

// launch gives a worker its goroutine, or has it wait its turn. The caller holds the lock.
func (ws *workers[K]) launch(key K, w *worker) {
	w.running = true
	if ws.atOnce > 0 && ws.busy >= ws.atOnce {
		ws.due = append(ws.due, key)
		return
	}
	ws.busy++
	ws.spawn(func(ctx context.Context) {
		for more := true; more; key, more = ws.next() {
			ws.run(ctx, key)
		}
	})
}

// next is the key of the worker whose turn it is, for a goroutine whose own has ended.
func (ws *workers[K]) next() (key K, more bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	waiting := &ws.first
	if len(ws.first) == 0 {
		waiting = &ws.due
	}
	if len(*waiting) == 0 || ws.spawn == nil {
		ws.busy--
		return key, false
	}
	key, *waiting = (*waiting)[0], (*waiting)[1:]
	return key, true
}

// run works until nothing is to be done at once.
func (ws *workers[K]) run(ctx context.Context, key K) {
	ws.mu.Lock()
	w := ws.byKey[key]
	w.triggered = false // it looks now
	ws.mu.Unlock()
	for ws.runOnce(ctx, key, w) {
	}
	if ws.rests != nil {
		ws.rests(key)
	}
}

// runOnce works once and returns whether to do it again at once.
func (ws *workers[K]) runOnce(ctx context.Context, key K, w *worker) bool {
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
		ws.logger.Log(ctx, level, "a worker failed and tries again", append(key.attrs(), "in", again, "err", err)...)
	default:
		w.failures = 0
	}
	triggered := w.triggered
	w.triggered = false
	if triggered && err == nil && !stopping {
		return true
	}
	w.running = false
	if again > 0 {
		w.timer = time.AfterFunc(again, func() { ws.trigger(key) })
	} else {
		delete(ws.byKey, key)
	}
	return false
}

// depth is the number of workers that run or wait their turn, not counting those that wait for a
// time.
func (ws *workers[K]) depth() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.busy + len(ws.due) + len(ws.first)
}

// behind says whether any worker waits for its turn.
func (ws *workers[K]) behind() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.due)+len(ws.first) > 0
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

// decline gives back a slot that was granted to a lane which does not need it any more.
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
