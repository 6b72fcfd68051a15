package observe

import (
	"context"
	"time"
)

const (
	// LastWriteInterval is the interval at which the resource version of the last write to the API is requested. The
	// recorded times of API events are late by up to LastWriteInterval plus Lag.
	LastWriteInterval = 200 * time.Millisecond
	// requestTimeout is the timeout of one request to the API server.
	requestTimeout = 5 * time.Second
)

// writeMark records that the write with the resource version had already happened at the given time. Resource
// versions order the writes of all objects.
type writeMark struct {
	version uint64
	time    time.Time
}

// markWrites requests the resource version of the last write every LastWriteInterval until ctx ends. It ignores
// errors.
func (w *Recorder) markWrites(ctx context.Context) {
	tick := time.NewTicker(LastWriteInterval)
	defer tick.Stop()
	for {
		requestCtx, cancel := context.WithTimeout(ctx, requestTimeout)
		version, err := w.o.LastWrite(requestCtx)
		cancel()
		if err == nil && version > 0 {
			w.mu.Lock()
			w.marks = append(w.marks, writeMark{version, w.o.Now()})
			w.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// timeOf returns the latest possible time of a write whose event is delivered now. If a watch delivers the event,
// timeOf returns the time of the first mark with the same or a later resource version; the time since this mark is
// the lag of the watch. If a list delivers the event, timeOf returns the current time. w.mu must be held.
func (w *Recorder) timeOf(version uint64, listed bool) time.Time {
	at := w.o.Now()
	if version == 0 || listed {
		return at
	}
	for i := len(w.marks) - 1; i >= 0 && w.marks[i].version >= version; i-- {
		at = w.marks[i].time
	}
	w.lag = max(w.lag, w.o.Now().Sub(at))
	return at
}

// Lag returns the longest observed delay between an event and its arrival.
func (w *Recorder) Lag() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lag
}
