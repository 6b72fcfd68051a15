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

// Kind of an Event.
type Kind string

// The kinds of events.
const (
	// Started means that a step has started.
	Started Kind = "started"
	// Done means that a step has succeeded.
	Done Kind = "done"
	// Failed means that a step has failed.
	Failed Kind = "failed"
	// Note is a message on a line of its own.
	Note Kind = "note"
)

// Event reports the state of a step, or a note.
type Event struct {
	Kind Kind `json:"kind"`
	// Step is the name of the step, such as "broker", or the text of a Note.
	Step string `json:"step"`
	// Elapsed is the duration of the step in nanoseconds; 0 for Started and Note.
	Elapsed time.Duration `json:"elapsed,omitempty"`
	// Error is the first line of the error of a failed step.
	Error string `json:"error,omitempty"`
}

// Steps reports the steps that it runs. Its methods may be called concurrently if sink allows it.
type Steps struct {
	sink func(Event)
}

// New returns Steps that send events to sink.
func New(sink func(Event)) *Steps { return &Steps{sink: sink} }

// Step runs fn as a step with a name, and returns its error.
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

// Note reports a message.
func (s *Steps) Note(text string) {
	s.sink(Event{Kind: Note, Step: text})
}
