// Package work implements a queue that calls a function for each added key. It is based on the work queue of client-go.
package work

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Options configures a Queue. Do and MaxDelay are required.
type Options[K comparable] struct {
	// Do handles a key, and returns the delay before the next call for this key; 0 means that the next call happens
	// after the next Add. Calls for a key do not overlap.
	Do func(ctx context.Context, key K) (requeueAfter time.Duration, err error)
	// Workers is the maximum number of concurrent calls of Do; 0 means no limit.
	Workers int
	// MinDelay and MaxDelay are the minimum and maximum delay after an error. The delay doubles with each consecutive
	// error. Default of MinDelay: 500 ms, but at most MaxDelay.
	MinDelay, MaxDelay time.Duration
	// Message and Attrs are the text and the attributes of the log line for an error of Do. The first of several
	// consecutive errors is logged as a warning, the following errors at debug level.
	Message string
	Attrs   func(key K) []any
	// Clock is the clock. Default: the real clock.
	Clock  clock.WithTicker
	Logger *slog.Logger
}

// Queue calls Options.Do for each key that is added. Its methods may be called concurrently.
type Queue[K comparable] struct {
	o    Options[K]
	keys workqueue.TypedRateLimitingInterface[K]
	busy atomic.Int64
}

// New returns a Queue. Added keys are only queued until Run is called.
func New[K comparable](o Options[K]) *Queue[K] {
	o.MinDelay = min(cmp.Or(o.MinDelay, 500*time.Millisecond), o.MaxDelay)
	return &Queue[K]{o: o, keys: workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](o.MinDelay, o.MaxDelay),
		workqueue.TypedRateLimitingQueueConfig[K]{Clock: o.Clock},
	)}
}

// Add queues a key. It does not block. A key that is being handled is handled again afterwards.
func (q *Queue[K]) Add(key K) { q.keys.Add(key) }

// AddAfter queues a key after a delay. It does not block.
func (q *Queue[K]) AddAfter(key K, d time.Duration) { q.keys.AddAfter(key, d) }

// Len returns the number of keys that wait to be handled.
func (q *Queue[K]) Len() int { return q.keys.Len() }

// Pending returns the number of keys that are being handled or wait to be handled.
func (q *Queue[K]) Pending() int { return int(q.busy.Load()) + q.keys.Len() }

// IsBehind reports whether keys wait because all workers are busy.
func (q *Queue[K]) IsBehind() bool {
	return q.o.Workers > 0 && q.busy.Load() >= int64(q.o.Workers) && q.keys.Len() > 0
}

// Run handles keys until ctx is done, and returns when all calls of Do have returned. Call it once.
func (q *Queue[K]) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, q.keys.ShutDown)()
	var workers errgroup.Group
	workers.SetLimit(cmp.Or(q.o.Workers, -1))
	for {
		key, shutdown := q.keys.Get()
		if shutdown {
			break
		}
		workers.Go(func() error {
			defer q.keys.Done(key)
			if ctx.Err() == nil {
				q.handle(ctx, key)
			}
			return nil
		})
	}
	_ = workers.Wait() // no worker returns an error
}

func (q *Queue[K]) handle(ctx context.Context, key K) {
	q.busy.Add(1)
	defer q.busy.Add(-1)
	again, err := q.o.Do(ctx, key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		level := slog.LevelWarn
		if q.keys.NumRequeues(key) > 0 {
			level = slog.LevelDebug
		}
		q.o.Logger.Log(ctx, level, q.o.Message, append(q.o.Attrs(key), "err", err)...)
		q.keys.AddRateLimited(key)
	default:
		q.keys.Forget(key)
		if again > 0 {
			q.keys.AddAfter(key, again)
		}
	}
}
