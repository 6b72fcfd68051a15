package watch

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// Plain returns a sink for Follow that writes a line for people for each event, but for questions
// that bases have answered well.
func Plain(w io.Writer) func(events.Event) error {
	return func(e events.Event) error {
		if e.Routine() {
			return nil
		}
		if _, err := fmt.Fprintln(w, Line(e)); err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
		return nil
	}
}

// JSON returns a sink for Follow that writes each event as a line of JSON: a events.Event, as in
// the timelines of scenario reports.
func JSON(w io.Writer) func(events.Event) error {
	encoder := json.NewEncoder(w)
	return func(e events.Event) error {
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
		return nil
	}
}
