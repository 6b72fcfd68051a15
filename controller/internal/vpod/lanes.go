package vpod

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// laneKey names a lane: everything about one module name on one base happens in it, one after the other.
type laneKey struct{ identity, module string }

// lanes runs lanes. A lane has a goroutine only while it works; an idle one costs
// an entry in a map, or nothing.
type lanes struct {
	work    func(ctx context.Context, key laneKey) (again time.Duration, err error)
	clock   clock.WithDelayedExecution
	logger  *slog.Logger
	limiter *limiter

	mu      sync.Mutex
	spawn   func(f func(ctx context.Context)) // nil while lanes do not run
	lanes   map[laneKey]*lane
	running int
	wg      sync.WaitGroup
}

type lane struct {
	running bool
	dirty   bool // looked at again when done
	timer   clock.Timer
	due     time.Time
	tries   int // failures in a row
}

// start lets lanes run until stop.
func (l *lanes) start(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spawn = func(f func(context.Context)) { l.wg.Go(func() { f(ctx) }) }
	for key, one := range l.lanes {
		if !one.running && one.timer == nil {
			l.run(key, one)
		}
	}
}

// stop lets no lane begin and waits for those that work; their context is over by then.
func (l *lanes) stop() {
	l.mu.Lock()
	l.spawn = nil
	for _, one := range l.lanes {
		if one.timer != nil {
			one.timer.Stop()
		}
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// kick has a lane look at its base and its Pods. It does not block.
func (l *lanes) kick(key laneKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.lanes[key]
	if one == nil {
		one = &lane{}
		l.lanes[key] = one
	}
	if one.running {
		one.dirty = true
		return
	}
	if one.timer != nil {
		one.timer.Stop()
		one.timer = nil
	}
	if l.spawn != nil {
		l.run(key, one)
	}
}

// schedule kicks a lane later, unless it is due before that anyway. The caller holds the lock.
func (l *lanes) schedule(key laneKey, one *lane, after time.Duration) {
	due := l.clock.Now().Add(after)
	if one.timer != nil {
		if !one.due.After(due) {
			return
		}
		one.timer.Stop()
	}
	one.due = due
	one.timer = l.clock.AfterFunc(after, func() { l.kick(key) })
}

// run gives a lane its goroutine. The caller holds the lock.
func (l *lanes) run(key laneKey, one *lane) {
	one.running = true
	l.running++
	l.spawn(func(ctx context.Context) { l.drive(ctx, key, one) })
}

// drive works until the lane has nothing more to do now.
func (l *lanes) drive(ctx context.Context, key laneKey, one *lane) {
	for {
		again, err := l.once(ctx, key)
		l.mu.Lock()
		switch {
		case ctx.Err() != nil || l.spawn == nil:
			one.running = false
			l.running--
			delete(l.lanes, key)
			l.mu.Unlock()
			return
		case err != nil:
			one.tries++
			again = backoff(one.tries)
			l.logger.Warn("a lane failed and tries again", "base", key.identity, "biz", key.module, "in", again, "err", err)
		default:
			one.tries = 0
		}
		if one.dirty {
			one.dirty = false
			if err == nil {
				l.mu.Unlock()
				continue
			}
		}
		one.running = false
		l.running--
		if again > 0 {
			l.schedule(key, one, again)
		} else {
			delete(l.lanes, key)
		}
		l.mu.Unlock()
		return
	}
}

func (l *lanes) once(ctx context.Context, key laneKey) (time.Duration, error) {
	release, err := l.limiter.acquire(ctx, key.identity)
	if err != nil {
		return 0, err
	}
	defer release()
	return l.work(ctx, key)
}

// depth is the number of lanes that work or wait for a turn, not counting those that wait for a time.
func (l *lanes) depth() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// backoff is how long to wait after a number of failures in a row: half a second, doubling, a minute at most.
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

// kickIf kicks a lane that any Pod has to do with.
func (l *lanes) kickIf(key laneKey, s *store) {
	if len(s.lane(key)) > 0 {
		l.kick(key)
	}
}

// aside runs f beside the lanes while they run; stop waits for it.
func (l *lanes) aside(f func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spawn != nil {
		l.spawn(f)
	}
}
