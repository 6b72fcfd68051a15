package fakebase

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// A module that somebody takes away himself is in no list any more, and nobody is told.
func TestUninstalledByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := rig(t, Options{})
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
		pass(time.Second)
		if got := names(); len(got) != 2 {
			t.Errorf("before the delay is over there are %v", got)
		}
		pass(2 * time.Second)
		if diff := cmp.Diff([]string{"biz2:1.0.0"}, names()); diff != "" {
			t.Errorf("modules (-want +got):\n%s", diff)
		}
		w.send(topic+"queryAllBiz", "{}")
		w.next("base/simpleBiz") // nothing came before
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		b.Clear(id)
		if got := names(); len(got) != 2 {
			t.Errorf("what comes later goes too: %v", got)
		}
	})
}
