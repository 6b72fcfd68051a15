package rpc

import (
	"context"
	"errors"
	"sync"
)

// ErrOverflow is the error that Read returns if the limit of the Queue was exceeded.
var ErrOverflow = errors.New("events were lost because the reader was too slow")

// Queue delivers values to one reader, in order. Put never blocks. All methods are safe for concurrent use. The zero
// value is a queue without a limit.
type Queue[T any] struct {
	mu       sync.Mutex
	limit    int // maximum number of queued values; zero means unlimited
	queued   []T
	count    uint64 // number of values that were added
	overflow bool
	closed   bool
	changed  broadcast
}

// Limit sets the maximum number of queued values. Values that are already in the queue are kept.
func (q *Queue[T]) Limit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
}

// Put adds either all values or, if the limit would be exceeded, none of them. In the second case, the reader
// receives the values that are already queued, and then ErrOverflow.
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

// Close closes the queue. The reader still receives the queued values.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.notify()
}

// Count returns the number of values that have been added so far.
func (q *Queue[T]) Count() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// Read calls the function each for every value, one at a time. It returns nil when the queue is closed or ctx is
// done, and ErrOverflow if the limit was exceeded. Calls of Read must not overlap.
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

// OrderedAnswer is an answer together with the number of values that were added to a Queue before it. The client
// reads these values before it returns the answer, so that the caller sees all earlier events.
type OrderedAnswer[T any] struct {
	Answer T `json:"answer"`
	// Count is the number of values that were added to the Queue before the answer, as returned by Queue.Count.
	Count uint64 `json:"count"`
}

// ReadCounter counts the values that this process has read from the Queue of another process. All methods are safe
// for concurrent use.
type ReadCounter struct {
	mu      sync.Mutex
	count   uint64
	ended   bool
	err     error
	changed broadcast
}

// Add records that one more value was read.
func (m *ReadCounter) Add() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	m.changed.notify()
}

// End records that no more values will be read. err is the reason; it may be nil.
func (m *ReadCounter) End(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended, m.err = true, err
	m.changed.notify()
}

// Wait blocks until count values have been read. If no more values will be read, it returns the error that was passed
// to End. If ctx is done first, it returns the cause of ctx.
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

// broadcast notifies all waiting goroutines. It is guarded by the lock of its owner.
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
