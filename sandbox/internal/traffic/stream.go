package traffic

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// stream is an open loop: requests are sent when they are due, whatever has become
// of those before.
type stream struct {
	spec plan
	do   func(context.Context) outcome
	// lost is told of the first MaxLost requests that were lost, concurrently.
	lost func(Record)

	ledger *ledger
	open   atomic.Int64
	stop   context.CancelFunc // no further requests
	cut    context.CancelFunc // and none of those that are open
	done   chan struct{}      // closed when every request has its fate

	mu    sync.Mutex
	note  string
	ended time.Time
}

// newStream starts a stream at once. It ends by stop, by its bounds, or with ctx.
func newStream(ctx context.Context, spec plan, do func(context.Context) outcome, lost func(Record)) *stream {
	s := &stream{spec: spec, do: do, lost: lost, ledger: newLedger(time.Now()), done: make(chan struct{})}
	ctx, s.cut = context.WithCancel(ctx)
	var pacing context.Context
	pacing, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		defer s.cut()
		var wg sync.WaitGroup
		s.pace(pacing, func(n int, due time.Duration) { wg.Go(func() { s.one(ctx, n, due) }) })
		s.mu.Lock()
		s.ended = time.Now()
		s.mu.Unlock()
		wg.Wait()
	}()
	return s
}

// pace calls send for each request when it is due. It never waits for anything else:
// after a delay of the machine it sends at once what is overdue.
func (s *stream) pace(ctx context.Context, send func(n int, due time.Duration)) {
	start := s.ledger.start
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due := s.spec.due(n)
		switch {
		case n == s.spec.Total:
			s.say(fmt.Sprintf("stopped by itself after %d requests", n))
			return
		case due >= s.spec.Duration:
			s.say(fmt.Sprintf("stopped by itself after %v", s.spec.Duration))
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
		send(s.ledger.begin(due), due)
	}
}

func (s *stream) say(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = note
}

// one sends one request and writes down what became of it.
func (s *stream) one(ctx context.Context, n int, due time.Duration) {
	sent := time.Now()
	var o outcome
	if s.open.Add(1) > int64(s.spec.MaxOpen) {
		o = outcome{result: Other, text: fmt.Sprintf("not sent: %d requests wait for their answers", s.spec.MaxOpen)}
	} else {
		o = s.do(ctx)
	}
	s.open.Add(-1)
	if ctx.Err() != nil {
		return // cut off: nobody knows
	}
	done := time.Now()
	lost := s.ledger.finish(n, sent, done, o)
	if o.result == OK || lost > MaxLost || s.lost == nil {
		return
	}
	start := s.ledger.start
	s.lost(Record{
		Seq: uint64(n + 1), Due: start.Add(due), Sent: sent, Done: done, //nolint:gosec // it counts from 0
		Endpoint: o.endpoint, Pod: o.pod, Base: o.base, Version: o.version,
		Result: o.result, Status: o.status, Error: o.text,
	})
}

func (s *stream) summary() Summary {
	sum := s.ledger.summary()
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.Name, sum.Route, sum.Note, sum.Ended = s.spec.Name, s.spec.Route(), s.note, s.ended
	return sum
}
