package fakebase

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// State, Reason, Record and Biz describe the modules of a base; they are
// spelled as Java's enum constants, such as ACTIVATED and INSTALL_FAILED.
type (
	// State is where a module stands in its life.
	State = ark.State
	// Reason says why a state record was written.
	Reason = ark.Reason
	// Record is one entry of a module's history.
	Record = ark.Record
	// Biz is one installed module.
	Biz = ark.Biz
)

// The states of a module.
const (
	StateUnresolved  = ark.Unresolved
	StateResolved    = ark.Resolved
	StateActivated   = ark.Activated
	StateDeactivated = ark.Deactivated
	StateBroken      = ark.Broken
	StateStopped     = ark.Stopped
)

// EventKind says what an Event reports.
type EventKind string

// The kinds of events.
const (
	// EventBiz: a module changed its state.
	EventBiz EventKind = "biz"
	// EventUp: a process started, without modules.
	EventUp EventKind = "up"
	// EventReady: the base and its static modules have started.
	EventReady EventKind = "ready"
	// EventDown: the process ended, and every module with it.
	EventDown EventKind = "down"
	// EventConnected and EventDisconnected: the MQTT connection came or went.
	EventConnected    EventKind = "connected"
	EventDisconnected EventKind = "disconnected"
)

// Event is one change of a base.
type Event struct {
	// Seq counts the events of a base from 1, without gaps.
	Seq  uint64    `json:"seq"`
	Kind EventKind `json:"kind"`
	// Time is not shifted by a clock skew. Changes that happen together, such as a switch from one version to
	// another, have equal times.
	Time time.Time `json:"time"`
	// Identity is that of the process.
	Identity string `json:"identity"`
	// Biz, Version, From, To, Reason and Message are set for EventBiz.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	From    State  `json:"from,omitempty"`
	To      State  `json:"to,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Watch calls fn with every event from now on, one at a time and in order,
// until stop is called. now is the state before the first of them. fn runs
// while the base is locked: it must be quick and must not call the base or stop.
func (b *Base) Watch(fn func(Event)) (now Status, stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.statusLocked(), b.watchers.Add(fn)
}

// Follow is Watch with the state after each event.
func (b *Base) Follow(fn func(Event, Status)) (now Status, stop func()) {
	return b.Watch(func(e Event) { fn(e, b.statusLocked()) })
}

// emitLocked numbers and delivers an event.
func (b *Base) emitLocked(e Event) {
	b.seq++
	e.Seq = b.seq
	b.watchers.Tell(e)
}
