package vpod

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// A Pod is not Ready while its base reports another state than ACTIVATED, even if the base answers no command.
func TestReportedStates(t *testing.T) {
	for state, want := range map[arklet.State]string{
		arklet.StateResolved: "waiting", arklet.StateDeactivated: "waiting", arklet.StateBroken: "waiting",
		arklet.StateStopped: "terminated",
	} {
		in(t, string(state), Options{}, func(t *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(time.Minute)
			w.wantShow("p1", "Running Ready")
			w.base.with(func(b *fakeBase) {
				b.mute = true
				b.set(0, state, "REPORTED")
			})
			w.base.tell()
			w.pass(time.Second)
			c, got := w.pod("p1").Status.ContainerStatuses[0], "running"
			switch {
			case c.State.Waiting != nil:
				got = "waiting"
			case c.State.Terminated != nil:
				got = "terminated"
			}
			if c.Ready || got != want {
				t.Errorf("the container is %s, ready %t; want %s and not ready", got, c.Ready, want)
			}
		})
	}
}
