package observe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// However late a watch tells of a write, it is known between which questions it happened.
func TestWritesHaveTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last atomic.Uint64
		last.Store(10)
		w, pods := newWorld(t)
		w.o.Now, w.waiting = time.Now, nil // nobody but the test tells of Pods
		w.o.LastWrite = func(context.Context) (uint64, error) {
			if last.Load() == 0 {
				return 0, errors.New("away")
			}
			return last.Load(), nil
		}
		must(t, pods.Replace([]any{pod(t, "3", "a", "", "False")}, "10")) // the beginning
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Start(ctx) }()
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() } // on the test's own clock
		pass(500 * time.Millisecond)                                     // asked at 0, 200 and 400 ms
		last.Store(11)
		must(t, pods.Update(pod(t, "11", "a", "", "True"))) // told at once, before it is asked again
		pass(400 * time.Millisecond)
		last.Store(12) // at 900 ms
		pass(3 * time.Second)
		must(t, pods.Update(pod(t, "12", "a", "", "False"))) // and told at 3.9 s
		last.Store(0)
		pass(2 * time.Second)
		last.Store(15)
		must(t, pods.Update(pod(t, "15", "a", "", "True"))) // while nobody knew the number of a write
		pass(time.Second)
		last.Store(16)
		pass(time.Second)
		last.Store(17)
		pass(time.Second)
		must(t, pods.Replace([]any{pod(t, "17", "a", "", "False")}, "17")) // the watch had broken
		cancel()
		must(t, <-done)

		type when struct{ at, late time.Duration }
		var got []when
		for _, e := range w.Events() {
			if e.Kind == timeline.Pod {
				got = append(got, when{e.Time.Sub(began), e.Late})
			}
		}
		want := []when{
			{0, 0},
			{500 * time.Millisecond, 100 * time.Millisecond},
			{time.Second, 200 * time.Millisecond},
			{5900 * time.Millisecond, 2100 * time.Millisecond}, // 3.8 s is when it was asked last
			// It may have turned Not Ready by a write before 17: at any time after 15, which was the
			// last one at 6.8 s.
			{8900 * time.Millisecond, 2100 * time.Millisecond},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(when{})); diff != "" {
			t.Errorf("times of the writes (-want +got):\n%s", diff)
		}
		if lag := w.Lag(); lag != 2900*time.Millisecond {
			t.Errorf("the lag is %v, want 2.9s: it was written at 1s at the latest, and told at 3.9s", lag)
		}
	})
}

// The daemon's events have their times themselves; those that tell what was are not late.
func TestLagOfTheDaemonsEvents(t *testing.T) {
	w, _ := newWorld(t)
	up := timeline.Event{Time: w.o.Now().Add(-time.Minute), Kind: timeline.Base, Base: "base-1", State: string(timeline.BaseUp)}
	w.Note(up)
	w.Note(timeline.Event{Kind: timeline.Synced})
	if lag := w.Lag(); lag != 0 {
		t.Errorf("what was before is %v late", lag)
	}
	up.Time = w.o.Now().Add(-2 * time.Second)
	w.Note(up)
	if lag := w.Lag(); lag != 2*time.Second {
		t.Errorf("the lag is %v, want 2s", lag)
	}
}
