package lanes

import (
	"slices"
	"time"
)

// Kind says what a lane is about.
type Kind string

// The kinds of lanes, in the order in which they are shown.
const (
	// Component: the controller, the broker, the API server.
	Component Kind = "component"
	// Faults of all bases, in one lane.
	Faults Kind = "faults"
	// Service with its endpoints.
	Service Kind = "service"
	// Waiting: Pods that no base has yet, in one lane.
	Waiting Kind = "waiting"
	// Base with its life, its modules and its Pods.
	Base Kind = "base"
)

// Thing says what a span is the life of.
type Thing string

// The things. A lane of kind Base has those from Life to Pod.
const (
	// Life of a base's process: starting, connected, ready, disconnected, down.
	Life Thing = "life"
	// Node of a base: Ready, NotReady, Unknown.
	Node Thing = "node"
	// Module: a version of a module; its states are arklet's.
	Module Thing = "module"
	// Pod: pending, notReady, ready, terminating.
	Pod Thing = "pod"
	// Process of a component: running, paused, exited.
	Process Thing = "process"
	// Fault: set.
	Fault Thing = "fault"
	// Endpoints of a Service: all, some or none of them ready; empty when there is none.
	Endpoints Thing = "endpoints"
)

// States that a Board makes up itself; the others are those of the events.
const (
	Starting     = "starting"
	Connected    = "connected"
	Ready        = "ready"
	Disconnected = "disconnected"
	Down         = "down"
	Pending      = "pending"
	NotReady     = "notReady"
	Terminating  = "terminating"
	AllReady     = "all"
	SomeReady    = "some"
	NoneReady    = "none"
	NoEndpoints  = "empty"
)

// Lane is one row.
type Lane struct {
	Kind Kind
	// Name of the base, the component or the Service; empty for the lanes of which there is but
	// one.
	Name string
	// Spans in the order in which they began.
	Spans []*Span
	// Marks in the order of their events.
	Marks []Mark

	taken map[Thing][]bool // which tracks have a span that lasts
}

// take returns the lowest track that is free, and takes it.
func (l *Lane) take(thing Thing) int {
	tracks := l.taken[thing]
	track := slices.Index(tracks, false)
	if track < 0 {
		track = len(tracks)
		tracks = append(tracks, true)
	}
	tracks[track] = true
	if l.taken == nil {
		l.taken = map[Thing][]bool{}
	}
	l.taken[thing] = tracks
	return track
}

// Span is the life of one thing in a lane.
type Span struct {
	Thing Thing
	// Name of the Pod, the fault, the Node.
	Name string
	// Module and Version of a module, or the first ones of a Pod.
	Module, Version string
	// Base that a fault is on; empty for a rule of the API.
	Base string
	// Track counts from 0 within the lane and the thing: spans of one track do not overlap.
	Track int
	// Segments follow each other without a gap.
	Segments []Segment
}

// Segment is a state that lasts.
type Segment struct {
	From time.Time
	// To is zero while it lasts.
	To    time.Time
	State string
	// Text tells more, for people; may be empty.
	Text string
	// Reason is why a Pod is not Ready, in a word; may be empty.
	Reason string
}

// open returns the segment that lasts, or nil.
func (s *Span) open() *Segment {
	if n := len(s.Segments); n > 0 && s.Segments[n-1].To.IsZero() {
		return &s.Segments[n-1]
	}
	return nil
}

// At returns the segment that holds at t, or nil.
func (s *Span) At(t time.Time) *Segment {
	for i := len(s.Segments) - 1; i >= 0; i-- {
		g := &s.Segments[i]
		if g.From.After(t) {
			continue
		}
		if g.To.IsZero() || g.To.After(t) {
			return g
		}
		return nil
	}
	return nil
}

// turn begins a segment at t, unless nothing differs.
func (s *Span) turn(t time.Time, state, text string) {
	s.next(Segment{From: t, State: state, Text: text})
}

// next begins a segment, unless nothing but its time differs.
func (s *Span) next(n Segment) {
	if g := s.open(); g != nil {
		if g.State == n.State && g.Text == n.Text && g.Reason == n.Reason {
			return
		}
		if !g.From.Before(n.From) { // no time passed: the older state was never to be seen
			n.From = g.From
			*g = n
			return
		}
		g.To = n.From
	}
	s.Segments = append(s.Segments, n)
}

// end ends the span at t.
func (s *Span) end(t time.Time) {
	if g := s.open(); g != nil {
		if g.To = t; t.Before(g.From) {
			g.To = g.From
		}
	}
}

// MarkKind says what a mark is about.
type MarkKind string

// The kinds of marks.
const (
	// Command that a base has answered.
	Command MarkKind = "command"
	// Failure: a command that it has answered with an error.
	Failure MarkKind = "failure"
	// Lost request.
	Lost MarkKind = "lost"
	// Fired: a fault happened.
	Fired MarkKind = "fired"
)

// Mark is something that happened.
type Mark struct {
	Kind MarkKind
	// From is when it began: commands take time. To is when it was over.
	From, To time.Time
	Text     string
	// Code of a Failure.
	Code string
}
