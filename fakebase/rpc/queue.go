package rpc

import (
	"context"
	"errors"
	"sync"
)

// ErrOverflow ends a Queue that was filled faster than it was read.
var ErrOverflow = errors.New("events were lost: they were not read as fast as they came, and too many waited")

// Queue holds values for one reader, in order. Put never blocks. All methods may be called concurrently. The zero value
// has no limit.
type Queue[T any] struct {
	mu       sync.Mutex
	limit    int // zero = none
	waiting  []T
	count    uint64 // of all values so far
	overflow bool
	closed   bool
	changed  bell
}

// Limit sets the maximum number of values that wait. It keeps the values that wait already.
func (q *Queue[T]) Limit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
}

// Put adds all values or none. If the limit is exceeded, the reader gets the values that wait, and then ErrOverflow.
func (q *Queue[T]) Put(values ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count += uint64(len(values))
	q.overflow = q.overflow || q.limit > 0 && len(q.waiting)+len(values) > q.limit
	if !q.overflow {
		q.waiting = append(q.waiting, values...)
	}
	q.changed.ring()
}

// Close ends the queue. The reader gets the values that wait.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.ring()
}

// Count returns the number of values that have been put so far.
func (q *Queue[T]) Count() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// Read calls each for every value, one at a time, until the queue is closed or ctx ends, and then
// returns nil. The error is ErrOverflow. There is one Read at a time.
func (q *Queue[T]) Read(ctx context.Context, each func(T)) error {
	for {
		q.mu.Lock()
		values, overflow, closed := q.waiting, q.overflow, q.closed
		q.waiting = nil
		changed := q.changed.wait()
		q.mu.Unlock()
		for _, v := range values {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the reader has gone, and has asked for no more
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

// After is an answer, and the number of values that were put into a Queue before it.
type After[T any] struct {
	Answer T `json:"answer"`
	// Count is that of the Queue.
	Count uint64 `json:"count"`
}

// Mark is the number of values of another process's Queue that this process has read. All methods may be called
// concurrently.
type Mark struct {
	mu      sync.Mutex
	count   uint64
	ended   bool
	err     error
	changed bell
}

// Add adds one value.
func (m *Mark) Add() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	m.changed.ring()
}

// End records that no more values will be read. The error may be nil.
func (m *Mark) End(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended, m.err = true, err
	m.changed.ring()
}

// Wait blocks until count values have been read. It returns the error of End if nothing more will
// be read, and the cause of ctx if that ends before.
func (m *Mark) Wait(ctx context.Context, count uint64) error {
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

// bell wakes all waiting goroutines. The lock of its owner guards it.
type bell chan struct{}

func (b *bell) wait() <-chan struct{} {
	if *b == nil {
		*b = make(bell)
	}
	return *b
}

func (b *bell) ring() {
	if *b != nil {
		close(*b)
		*b = nil
	}
}
