package vpod

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// wantRestarts checks the restart count of a module. After a restart, it also checks that the last termination state
// is set.
func (w *fixture) wantRestarts(name string, want int32) {
	w.t.Helper()
	c := w.pod(name).Status.ContainerStatuses[0]
	if c.RestartCount != want {
		w.t.Errorf("pod %s: %d restarts, want %d", name, c.RestartCount, want)
	}
	if ended := c.LastTerminationState.Terminated; (ended != nil) != (want > 0) ||
		ended != nil && (ended.Reason != api.ReasonGone || ended.StartedAt.IsZero() ||
			ended.FinishedAt.Before(&ended.StartedAt)) {
		w.t.Errorf("pod %s: unexpected last termination state %v", name, ended)
	}
}

func TestRestarts(t *testing.T) {
	runTest(t, "replaced jar", Options{Drain: -1}, func(_ *testing.T, w *fixture) {
		w.create("p1", containerWithJar("1", "v0"))
		w.advance(time.Second)
		w.wantRestarts("p1", 0)
		w.setImage("p1", "v1")
		w.advance(time.Minute)
		w.wantSummary("p1", "Running Ready")
		w.wantRestarts("p1", 1)
	})
	runTest(t, "base restarts twice", Options{}, func(_ *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		for i := range int32(3) {
			w.advance(time.Minute)
			w.wantSummary("p1", "Running Ready")
			w.wantRestarts("p1", i)
			w.base.loseModules()
		}
	})
	runTest(t, "switch to another version and back: no restart", Options{}, func(_ *testing.T, w *fixture) {
		w.overHTTP()
		w.base.change(func(b *fakeBase) { b.mode = activateNew })
		w.create("p1", container("biz1", "1"))
		w.advance(time.Minute)
		w.base.change(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "2"}) }) // by another client
		w.base.sendList()
		w.advance(time.Minute)
		w.wantSummary("p1", "Running Ready")
		w.wantRestarts("p1", 0)
	})
}
