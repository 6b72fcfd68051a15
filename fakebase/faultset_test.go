package fakebase

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

func TestInjectClearAndExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Identity: "b1"})
		id, err := b.Inject(fault.Fault{Kind: fault.KindSilent})
		if err != nil || id == "" {
			t.Fatal(id, err)
		}
		if _, err := b.Inject(fault.Fault{Kind: fault.KindSilent, ID: id}); !errors.Is(err, fault.ErrExists) {
			t.Errorf("Inject() with the same ID = %v, want ErrExists", err)
		}
		if _, err := b.Inject(fault.Fault{Kind: fault.KindDeaf, ID: "short", For: Duration(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		sleep(59 * time.Second)
		synctest.Wait()
		if n := len(b.Faults()); n != 2 {
			t.Errorf("faults before the expiry = %d", n)
		}
		sleep(time.Second)
		synctest.Wait()
		want := []fault.Status{
			{Fault: fault.Fault{ID: id, Kind: fault.KindSilent, Probability: 1}},
			{Fault: fault.Fault{ID: "short", Kind: fault.KindDeaf, Probability: 1, For: Duration(time.Minute)},
				Ended: fault.Expired},
		}
		if d := cmp.Diff(want, b.Faults(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("faults after the expiry (-want +got):\n%s", d)
		}
		if n := b.Clear("unknown"); n != 0 {
			t.Errorf("Clear() with an unknown ID = %d, want 0", n)
		}
		if n := b.Clear(); n != 2 || len(b.Faults()) != 0 {
			t.Errorf("Clear() = %d, remaining faults = %d", n, len(b.Faults()))
		}
	})
}
