// Package progress tells people what a long command is doing, as steps that
// begin and end.
//
// Steps may overlap. Their events can come from another process: the daemon of a
// sandbox sends its own to the command line, which prints them as its own.
package progress

import (
	"context"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// Kind of an Event.
type Kind string

// The kinds.
const (
	// Started: a step has begun.
	Started Kind = "started"
	// Done: a step has ended well.
	Done Kind = "done"
	// Failed: a step has ended with an error.
	Failed Kind = "failed"
	// Note: something worth a line of its own.
	Note Kind = "note"
)

// Event is what a step reports.
type Event struct {
	Kind Kind `json:"kind"`
	// Step is what is done, such as "broker"; for a Note, the text.
	Step string `json:"step"`
	// Elapsed is how long the step took, in nanoseconds; 0 for Started and Note.
	Elapsed time.Duration `json:"elapsed,omitempty"`
	// Error is the first line of why the step failed.
	Error string `json:"error,omitempty"`
}

// Steps reports the steps that run through it. Its methods may be called
// concurrently if its sink may.
type Steps struct {
	sink func(Event)
}

// New returns Steps whose events go to sink.
func New(sink func(Event)) *Steps { return &Steps{sink: sink} }

// Step runs fn as the step of that name and returns its error.
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

// Note reports a line that is no step.
func (s *Steps) Note(text string) {
	s.sink(Event{Kind: Note, Step: text})
}
