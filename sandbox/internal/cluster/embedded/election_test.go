package embedded

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// TestLostElection checks that components that use leader election in a real cluster are restarted when they would
// have lost their election: after an API server outage, or after the component was paused. Stopped components must
// stay stopped.
func TestLostElection(t *testing.T) {
	const brief, long = time.Second, time.Minute
	for name, c := range map[string]struct {
		speed     int
		of        string
		action    supervise.Action
		downtime  time.Duration
		restarted []string
	}{
		"API server down for long": {1, apiserver, supervise.Start, long,
			[]string{controllerManager, scheduler}},
		"API server down briefly": {1, apiserver, supervise.Start, brief, nil},
		"API server down briefly at speed 5": {5, apiserver, supervise.Start, brief,
			[]string{controllerManager, scheduler}},
		"API server paused for long": {1, apiserver, supervise.Resume, long,
			[]string{controllerManager, scheduler}},
		"scheduler paused for long": {1, scheduler, supervise.Resume, long,
			[]string{scheduler}},
		"scheduler paused briefly": {1, scheduler, supervise.Resume, brief, nil},
		"etcd paused for long":     {1, etcd, supervise.Resume, long, nil},
		"controller manager paused while API server is down": {1, apiserver, supervise.Start, long,
			[]string{scheduler}},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervise.New(supervise.Options{Dir: t.TempDir()})
			p := (&ControlPlane{o: Options{Supervisor: s, Speed: c.speed}}).ComponentSet().(*componentSet)
			for _, name := range componentNames {
				check.Must(t, s.Start(t.Context(),
					supervise.Spec{Name: name, Path: "/bin/sleep", Args: []string{"60"}}))
				t.Cleanup(func() { _ = s.Kill(name) }) // it may have ended already
			}
			pids := func() map[string]int {
				all := map[string]int{}
				for _, st := range s.Status(t.Context(), nil) {
					all[st.Name] = st.PID
				}
				return all
			}
			before := pids()
			stop, restarted := supervise.Pause, map[string]bool{}
			if c.action == supervise.Start {
				stop = supervise.Kill
				restarted[c.of] = true
			}
			check.Must(t, p.Act(t.Context(), c.of, stop))
			if name == "controller manager paused while API server is down" {
				check.Must(t, p.Act(t.Context(), controllerManager, supervise.Pause))
			}
			p.downSince[c.of] = time.Now().Add(-c.downtime)
			check.Must(t, p.Act(t.Context(), c.of, c.action))
			for _, name := range c.restarted {
				restarted[name] = true
			}
			for name, pid := range pids() {
				if started := pid != before[name]; started != restarted[name] {
					t.Errorf("%s restarted: %t, want %t", name, started, restarted[name])
				}
			}
		})
	}
}
