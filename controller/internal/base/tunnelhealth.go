package base

import (
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
)

// UnobservableReason is the reason why missed heartbeats of a base are ignored. It is the reason of a Node condition and of an
// Event.
type UnobservableReason string

// The reasons why missed heartbeats are ignored.
const (
	TunnelDown          UnobservableReason = api.ReasonTunnelDown
	ControllerSuspended UnobservableReason = api.ReasonControllerSuspended
	MassOutage          UnobservableReason = api.ReasonMassOutage
	// ControllerBehind is not shown in the condition, because writing each Node would increase the load.
	ControllerBehind UnobservableReason = "ControllerBehind"
)

// Observation reports whether missed heartbeats of a base are evaluated. The zero value means yes.
type Observation struct {
	// Reason is the reason why they are ignored, or empty.
	Reason UnobservableReason
	// Since is when that began, on the controller's clock.
	Since time.Time
}

// observe records an observation and returns the change. A different time is no change.
func (r *record) observe(o Observation) []Change {
	if r.observed.Reason == o.Reason {
		return nil
	}
	r.observed = o
	return []Change{{Kind: ObservedChanged, Identity: r.info.Identity}}
}

// ConnectivityEvent is the begin or the end of an episode in which missed heartbeats are ignored.
type ConnectivityEvent struct {
	// Tunnel is empty for ControllerSuspended, which concerns all tunnels.
	Tunnel string
	Reason UnobservableReason
	Ended  bool
	// Duration is set if Ended is true, and for ControllerSuspended.
	Duration time.Duration
	// Missing is the number of Bases that miss heartbeats, for MassOutage.
	Missing, Bases int
}

// sight is the state of one tunnel. The zero value is a tunnel that works.
type sight struct{ down, late, mass episode }

// episode is a time during which missed heartbeats are ignored.
type episode struct {
	since    time.Time // zero if it has not begun
	reported bool
}

// update records whether the episode goes on. It returns ConnectivityEvent when the episode has lasted for delay, and when an
// episode that was reported ends.
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

// tellAfter is how long a tunnel is down before that is reported on the Nodes. Short interruptions are not worth a
// write for each Node.
const tellAfter = 5 * time.Second

// awake detects that the process was suspended. Messages were lost in the meantime, or wait.
type awake struct {
	atMost     time.Duration // between two looks
	mono, wall time.Time
}

// look returns how long the process was suspended, or 0. Some machines stop the monotonic clock while they sleep, and
// the wall clock may be set, so the longer gap counts.
func (a *awake) look(mono, wall time.Time) time.Duration {
	gap := max(mono.Sub(a.mono), wall.Sub(a.wall))
	first := a.mono.IsZero()
	a.mono, a.wall = mono, wall
	if first || gap <= a.atMost {
		return 0
	}
	return gap
}
