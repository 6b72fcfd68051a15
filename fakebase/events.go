package fakebase

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// State, Reason, Record and Biz describe the modules of a base. States and reasons are the names of Java enums, such as
// ACTIVATED and INSTALL_FAILED.
type (
	// State is the state of a module.
	State = ark.State
	// Reason is the reason for a state change.
	Reason = ark.Reason
	// Record is an entry in the state history of a module.
	Record = ark.Record
	// Biz is an installed module.
	Biz = ark.Biz
)

// Possible states of a module.
const (
	StateUnresolved  = ark.Unresolved
	StateResolved    = ark.Resolved
	StateActivated   = ark.Activated
	StateDeactivated = ark.Deactivated
	StateBroken      = ark.Broken
	StateStopped     = ark.Stopped
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events that a base emits.
const (
	// EventBiz: the state of a module has changed.
	EventBiz EventKind = "biz"
	// EventUp: a process of the base has started. It has no modules yet.
	EventUp EventKind = "up"
	// EventReady: the base and its static modules have started.
	EventReady EventKind = "ready"
	// EventDown: the process and all its modules have ended.
	EventDown EventKind = "down"
	// EventConnected and EventDisconnected: the base has connected to the broker, or has lost its connection.
	EventConnected    EventKind = "connected"
	EventDisconnected EventKind = "disconnected"
	// EventHealth: the health, the readiness or the metaspace usage has changed. The first EventHealth follows EventUp.
	EventHealth EventKind = "health"
)

// Event is a change of the state of a base.
type Event struct {
	// Seq is the sequence number of the event. It starts at 1 and has no gaps.
	Seq  uint64    `json:"seq"`
	Kind EventKind `json:"kind"`
	// Time is the time of the event. It is not affected by clockSkew faults. Changes that happen together, such as a
	// switch from one version to another, have equal times.
	Time time.Time `json:"time"`
	// Identity is the identity of the process.
	Identity string `json:"identity"`
	// Biz, Version, From, To, Reason and Message describe the change of a module. They are set only for EventBiz.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	From    State  `json:"from,omitempty"`
	To      State  `json:"to,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Health, Readiness and Metaspace are the values of Status after the change. They are set only for EventHealth.
	Health    string          `json:"health,omitempty"`
	Readiness string          `json:"readiness,omitempty"`
	Metaspace MetaspaceStatus `json:"metaspace,omitzero"`
}

// Watch calls fn with all later events, one at a time and in order, until stop is called. now is the status of the
// base before the first of these events. The base is locked during the calls. Therefore, fn must return quickly, and
// must call neither methods of the base nor stop.
func (b *Base) Watch(fn func(Event)) (now Status, stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.statusLocked(), b.watchers.Add(fn)
}

// WatchStatus is like Watch, but also passes fn the status of the base after the event.
func (b *Base) WatchStatus(fn func(Event, Status)) (now Status, stop func()) {
	return b.Watch(func(e Event) { fn(e, b.statusLocked()) })
}

// emitLocked assigns the sequence number of an event, and delivers the event. The caller holds b.mu.
func (b *Base) emitLocked(e Event) {
	b.seq++
	e.Seq = b.seq
	b.watchers.Notify(e)
	if e.Kind != EventHealth {
		b.emitHealthLocked()
	}
}

// emitHealthLocked emits EventHealth if the health, the readiness or the metaspace usage has changed since the last
// EventHealth of the process. The caller holds b.mu.
func (b *Base) emitHealthLocked() {
	l := b.current
	if l == nil || l.ended {
		return
	}
	e := Event{Kind: EventHealth, Identity: l.identity, Health: string(l.healthLocked().overall),
		Readiness: string(l.readinessLocked()), Metaspace: l.metaspaceLocked()}
	if e == l.lastHealth {
		return
	}
	l.lastHealth = e
	e.Time = time.Now()
	b.emitLocked(e)
}
