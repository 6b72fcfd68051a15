package vpod

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// TestReportedStates checks that a Pod is Not Ready while its base reports a module state other than ACTIVATED, even
// if the base answers no commands.
func TestReportedStates(t *testing.T) {
	for state, want := range map[arklet.State]string{
		arklet.StateResolved: "waiting", arklet.StateDeactivated: "waiting", arklet.StateBroken: "waiting",
		arklet.StateStopped: "terminated",
	} {
		runTest(t, string(state), Options{}, func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Minute)
			w.wantSummary("p1", "Running Ready")
			w.base.change(func(b *fakeBase) {
				b.ignoreAll = true
				b.set(0, state, "REPORTED")
			})
			w.base.sendList()
			w.advance(time.Second)
			c, got := w.pod("p1").Status.ContainerStatuses[0], "running"
			switch {
			case c.State.Waiting != nil:
				got = "waiting"
			case c.State.Terminated != nil:
				got = "terminated"
			}
			if c.Ready || got != want {
				t.Errorf("container is %s, ready is %t; want %s and not ready", got, c.Ready, want)
			}
		})
	}
}
