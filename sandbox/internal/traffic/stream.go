package traffic

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// stream sends requests at a fixed rate (open loop): it sends each request when it is due, whether or not earlier
// requests have been answered.
type stream struct {
	spec resolvedSpec
	do   func(context.Context) Record
	// lost is called concurrently for the first MaxLost lost requests. If it is nil, lost requests are only counted.
	lost   func(Record)
	pushed *pushedTargets // nil unless the caller supplies the targets

	log  *requestLog
	open atomic.Int64
	stop context.CancelFunc // stops sending requests
	cut  context.CancelFunc // stops sending requests and cancels in-flight requests
	done chan struct{}      // closed when every request has a result

	mu    sync.Mutex
	note  string
	ended time.Time
}

// newStream starts a stream. It does not block. The stream ends when stop is called, when it reaches one of its
// limits, or when ctx ends.
func newStream(ctx context.Context, spec resolvedSpec, do func(context.Context) Record, lost func(Record)) *stream {
	s := &stream{spec: spec, do: do, lost: lost, log: newRequestLog(time.Now()), done: make(chan struct{})}
	ctx, s.cut = context.WithCancel(ctx)
	var pacing context.Context
	pacing, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		defer s.cut()
		var wg sync.WaitGroup
		s.pace(pacing, func(n int) { wg.Go(func() { s.sendOne(ctx, n) }) })
		s.mu.Lock()
		s.ended = time.Now()
		s.mu.Unlock()
		wg.Wait()
	}()
	return s
}

// pace calls send for each request when it is due, without waiting for responses. After a delay of the machine, it
// sends all overdue requests immediately. It blocks until the stream reaches a limit or ctx ends.
func (s *stream) pace(ctx context.Context, send func(n int)) {
	start := s.log.start
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due := s.spec.due(n)
		switch {
		case n == s.spec.Total:
			s.setNote(fmt.Sprintf("stopped at its limit of %d requests", n))
			return
		case due >= s.spec.Duration:
			s.setNote(fmt.Sprintf("stopped at its limit of %v", s.spec.Duration))
			return
		}
		if wait := time.Until(start.Add(due)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		send(s.log.begin(due))
	}
}

func (s *stream) setNote(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = note
}

// sendOne sends request n and records its result.
func (s *stream) sendOne(ctx context.Context, n int) {
	sent := time.Now()
	var r Record
	if s.open.Add(1) > int64(s.spec.MaxOpen) {
		r = Record{Result: Other, Error: fmt.Sprintf("not sent: %d requests are still in progress", s.spec.MaxOpen)}
	} else {
		r = s.do(ctx)
	}
	s.open.Add(-1)
	if ctx.Err() != nil {
		return // the request was cancelled, so its result is unknown
	}
	r.Sent, r.Done = sent, time.Now()
	r, lost := s.log.finish(n, r)
	if r.Result != OK && lost <= MaxLost && s.lost != nil {
		s.lost(r)
	}
}

func (s *stream) summary() Summary {
	sum := s.log.summary()
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.Name, sum.Route, sum.Note, sum.Ended = s.spec.Name, s.spec.Route(), s.note, s.ended
	return sum
}
