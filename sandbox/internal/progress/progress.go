// Package progress reports the progress of long commands as steps with a start and an end.
//
// Steps may overlap. Events can come from another process: the daemon of a sandbox sends its events to the
// command line, which prints them.
package progress

import (
	"context"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	// Started means that a step has started.
	Started Kind = "started"
	// Done means that a step has succeeded.
	Done Kind = "done"
	// Failed means that a step has failed.
	Failed Kind = "failed"
	// Note means that the event is a message for the user.
	Note Kind = "note"
)

// Event reports the state of a step, or a note.
type Event struct {
	Kind Kind `json:"kind"`
	// Step is the name of the step, such as "broker". If Kind is Note, it is the text of the message.
	Step string `json:"step"`
	// Elapsed is the duration of a step that has ended, in nanoseconds; 0 for Started and Note.
	Elapsed time.Duration `json:"elapsed,omitempty"`
	// Error is the first line of the error message of a failed step.
	Error string `json:"error,omitempty"`
}

// Steps runs steps and reports their progress. Its methods may be called concurrently if sink may be called
// concurrently.
type Steps struct {
	sink func(Event)
}

// New returns Steps that send events to sink.
func New(sink func(Event)) *Steps { return &Steps{sink: sink} }

// Step runs fn as the step with the given name, reports its start and its end, and returns the error of fn.
func (s *Steps) Step(ctx context.Context, name string, fn func(context.Context) error) error {
	s.sink(Event{Kind: Started, Step: name})
	start := time.Now()
	err := fn(ctx)
	e := Event{Kind: Done, Step: name, Elapsed: time.Since(start)}
	if err != nil {
		e.Kind, e.Error = Failed, plain.FirstLine(err.Error())
	}
	s.sink(e)
	return err
}

// Note reports a message for the user.
func (s *Steps) Note(text string) {
	s.sink(Event{Kind: Note, Step: text})
}
