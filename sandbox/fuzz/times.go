package fuzz

import (
	"cmp"
	"time"
)

const (
	// Speed is the default time scale of the sandboxes. At this speed, a base is treated as unreachable after five
	// seconds without heartbeats, which is longer than delays on a busy machine. The following durations are for this
	// speed.
	Speed = 5
	// MaxSpeed is the highest time scale. At this speed, Kubernetes marks a Node as unreachable after four seconds.
	// At a higher speed, a controller could not start in time.
	MaxSpeed = 10
	// triggerTimeout is how long an action waits for its trigger.
	triggerTimeout = 2 * time.Second
	// deletionDelay is the maximum time until the Kubernetes controllers observe a deletion.
	deletionDelay = time.Second
	// minBaseAge is the minimum age of a base before it is upgraded. During the first 12.5 s (at speed 1), the
	// controller cannot distinguish a new base from the base that it replaces.
	minBaseAge = 3 * time.Second
	// settleTime is the maximum time between the end of the last disruption and the final state. It covers the
	// back-offs, which are at most as long as the disruption, and the delays of Kubernetes.
	settleTime = 30 * time.Second
	// slowSettleTime replaces settleTime for actions after which the controller waits longer: after a failed image
	// download, between the removals of two unreachable bases, and until a lost install command times out.
	slowSettleTime = 100 * time.Second
	// quietTime is how long, at the end of a schedule, the controller must not write to the API.
	quietTime = time.Second
	// maxPodWrites is the maximum number of status updates per Pod. A controller that writes more often is stuck in a
	// loop.
	maxPodWrites = 100
	// maxCommands is the maximum number of identical commands per base and version. A failing command is repeated
	// about ten times during a schedule, with increasing delays.
	maxCommands = 20
)

// slow reports whether the sandbox may need slowSettleTime to reach the final state after the action.
func (m *actionSpec) slow() bool {
	return m.name == newImage || m.name == upgrade || m.mayCause(losesCommands|unreachable)
}

func (s Schedule) settle() time.Duration {
	if s.has((*actionSpec).slow) {
		return s.scaleDuration(slowSettleTime)
	}
	return s.scaleDuration(settleTime)
}

func (s Schedule) speed() int { return cmp.Or(s.Speed, Speed) }

// scaleDuration converts a duration for Speed to a duration for the speed of the schedule. It never shortens the
// duration, because some operations are not faster at higher speeds.
func (s Schedule) scaleDuration(d time.Duration) time.Duration {
	return max(d, d*Speed/time.Duration(s.speed()))
}
