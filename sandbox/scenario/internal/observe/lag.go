package observe

import (
	"context"
	"time"
)

const (
	// LastWriteInterval is the time between two requests for the version of the last write to the API. Events have times
	// that are late by up to that, and by Lag.
	LastWriteInterval = 200 * time.Millisecond
	// requestTimeout limits one request to the API.
	requestTimeout = 5 * time.Second
)

// A mark is a time at which the write with a version had happened. The API server orders the writes of all objects by one
// version.
type writeMark struct {
	version uint64
	time    time.Time
}

// markWrites asks the API for the version of its last write until ctx ends. An API that does not answer is asked again.
func (w *Recorder) markWrites(ctx context.Context) {
	tick := time.NewTicker(LastWriteInterval)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		version, err := w.o.LastWrite(asking)
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

// timeOf returns when a write that is delivered now had happened at the latest. If a watch delivers it, that is the time of
// the first mark that covers its version, and the difference to now is the lag of the watch. For a write that a list
// delivers, after a watch has ended, it is now. w.mu is held.
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

// Lag returns the longest known delay between an event and its arrival.
func (w *Recorder) Lag() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lag
}
