package rpc

import (
	"context"
	"errors"
	"sync"
)

// ErrOverflow is the error of a Queue whose limit was exceeded.
var ErrOverflow = errors.New("events were lost because the reader was too slow")

// Queue delivers values to one reader, in order. Put never blocks. All methods may be called concurrently. The zero value
// has no limit.
type Queue[T any] struct {
	mu       sync.Mutex
	limit    int // zero = unlimited
	queued   []T
	count    uint64 // number of values that were put
	overflow bool
	closed   bool
	changed  broadcast
}

// Limit sets the maximum number of queued values. Values that are already queued are kept.
func (q *Queue[T]) Limit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
}

// Put queues all values or none. If the limit is exceeded, the reader gets the values that are queued, and then
// ErrOverflow.
func (q *Queue[T]) Put(values ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count += uint64(len(values))
	q.overflow = q.overflow || q.limit > 0 && len(q.queued)+len(values) > q.limit
	if !q.overflow {
		q.queued = append(q.queued, values...)
	}
	q.changed.notify()
}

// Close closes the queue. The reader still gets the queued values.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.notify()
}

// Count returns the number of values that have been put so far.
func (q *Queue[T]) Count() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// Read calls each for every value, one at a time. It returns nil when the queue is closed or ctx ends, and ErrOverflow if
// the limit was exceeded. Calls of Read must not overlap.
func (q *Queue[T]) Read(ctx context.Context, each func(T)) error {
	for {
		q.mu.Lock()
		values, overflow, closed := q.queued, q.overflow, q.closed
		q.queued = nil
		changed := q.changed.wait()
		q.mu.Unlock()
		for _, v := range values {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the caller has canceled ctx
			}
			each(v)
		}
		switch {
		case overflow:
			return ErrOverflow
		case closed:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// OrderedAnswer is an answer with the number of values that were put into a Queue before it. The client reads these
// values first, so that it sees all earlier events.
type OrderedAnswer[T any] struct {
	Answer T `json:"answer"`
	// Count is the result of Queue.Count.
	Count uint64 `json:"count"`
}

// ReadCounter counts the values that this process has read from the Queue of another process. All methods may be called
// concurrently.
type ReadCounter struct {
	mu      sync.Mutex
	count   uint64
	ended   bool
	err     error
	changed broadcast
}

// Add adds one value.
func (m *ReadCounter) Add() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	m.changed.notify()
}

// End records that no more values will be read. The error may be nil.
func (m *ReadCounter) End(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended, m.err = true, err
	m.changed.notify()
}

// Wait blocks until count values have been read. It returns the error of End if no more values will be read, and the cause
// of ctx if ctx ends first.
func (m *ReadCounter) Wait(ctx context.Context, count uint64) error {
	for {
		m.mu.Lock()
		read, ended, err, changed := m.count >= count, m.ended, m.err, m.changed.wait()
		m.mu.Unlock()
		switch {
		case read:
			return nil
		case ended:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// broadcast notifies all waiting goroutines. The lock of its owner guards it.
type broadcast chan struct{}

func (b *broadcast) wait() <-chan struct{} {
	if *b == nil {
		*b = make(broadcast)
	}
	return *b
}

func (b *broadcast) notify() {
	if *b != nil {
		close(*b)
		*b = nil
	}
}
