package fuzz

import (
	"cmp"
	"time"
)

const (
	// Speed is that of the sandboxes unless somebody says otherwise: fast enough that a silence that
	// counts takes five seconds, and slow enough that a busy machine is not taken for one. The times
	// below are for it.
	Speed = 5
	// MaxSpeed is the greatest one: from there on Kubernetes takes a Node for dead after four seconds,
	// which the pauses of schedules and the start of a controller reach.
	MaxSpeed = 10
	// patience is how long a trigger is waited for.
	patience = 2 * time.Second
	// noticed is how long Kubernetes' own controllers may take to know that something is gone.
	noticed = time.Second
	// lived is how long bases have been there before they are upgraded: 12.5 s at speed 1 and some more.
	// Before that a controller cannot tell who replaces them from who came with them.
	lived = 3 * time.Second
	// settle is how long everything may take to be as it should after the last disturbance: back-offs,
	// which have become no longer than the disturbance, and the times that Kubernetes needs.
	settle = 30 * time.Second
	// settleSlowly is the same where a jar is replaced by another one of its version, since the pause
	// after one that could not be had is five minutes, at this speed; and where bases are upgraded, or
	// count as dead, since of those one is given up in a minute, at this speed; and where an install may
	// get lost, which is waited for as long.
	settleSlowly = 100 * time.Second
	// quiet is how long nothing may be written in the end, five seconds at this speed.
	quiet = time.Second
	// mostPodWrites is how often the status of a Pod may be written at most: whoever writes more often
	// is in a loop.
	mostPodWrites = 100
	// mostCommands is how often a base may be given the same command for the same version: what fails for
	// as long as a schedule lasts is tried again some ten times, after longer and longer pauses.
	mostCommands = 20
)

// slow says whether it may take settleSlowly until everything is as it should after it.
func (m *move) slow() bool {
	return m.name == newImage || m.name == upgrade || m.may(losesCommands|unreachable)
}

// settle is how long everything may take to be as it should.
func (s Schedule) settle() time.Duration {
	if s.has((*move).slow) {
		return s.slowed(settleSlowly)
	}
	return s.slowed(settle)
}

// speed is that of the sandbox.
func (s Schedule) speed() int { return cmp.Or(s.Speed, Speed) }

// slowed is how long at most what takes so long at Speed takes at the speed of the schedule. What is
// faster may still take as long, since not all of it gets faster.
func (s Schedule) slowed(d time.Duration) time.Duration {
	return max(d, d*Speed/time.Duration(s.speed()))
}
