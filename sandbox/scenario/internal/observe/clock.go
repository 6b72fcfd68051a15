package observe

import (
	"context"
	"math"
	"time"
)

const (
	// askEvery is how often the API is asked for the number of its last write: five requests a
	// second bound every write to some 200 ms, at a cost that no controller notices.
	askEvery = 200 * time.Millisecond
	// askTime bounds one such question.
	askTime = 5 * time.Second
)

// mark says that the last write of the API had this number at some moment between two.
type mark struct {
	version     uint64
	asked, told time.Time
}

// clock knows between which moments the API's writes happened, however late a watch tells of them:
// the API numbers the writes of all its objects in one order, and says the number of the last one
// at any time. A write lies behind the question that was answered with a smaller number, and before
// the answer with one that is not smaller.
type clock []mark // in the order of the questions

// between returns the moments between which a write happened; zero = it is not known.
func (c clock) between(version uint64) (after, before time.Time) {
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].version < version {
			return c[i].asked, before
		}
		before = c[i].told
	}
	return after, before
}

// keepTime asks the API for the number of its last write until ctx ends. An API that does not
// answer is asked again: while it is away nobody writes either.
func (w *World) keepTime(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, askTime)
		asked := w.o.Now()
		version, err := w.o.LastWrite(asking)
		told := w.o.Now()
		cancel()
		if err == nil && version > 0 {
			w.mu.Lock()
			w.clock = append(w.clock, mark{version, asked, told})
			w.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// beginning says of a list that it is the first one.
const beginning = math.MaxUint64

// when says when a write that is told now happened, at the latest, and how much earlier it may have
// been. since is the newest write that was told before, if others may have been missed in between:
// nobody knows then which of them this was. What is told in the beginning is now. w.mu is held.
func (w *World) when(version, since uint64) (at time.Time, late time.Duration) {
	at = w.o.Now()
	if since == beginning {
		return at, 0
	}
	first := version
	if since > 0 {
		first = since + 1
	}
	after, _ := w.clock.between(first)
	if _, before := w.clock.between(version); since == 0 && !before.IsZero() && before.Before(at) {
		w.lag = max(w.lag, at.Sub(before))
		at = before
	}
	if after.IsZero() || after.After(at) { // not known; or the numbers are of another kind
		return at, 0
	}
	return at, at.Sub(after)
}

// Lag returns how late, at most, the run was told of what had happened, as far as that is known.
func (w *World) Lag() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lag
}
