package base

import (
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
)

// UnobservableReason is the reason why missed heartbeats of a base are ignored. It is the reason of a Node condition
// and of an Event.
type UnobservableReason string

// The reasons why missed heartbeats are ignored.
const (
	TunnelDown          UnobservableReason = api.ReasonTunnelDown
	ControllerSuspended UnobservableReason = api.ReasonControllerSuspended
	MassOutage          UnobservableReason = api.ReasonMassOutage
	// ControllerBehind is not shown in the condition, because writing each Node would increase the load.
	ControllerBehind UnobservableReason = "ControllerBehind"
)

// Observation states whether missed heartbeats of a base count. The zero value means that they count.
type Observation struct {
	// Reason is the reason why they are ignored, or empty.
	Reason UnobservableReason
	// Since is when the reason began to apply, on the clock of the controller.
	Since time.Time
}

// observe records an observation. It returns a change if the reason is different.
func (r *record) observe(o Observation) []Change {
	if r.observed.Reason == o.Reason {
		return nil
	}
	r.observed = o
	return []Change{{Kind: ObservedChanged, Identity: r.info.Identity}}
}

// ConnectivityEvent is the start or the end of an episode in which missed heartbeats are ignored.
type ConnectivityEvent struct {
	// Tunnel is empty for ControllerSuspended, which concerns all tunnels.
	Tunnel string
	Reason UnobservableReason
	Ended  bool
	// Duration is the length of an episode that has ended, or how long the process was suspended.
	Duration time.Duration
	// Missing is the number of bases that miss heartbeats, and Bases the number of all bases of the tunnel. They are
	// set for MassOutage.
	Missing, Bases int
}

// tunnelHealth is the state of one tunnel. The zero value is a connected tunnel without delays.
type tunnelHealth struct{ down, late, mass episode }

// episode is a period in which missed heartbeats are ignored.
type episode struct {
	since    time.Time // zero if there is no episode
	reported bool
}

// update records whether the episode continues. It returns a ConnectivityEvent when the episode has lasted for delay,
// and when an episode that was reported ends.
func (e *episode) update(n ConnectivityEvent, is bool, now time.Time, delay time.Duration) []ConnectivityEvent {
	switch {
	case !is && e.reported:
		n = ConnectivityEvent{Reason: n.Reason, Ended: true, Duration: now.Sub(e.since)}
		*e = episode{}
		return []ConnectivityEvent{n}
	case !is:
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

// reportDelay is how long a tunnel must be down before its Nodes report it, because the report takes one write per
// Node.
const reportDelay = 5 * time.Second

// suspendDetector detects that the process was suspended.
type suspendDetector struct {
	maxGap     time.Duration // between two checks
	mono, wall time.Time
}

// check returns how long the process was suspended since the last call, or 0. It uses the longer gap of both clocks,
// because some machines stop the monotonic clock while they sleep, and the wall clock can be set.
func (a *suspendDetector) check(mono, wall time.Time) time.Duration {
	gap := max(mono.Sub(a.mono), wall.Sub(a.wall))
	first := a.mono.IsZero()
	a.mono, a.wall = mono, wall
	if first || gap <= a.maxGap {
		return 0
	}
	return gap
}
