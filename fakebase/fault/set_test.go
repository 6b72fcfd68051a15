package fault_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// TestSet checks that an ended fault stays in the list until it is cleared, and that Done is closed when a fault
// expires or is cleared, but not when its count is reached.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		s := fault.Set[string]{Mutex: &mu}
		s.OnTriggered = func(a *fault.Active[string]) { log = append(log, a.ID+" triggered") }
		s.OnEnded = func(a *fault.Active[string]) { log = append(log, a.ID+" ended: "+a.Ended) }
		add := func(r fault.Rule) *fault.Active[string] {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			a, err := s.Add(r, "")
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		isDone := func(a *fault.Active[string]) bool {
			select {
			case <-a.Done:
				return true
			default:
				return false
			}
		}
		once := add(fault.Rule{ID: "once", Skip: 1, Count: 1})
		var triggered []bool
		for range 3 {
			trigger := once.ShouldTrigger()
			triggered = append(triggered, trigger)
			if trigger {
				s.RecordTrigger(once)
			}
		}
		if d := cmp.Diff([]bool{false, true, false}, triggered); d != "" || isDone(once) || !s.None() {
			t.Errorf("triggered (-want +got):\n%s\ndone = %t, None() = %t; want false, true", d, isDone(once), s.None())
		}
		add(fault.Rule{ID: "once", Scope: "other"})
		once = add(fault.Rule{ID: "once"}) // the ID of an ended fault can be used again
		if _, err := s.Add(fault.Rule{ID: "once"}, ""); err == nil {
			t.Error("Add() with the ID of a fault in effect, want an error")
		}
		short := add(fault.Rule{ID: "short", For: time.Second})
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if short.Ended != fault.Expired || !isDone(short) || isDone(once) {
			t.Errorf("Ended = %q, done = %t and %t", short.Ended, isDone(short), isDone(once))
		}
		if cleared := s.Clear(func(a *fault.Active[string]) bool { return a.Scope == "" }); len(cleared) != 2 ||
			!isDone(once) {
			t.Errorf("cleared faults = %d, done = %t; want 2, true", len(cleared), isDone(once))
		}
		remaining := 0
		for range s.All() {
			remaining++
		}
		if remaining != 1 || s.None() {
			t.Errorf("remaining faults = %d, None() = %t; want 1, false", remaining, s.None())
		}
		if d := cmp.Diff([]string{"once triggered", "once ended: " + fault.UsedUp, "short ended: " + fault.Expired,
			"once ended: " + fault.Cleared}, log); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
	})
}

// TestProbability checks that a fault is triggered by about the given share of its matches, and that its seed
// determines which matches trigger it.
func TestProbability(t *testing.T) {
	const matches = 1000
	triggers := func(probability float64, seed uint64) (all []bool, n int) {
		var s fault.Set[string]
		a, err := s.Add(fault.Rule{Probability: probability, Seed: seed}, "")
		if err != nil {
			t.Fatal(err)
		}
		for range matches {
			trigger := a.ShouldTrigger()
			all = append(all, trigger)
			if trigger {
				n++
				s.RecordTrigger(a)
			}
		}
		return all, n
	}
	for _, tt := range []struct {
		probability float64
		min, max    int
	}{{0, matches, matches}, {0.001, 0, 20}, {0.25, 200, 300}, {1, matches, matches}} {
		if _, n := triggers(tt.probability, 7); n < tt.min || n > tt.max {
			t.Errorf("probability %v: %d of %d matches trigger the fault, want %d to %d", tt.probability, n, matches,
				tt.min, tt.max)
		}
	}
	first, _ := triggers(0.5, 7)
	again, _ := triggers(0.5, 7)
	other, _ := triggers(0.5, 8)
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Errorf("same triggers with the same seed: %t, with another seed: %t; want true, false",
			slices.Equal(first, again), slices.Equal(first, other))
	}
}

// TestCancelTrigger checks that a canceled trigger does not count, and that a trigger counts before it is recorded.
func TestCancelTrigger(t *testing.T) {
	var s fault.Set[string]
	a, err := s.Add(fault.Rule{Count: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	triggered := []bool{a.ShouldTrigger(), a.ShouldTrigger()}
	a.CancelTrigger()
	triggered = append(triggered, a.ShouldTrigger(), a.ShouldTrigger())
	if d := cmp.Diff([]bool{true, false, true, false}, triggered); d != "" || a.Triggered != 0 || a.Ended != "" {
		t.Errorf("triggered (-want +got):\n%s\nTriggered = %d, Ended = %q; want 0 and none", d, a.Triggered, a.Ended)
	}
	s.RecordTrigger(a)
	if a.Triggered != 1 || a.Ended != fault.UsedUp {
		t.Errorf("Triggered = %d, Ended = %q; want 1, %q", a.Triggered, a.Ended, fault.UsedUp)
	}
}
