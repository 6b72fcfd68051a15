package fakebase

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestFollowTellsTheStateAfterEachEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		type seen struct {
			Kind                      EventKind
			Running, Ready, Connected bool
			Modules                   int
		}
		var got []seen
		b, err := New(Options{Identity: "b1", MQTT: &MQTTOptions{Dial: w.dial}, Catalogue: &Catalogue{Fetch: FetchNever}})
		if err != nil {
			t.Fatal(err)
		}
		now, stop := b.Follow(func(e Event, after Status) {
			got = append(got, seen{e.Kind, after.Running, after.Ready, after.Connected, len(after.Biz)})
		})
		if now.Running {
			t.Errorf("before the start: %+v", now)
		}
		begin(t, b)
		w.next("base/heart")
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		if err := b.Restart(""); err != nil {
			t.Fatal(err)
		}
		w.next("base/heart")
		synctest.Wait()
		stop()
		want := []seen{
			{EventUp, true, false, false, 0}, {EventReady, true, true, false, 0}, {EventConnected, true, true, true, 0},
			{EventBiz, true, true, true, 1}, {EventBiz, true, true, true, 1},
			{EventDown, false, false, false, 0},
			{EventUp, true, false, false, 0}, {EventReady, true, true, false, 0}, {EventConnected, true, true, true, 0},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("seen (-want +got):\n%s", d)
		}
	})
}
