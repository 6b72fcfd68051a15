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
	do   func(context.Context) Record
	// lost is told of the first MaxLost requests that were lost, concurrently.
	lost func(Record)
	told *choices // nil = the stream follows Services or bases itself

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
func newStream(ctx context.Context, spec plan, do func(context.Context) Record, lost func(Record)) *stream {
	s := &stream{spec: spec, do: do, lost: lost, ledger: newLedger(time.Now()), done: make(chan struct{})}
	ctx, s.cut = context.WithCancel(ctx)
	var pacing context.Context
	pacing, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		defer s.cut()
		var wg sync.WaitGroup
		s.pace(pacing, func(n int) { wg.Go(func() { s.one(ctx, n) }) })
		s.mu.Lock()
		s.ended = time.Now()
		s.mu.Unlock()
		wg.Wait()
	}()
	return s
}

// pace calls send for each request when it is due. It never waits for anything else:
// after a delay of the machine it sends at once what is overdue.
func (s *stream) pace(ctx context.Context, send func(n int)) {
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
		send(s.ledger.begin(due))
	}
}

func (s *stream) say(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = note
}

// one sends one request and records its result.
func (s *stream) one(ctx context.Context, n int) {
	sent := time.Now()
	var r Record
	if s.open.Add(1) > int64(s.spec.MaxOpen) {
		r = Record{Result: Other, Error: fmt.Sprintf("not sent: %d requests wait for their answers", s.spec.MaxOpen)}
	} else {
		r = s.do(ctx)
	}
	s.open.Add(-1)
	if ctx.Err() != nil {
		return // cut off: the result is unknown
	}
	r.Sent, r.Done = sent, time.Now()
	r, lost := s.ledger.finish(n, r)
	if r.Result != OK && lost <= MaxLost && s.lost != nil {
		s.lost(r)
	}
}

func (s *stream) summary() Summary {
	sum := s.ledger.summary()
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.Name, sum.Route, sum.Note, sum.Ended = s.spec.Name, s.spec.Route(), s.note, s.ended
	return sum
}
