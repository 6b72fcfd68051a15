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

// TestTimeOfLateWrites checks that the recorded time of a write does not depend on how late a watch delivers its
// event.
func TestTimeOfLateWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last atomic.Uint64
		last.Store(10)
		w, pods := newTestRecorder(t)
		w.o.Now, w.unstarted = time.Now, nil // only the test adds Pods
		w.o.LastWrite = func(context.Context) (uint64, error) {
			if last.Load() == 0 {
				return 0, errors.New("away")
			}
			return last.Load(), nil
		}
		must(t, pods.Replace([]any{pod(t, "3", "a", "", "False")}, "10")) // the initial list
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Start(ctx) }()
		sleep := func(d time.Duration) { time.Sleep(d); synctest.Wait() } // fake clock of the test
		sleep(500 * time.Millisecond)                                     // versions are requested at 0, 200 and 400 ms
		last.Store(11)
		must(t, pods.Update(pod(t, "11", "a", "", "True"))) // delivered immediately, before the next request
		sleep(400 * time.Millisecond)
		last.Store(12) // at 900 ms
		sleep(3 * time.Second)
		must(t, pods.Update(pod(t, "12", "a", "", "False"))) // delivered at 3.9 s
		last.Store(0)
		sleep(2 * time.Second)
		last.Store(15)
		must(t, pods.Update(pod(t, "15", "a", "", "True"))) // while versions are unknown
		sleep(time.Second)
		last.Store(16)
		sleep(time.Second)
		last.Store(17)
		sleep(time.Second)
		must(t, pods.Replace([]any{pod(t, "17", "a", "", "False")}, "17")) // after an interrupted watch
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
			t.Errorf("lag %v, want 2.9s: written at 1s at the latest, delivered at 3.9s", lag)
		}
	})
}

// TestTimesOfOneWatchAreOrdered checks that the recorded times of the events of one watch are in the order of the
// writes.
func TestTimesOfOneWatchAreOrdered(t *testing.T) {
	w, pods := newTestRecorder(t)
	began := time.Now()
	now := began
	w.o.Now = func() time.Time { return now }
	at := func(d time.Duration) time.Time { return began.Add(d) }
	must(t, pods.Replace([]any{pod(t, "3", "a", "", "True"), pod(t, "4", "b", "", "False")}, "10"))
	now = at(time.Second)
	must(t, pods.Update(pod(t, "11", "a", "", "False"))) // delivered before the first mark
	w.marks = []writeMark{{12, at(990 * time.Millisecond)}}
	now = at(2 * time.Second)
	must(t, pods.Update(pod(t, "12", "b", "", "True"))) // written before 990 ms, but after the other write
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

// TestLagOfDaemonEvents checks that the lag is computed from the times that daemon events carry. Events of the
// daemon's initial state must not be treated as late.
func TestLagOfDaemonEvents(t *testing.T) {
	w, _ := newTestRecorder(t)
	up := events.Event{Time: w.o.Now().Add(-time.Minute),
		Base: &events.BaseEvent{Base: "base-1", Change: events.BaseUp}}
	w.AddEvent(up)
	w.AddEvent(events.Event{Synced: true})
	if lag := w.Lag(); lag != 0 {
		t.Errorf("lag of the initial state is %v", lag)
	}
	up.Time = w.o.Now().Add(-2 * time.Second)
	w.AddEvent(up)
	if lag := w.Lag(); lag != 2*time.Second {
		t.Errorf("lag %v, want 2s", lag)
	}
}
