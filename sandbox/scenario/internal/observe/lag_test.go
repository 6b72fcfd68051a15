package observe

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// The time of a write does not depend on how late a watch delivers it.
func TestTimeOfLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last atomic.Uint64
		last.Store(10)
		w, pods := newWorld(t)
		w.o.Now, w.unstarted = time.Now, nil // nobody but the test tells of Pods
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

		var got []time.Duration
		for _, e := range w.Events() {
			if e.Pod != nil {
				got = append(got, e.Time.Sub(began))
			}
		}
		want := []time.Duration{
			0,
			500 * time.Millisecond,
			time.Second,             // delivered at 3.9 s
			5900 * time.Millisecond, // no mark covers it
			8900 * time.Millisecond, // a list delivered it
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("times of the writes (-want +got):\n%s", diff)
		}
		if lag := w.Lag(); lag != 2900*time.Millisecond {
			t.Errorf("the lag is %v, want 2.9s: it was written at 1s at the latest, and told at 3.9s", lag)
		}
	})
}

// One watch tells in the order of the writes, whatever the bounds of their times say.
func TestWritesOfOneWatchStayInOrder(t *testing.T) {
	w, pods := newWorld(t)
	began := time.Now()
	now := began
	w.o.Now = func() time.Time { return now }
	at := func(d time.Duration) time.Time { return began.Add(d) }
	must(t, pods.Replace([]any{pod(t, "3", "a", "", "True"), pod(t, "4", "b", "", "False")}, "10"))
	now = at(time.Second)
	must(t, pods.Update(pod(t, "11", "a", "", "False"))) // told when no answer had bounded it yet
	w.marks = []writeMark{{12, at(990 * time.Millisecond)}}
	now = at(2 * time.Second)
	must(t, pods.Update(pod(t, "12", "b", "", "True"))) // written before 990 ms, but after the other
	var got []time.Duration
	for _, e := range w.Events() {
		if e.Pod != nil {
			got = append(got, e.Time.Sub(began))
		}
	}
	if n := len(got); !slices.IsSorted(got) || n < 4 || got[n-1] != time.Second {
		t.Errorf("times %v", got)
	}
}

// The daemon's events have their times themselves; those that tell what was are not late.
func TestLagOfTheDaemonsEvents(t *testing.T) {
	w, _ := newWorld(t)
	up := events.Event{Time: w.o.Now().Add(-time.Minute),
		Base: &events.BaseEvent{Base: "base-1", Change: events.BaseUp}}
	w.AddEvent(up)
	w.AddEvent(events.Event{Synced: true})
	if lag := w.Lag(); lag != 0 {
		t.Errorf("what was before is %v late", lag)
	}
	up.Time = w.o.Now().Add(-2 * time.Second)
	w.AddEvent(up)
	if lag := w.Lag(); lag != 2*time.Second {
		t.Errorf("the lag is %v, want 2s", lag)
	}
}
