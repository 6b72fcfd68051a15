package fuzz

import (
	"cmp"
	"time"
)

const (
	// Speed is the usual time scale of the sandboxes. A base is treated as unreachable after five seconds without
	// heartbeats, which delays on a busy machine do not reach. The durations below are for this speed.
	Speed = 5
	// MaxSpeed is the highest time scale. At this speed, Kubernetes marks a Node as unreachable after four seconds. A
	// higher one would be too fast for the start of a controller.
	MaxSpeed = 10
	// triggerTimeout is the maximum time to wait for a trigger.
	triggerTimeout = 2 * time.Second
	// deletionDelay is the maximum time until the controllers of Kubernetes observe a deletion.
	deletionDelay = time.Second
	// minBaseAge is the minimum age of bases before they are upgraded. Until 12.5 s at speed 1, the controller cannot
	// distinguish new bases from the bases that they replace.
	minBaseAge = 3 * time.Second
	// settleTime is the maximum time from the end of the last disruption until the final state is reached. It covers
	// back-offs, which are at most as long as the disruption, and the times of Kubernetes.
	settleTime = 30 * time.Second
	// slowSettleTime replaces settleTime for actions after which the controller waits longer: after a failed download
	// of an image, between the removals of two unreachable bases, and until the timeout of a lost install.
	slowSettleTime = 100 * time.Second
	// quietTime is the time without writes at the end of a schedule.
	quietTime = time.Second
	// maxPodWrites is the maximum number of status updates per Pod. A controller that writes more often is in a loop.
	maxPodWrites = 100
	// maxCommands is the maximum number of equal commands per base and version. A failing command is repeated about
	// ten times during a schedule, with increasing delays.
	maxCommands = 20
)

// slow reports whether the final state may take slowSettleTime after the action.
func (m *actionSpec) slow() bool {
	return m.name == newImage || m.name == upgrade || m.mayCause(losesCommands|unreachable)
}

func (s Schedule) settle() time.Duration {
	if s.has((*actionSpec).slow) {
		return s.slowed(slowSettleTime)
	}
	return s.slowed(settleTime)
}

func (s Schedule) speed() int { return cmp.Or(s.Speed, Speed) }

// slowed converts a duration at Speed to the speed of the schedule. It never shortens the duration, since not
// everything is faster at higher speeds.
func (s Schedule) slowed(d time.Duration) time.Duration {
	return max(d, d*Speed/time.Duration(s.speed()))
}
