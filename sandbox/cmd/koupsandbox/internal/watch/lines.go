package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// Plain returns a sink for Follow that writes one line per event, except for routine queries. A line contains the
// time, the kind, the subject and the text of the event.
func Plain(w io.Writer) func(events.Event) error {
	return func(e events.Event) error {
		if e.Routine() {
			return nil
		}
		kind, subject, text := e.Describe()
		line := fmt.Sprintf("%s  %-9s  %-30s  %s", e.Time.Local().Format("15:04:05.000"), kind, subject, text)
		if _, err := fmt.Fprintln(w, strings.TrimRight(plain.Text(line), " ")); err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
		return nil
	}
}

// JSON returns a sink for Follow that writes each event as a line of JSON, as in the timelines of scenario reports.
func JSON(w io.Writer) func(events.Event) error {
	encoder := json.NewEncoder(w)
	return func(e events.Event) error {
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
		return nil
	}
}
