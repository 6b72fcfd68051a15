package base

import (
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
)

// UnobservableReason is the reason why missed heartbeats of a base are ignored. It is also the reason in a Node
// condition and in an Event.
type UnobservableReason string

// Reasons why missed heartbeats are ignored.
const (
	TunnelDown          UnobservableReason = api.ReasonTunnelDown
	ControllerSuspended UnobservableReason = api.ReasonControllerSuspended
	MassOutage          UnobservableReason = api.ReasonMassOutage
	// ControllerBehind means that messages arrive late or are lost. It is not set in the Observed condition, because
	// updating every Node would increase the load.
	ControllerBehind UnobservableReason = "ControllerBehind"
)

// Observation states whether missed heartbeats of a base are evaluated or ignored. The zero value means that they are
// evaluated.
type Observation struct {
	// Reason is the reason why missed heartbeats are ignored; empty if they are evaluated.
	Reason UnobservableReason
	// Since is the time when Reason was set, on the clock of the controller.
	Since time.Time
}

// observe records an observation. If the reason differs from the previous one, observe returns a change; otherwise
// nil.
func (r *record) observe(o Observation) []Change {
	if r.observed.Reason == o.Reason {
		return nil
	}
	r.observed = o
	return []Change{{Kind: ObservedChanged, Identity: r.info.Identity}}
}

// ConnectivityEvent is the start or the end of an episode, a period in which missed heartbeats are ignored.
type ConnectivityEvent struct {
	// Tunnel is the affected tunnel; empty for ControllerSuspended, which affects all tunnels.
	Tunnel string
	Reason UnobservableReason
	Ended  bool
	// Duration is the length of an episode that has ended, or of the suspension of the process.
	Duration time.Duration
	// Missing is the number of bases that miss heartbeats. Bases is the number of all bases of the tunnel. Both are
	// set only for MassOutage.
	Missing, Bases int
}

// tunnelHealth is the connectivity of one tunnel. The zero value means that the tunnel is connected and that its
// messages are not delayed.
type tunnelHealth struct{ disconnected, delayed, massOutage episode }

// episode is a period in which missed heartbeats are ignored.
type episode struct {
	since    time.Time // start of the episode; zero if there is no episode
	reported bool
}

// update records whether the episode continues. It returns a ConnectivityEvent when the episode has lasted for delay,
// and another one when a reported episode ends.
func (e *episode) update(n ConnectivityEvent, active bool, now time.Time, delay time.Duration) []ConnectivityEvent {
	switch {
	case !active && e.reported:
		n = ConnectivityEvent{Reason: n.Reason, Ended: true, Duration: now.Sub(e.since)}
		*e = episode{}
		return []ConnectivityEvent{n}
	case !active:
		*e = episode{}
		return nil
	case e.since.IsZero():
		e.since = now
	}
	if e.reported || now.Sub(e.since) < delay {
		return nil
	}
	e.reported = true
	return []ConnectivityEvent{n}
}

// reportDelay is how long a tunnel must be down before the Nodes of its bases report it. The delay avoids writing
// every Node during a short interruption.
const reportDelay = 5 * time.Second

// suspendDetector detects that the process was suspended.
type suspendDetector struct {
	maxGap          time.Duration // maximum time between two checks that is not treated as a suspension
	monotonic, wall time.Time
}

// check returns how long the process was suspended since the previous call, or 0. It compares the elapsed time on the
// monotonic and the wall clock, and uses the longer one. Some machines stop the monotonic clock while they sleep, and
// the wall clock can be set back.
func (a *suspendDetector) check(monotonic, wall time.Time) time.Duration {
	gap := max(monotonic.Sub(a.monotonic), wall.Sub(a.wall))
	first := a.monotonic.IsZero()
	a.monotonic, a.wall = monotonic, wall
	if first || gap <= a.maxGap {
		return 0
	}
	return gap
}
