package fault_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// A fault that has ended stays listed until it is cleared. What it holds back goes on when its count is reached, and
// is released when its time is over or it is cleared.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		s := fault.Set[string]{Mutex: &mu}
		s.OnTriggered = func(a *fault.Active[string]) { told = append(told, a.ID+" fired") }
		s.OnEnded = func(a *fault.Active[string]) { told = append(told, a.ID+" ended: "+a.Ended) }
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
		gone := func(a *fault.Active[string]) bool {
			select {
			case <-a.Done:
				return true
			default:
				return false
			}
		}
		once := add(fault.Rule{ID: "once", Skip: 1, Count: 1})
		var struck []bool
		for range 3 {
			hit := once.ShouldTrigger()
			struck = append(struck, hit)
			if hit {
				s.RecordTrigger(once)
			}
		}
		if d := cmp.Diff([]bool{false, true, false}, struck); d != "" || gone(once) || !s.None() {
			t.Errorf("struck %s, gone %t, none %t", d, gone(once), s.None())
		}
		add(fault.Rule{ID: "once", Scope: "other"})
		once = add(fault.Rule{ID: "once"}) // the id of one that has ended is free
		if _, err := s.Add(fault.Rule{ID: "once"}, ""); err == nil {
			t.Error("an id is there twice")
		}
		short := add(fault.Rule{ID: "short", For: time.Second})
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if short.Ended != fault.Expired || !gone(short) || gone(once) {
			t.Errorf("ended %q, gone %t and %t", short.Ended, gone(short), gone(once))
		}
		if cleared := s.Clear(func(a *fault.Active[string]) bool { return a.Scope == "" }); len(cleared) != 2 ||
			!gone(once) {
			t.Errorf("cleared %d, gone %t", len(cleared), gone(once))
		}
		left := 0
		for range s.All() {
			left++
		}
		if left != 1 || s.None() {
			t.Errorf("%d are left, none in effect: %t", left, s.None())
		}
		if d := cmp.Diff([]string{"once fired", "once ended: " + fault.UsedUp, "short ended: " + fault.Expired,
			"once ended: " + fault.Cleared}, told); d != "" {
			t.Errorf("told (-want +got):\n%s", d)
		}
	})
}
