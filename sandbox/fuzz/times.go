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
	// patience is the maximum time to wait for a trigger.
	patience = 2 * time.Second
	// noticed is the time that the controllers of Kubernetes may need to notice a deletion.
	noticed = time.Second
	// lived is the minimum age of bases before they are upgraded. The controller cannot tell new bases from the bases
	// that they replace before 12.5 s at speed 1.
	lived = 3 * time.Second
	// settle is the maximum time from the end of the last disturbance until the final state is reached. It covers
	// back-offs, which are at most as long as the disturbance, and the times of Kubernetes.
	settle = 30 * time.Second
	// settleSlowly is the same for moves with long pauses in the controller: after a failed download of an image, between
	// the removals of two unreachable bases, and until the timeout of a lost install.
	settleSlowly = 100 * time.Second
	// quiet is the time without writes at the end of a schedule.
	quiet = time.Second
	// mostPodWrites is the maximum number of status updates per Pod. A controller that writes more often is in a loop.
	mostPodWrites = 100
	// mostCommands is the maximum number of equal commands per base and version. A failing command is repeated about
	// ten times during a schedule, with growing pauses.
	mostCommands = 20
)

// slow reports whether the final state may take settleSlowly after the move.
func (m *actionSpec) slow() bool {
	return m.name == newImage || m.name == upgrade || m.mayCause(losesCommands|unreachable)
}

func (s Schedule) settle() time.Duration {
	if s.has((*actionSpec).slow) {
		return s.slowed(settleSlowly)
	}
	return s.slowed(settle)
}

func (s Schedule) speed() int { return cmp.Or(s.Speed, Speed) }

// slowed converts a duration at Speed to the speed of the schedule. It never shortens the duration, since not
// everything is faster at higher speeds.
func (s Schedule) slowed(d time.Duration) time.Duration {
	return max(d, d*Speed/time.Duration(s.speed()))
}
