package fakebase

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// TestUninstalledFault checks that the fault uninstalled uninstalls a module once, and that the base sends no message
// about it.
func TestUninstalledFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		for _, install := range []string{install1, strings.ReplaceAll(install1, "biz1", "biz2")} {
			w.send(topic+"installBiz", install)
			w.next("base/bizOperation")
		}
		names := func() (all []string) {
			for _, m := range b.Status().Biz {
				all = append(all, m.ID())
			}
			return all
		}
		id := inject(t, b, fault.Fault{Kind: fault.KindUninstalled, Match: fault.Match{Biz: "biz1"},
			Delay: fault.Delay{Min: fault.Duration(2 * time.Second)}})
		sleep(time.Second)
		if got := names(); len(got) != 2 {
			t.Errorf("modules before the end of the delay = %v, want two", got)
		}
		sleep(2 * time.Second)
		if diff := cmp.Diff([]string{"biz2:1.0.0"}, names()); diff != "" {
			t.Errorf("modules (-want +got):\n%s", diff)
		}
		w.send(topic+"queryAllBiz", "{}")
		w.next("base/simpleBiz") // fails if the base has sent another message
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		b.Clear(id)
		if got := names(); len(got) != 2 {
			t.Errorf("modules after a later install = %v, want two", got)
		}
	})
}
