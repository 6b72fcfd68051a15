package vpod

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// wantRestarts compares how often the module of a Pod has started again.
func (w *world) wantRestarts(name string, want int32) {
	w.t.Helper()
	c := w.pod(name).Status.ContainerStatuses[0]
	if c.RestartCount != want {
		w.t.Errorf("pod %s: %d restarts, want %d", name, c.RestartCount, want)
	}
	if ended := c.LastTerminationState.Terminated; (ended != nil) != (want > 0) ||
		ended != nil && (ended.Reason != api.ReasonGone || ended.StartedAt.IsZero() ||
			ended.FinishedAt.Before(&ended.StartedAt)) {
		w.t.Errorf("pod %s: its last end is %v", name, ended)
	}
}

func TestRestarts(t *testing.T) {
	in(t, "another jar of the version", Options{Drain: -1}, func(_ *testing.T, w *world) {
		w.create("p1", jar("1", "v0"))
		w.pass(time.Second)
		w.wantRestarts("p1", 0)
		w.setImage("p1", "v1")
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		w.wantRestarts("p1", 1)
	})
	in(t, "a base that starts again, twice", Options{}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		for i := range int32(3) {
			w.pass(time.Minute)
			w.wantShow("p1", "Running Ready")
			w.wantRestarts("p1", i)
			w.base.lose()
		}
	})
	in(t, "no restart: a version that was switched away from, and back", Options{}, func(_ *testing.T, w *world) {
		w.overHTTP()
		w.base.with(func(b *fakeBase) { b.mode = activateNew })
		w.create("p1", container("biz1", "1"))
		w.pass(time.Minute)
		w.base.with(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "2"}) }) // by somebody else
		w.base.tell()
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		w.wantRestarts("p1", 0)
	})
}
