package rpc

import (
	"context"
	"errors"
	"sync"
)

// ErrOverflow is what ends a Queue that was not read as fast as it was filled.
var ErrOverflow = errors.New("events were lost: they were not read as fast as they came, and too many waited")

// Queue holds values for one reader, in order. Whoever puts one in never waits, so it may hold
// locks. All methods may be called concurrently. The zero value is ready for use, and holds any
// number.
type Queue[T any] struct {
	mu       sync.Mutex
	limit    int // zero = none
	waiting  []T
	count    uint64 // of all values so far
	overflow bool
	closed   bool
	changed  bell
}

// Limit bounds how many values may wait from now on; those that wait already are kept.
func (q *Queue[T]) Limit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
}

// Put adds values, all or none. If too many wait then, the queue is over: the reader gets what
// waits, and then ErrOverflow.
func (q *Queue[T]) Put(values ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count += uint64(len(values))
	if q.overflow = q.overflow || q.limit > 0 && len(q.waiting)+len(values) > q.limit; !q.overflow {
		q.waiting = append(q.waiting, values...)
	}
	q.changed.ring()
}

// Close says that nothing comes after what has been put in.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.ring()
}

// Count is how many values have been put in so far.
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

// After is an answer that counts when the values that were put into a Queue before it have been
// read.
type After[T any] struct {
	Answer T `json:"answer"`
	// Count is that of the Queue.
	Count uint64 `json:"count"`
}

// Mark is how much of another process's Queue has been read here. All methods may be called
// concurrently. The zero value is the beginning.
type Mark struct {
	mu      sync.Mutex
	count   uint64
	ended   bool
	err     error
	changed bell
}

// Add notes that one more value has been read.
func (m *Mark) Add() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	m.changed.ring()
}

// End notes that nothing more will be read, and why; nil = it is as it should be.
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
