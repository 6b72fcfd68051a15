package work

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// startQueue starts a queue in a synctest bubble. handled returns the keys that the queue has handled so far.
func startQueue(t *testing.T, o Options[string]) (q *Queue[string], handled func() []string) {
	t.Helper()
	var mu sync.Mutex
	var keys []string
	do := o.Do
	o.Do = func(ctx context.Context, key string) (time.Duration, error) {
		mu.Lock()
		keys = append(keys, key)
		mu.Unlock()
		if do == nil {
			return 0, nil
		}
		return do(ctx, key)
	}
	o.Logger, o.Attrs = slog.New(slog.DiscardHandler), func(key string) []any { return []any{"key", key} }
	if o.MaxDelay == 0 {
		o.MaxDelay = time.Minute
	}
	q = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	start := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(keys)
	}
	go func() { defer close(ended); q.Run(ctx) }()
	return q, start
}

func TestQueueDoesNotHandleAKeyConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		q, handled := startQueue(t, Options[string]{
			Do: func(context.Context, string) (time.Duration, error) { <-release; return 0, nil }})
		q.Add("a")
		synctest.Wait()
		q.Add("a")
		q.Add("a")
		q.Add("b")
		synctest.Wait()
		if got := handled(); !slices.Equal(got, []string{"a", "b"}) || q.Pending() != 2 {
			t.Fatalf("handled %q, depth %d while a is being handled; want a and b, depth 2", got, q.Pending())
		}
		close(release)
		synctest.Wait()
		if got := handled(); !slices.Equal(got, []string{"a", "b", "a"}) || q.Pending() != 0 {
			t.Errorf("handled %q, depth %d; want a, b and a, depth 0", got, q.Pending())
		}
	})
}

func TestQueueDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		failures := 4
		q, _ := startQueue(t, Options[string]{MaxDelay: 2 * time.Second,
			Do: func(context.Context, string) (time.Duration, error) {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(start))
				failures--
				if failures >= 0 {
					return 0, errors.New("fails")
				}
				if len(at) < 6 {
					return time.Minute, nil
				}
				return 0, nil
			}})
		q.Add("a")
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond,
			5500 * time.Millisecond, time.Minute + 5500*time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("handled at %s; want %s", at, want)
		}
	})
}

func TestQueueBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		q, _ := startQueue(t, Options[string]{Workers: 1,
			Do: func(context.Context, string) (time.Duration, error) { <-release; return 0, nil }})
		q.Add("a")
		synctest.Wait()
		if q.IsBehind() {
			t.Error("Behind returns true although no key waits")
		}
		for _, key := range []string{"b", "c"} {
			q.Add(key)
			synctest.Wait()
		}
		if !q.IsBehind() {
			t.Error("Behind returns false although keys wait")
		}
		close(release)
	})
}
