package embedded

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Kubernetes' own controllers end, and are started again, where a real cluster's would have lost their
// lease: after an outage of the API server, or when they stood still. One that is away stays away.
func TestLostElection(t *testing.T) {
	const brief, long = time.Second, time.Minute
	for name, c := range map[string]struct {
		speed     int
		of        string
		action    supervise.Action
		away      time.Duration
		restarted []string
	}{
		"the API server was away for long": {1, apiserver, supervise.Start, long,
			[]string{controllerManager, scheduler}},
		"briefly": {1, apiserver, supervise.Start, brief, nil},
		"briefly, but that is long at this speed": {5, apiserver, supervise.Start, brief,
			[]string{controllerManager, scheduler}},
		"it was halted for long": {1, apiserver, supervise.Resume, long,
			[]string{controllerManager, scheduler}},
		"the scheduler was halted for long": {1, scheduler, supervise.Resume, long,
			[]string{scheduler}},
		"the scheduler was halted briefly":                {1, scheduler, supervise.Resume, brief, nil},
		"etcd was halted for long, and its clients go on": {1, etcd, supervise.Resume, long, nil},
		"the controller manager is halted beside the API server": {1, apiserver, supervise.Start, long,
			[]string{scheduler}},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervise.New(supervise.Options{Dir: t.TempDir()})
			p := (&ControlPlane{o: Options{Supervisor: s, Speed: c.speed}}).ComponentSet().(*componentSet)
			for _, name := range componentNames {
				check.Must(t, s.Start(t.Context(),
					supervise.Spec{Name: name, Path: "/bin/sleep", Args: []string{"60"}}))
				t.Cleanup(func() { _ = s.Kill(name) }) // it may have ended
			}
			pids := func() map[string]int {
				all := map[string]int{}
				for _, st := range s.Status(t.Context(), nil) {
					all[st.Name] = st.PID
				}
				return all
			}
			before := pids()
			halt, restarted := supervise.Pause, map[string]bool{}
			if c.action == supervise.Start {
				halt = supervise.Kill
				restarted[c.of] = true
			}
			check.Must(t, p.Act(t.Context(), c.of, halt))
			if name == "the controller manager is halted beside the API server" {
				check.Must(t, p.Act(t.Context(), controllerManager, supervise.Pause))
			}
			p.downSince[c.of] = time.Now().Add(-c.away)
			check.Must(t, p.Act(t.Context(), c.of, c.action))
			for _, name := range c.restarted {
				restarted[name] = true
			}
			for name, pid := range pids() {
				if started := pid != before[name]; started != restarted[name] {
					t.Errorf("%s was restarted: %t", name, started)
				}
			}
		})
	}
}
