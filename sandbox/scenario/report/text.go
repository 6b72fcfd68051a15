package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// TextOptions of the form for terminals.
type TextOptions struct {
	// Color uses the terminal's colours. Default: none, as for a file.
	Color bool
	// Verbose shows steps and checks of runs that have passed too, and leaves nothing out of long
	// texts. Default: one line for a run that has passed.
	Verbose bool
}

// shownDelay is the shortest delay of the machine that the report shows.
const shownDelay = 200 * time.Millisecond

// WriteRun writes one run for people.
func WriteRun(w io.Writer, run *scenario.Run, o TextOptions) error {
	p := newPrinter(w, o)
	p.run(run)
	return p.end()
}

// WriteSummary writes the line that follows all runs.
func WriteSummary(w io.Writer, r *scenario.Report, o TextOptions) error {
	p := newPrinter(w, o)
	p.summary(r)
	return p.end()
}

// printer writes to a buffer, which keeps the first error.
type printer struct {
	w *bufio.Writer
	o TextOptions
}

func newPrinter(w io.Writer, o TextOptions) *printer {
	return &printer{w: bufio.NewWriter(w), o: o}
}

func (p *printer) end() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// say writes. External texts must be cleaned before.
func (p *printer) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...) // the buffer keeps the error
}

func (p *printer) run(run *scenario.Run) {
	row := fmt.Sprintf("%-52s %6s", plain.Text(Name(run)), seconds(run.Elapsed))
	if text := requests(run); text != "" {
		row += "  " + text
	}
	if run.Delay >= shownDelay {
		row += "  machine delay " + seconds(run.Delay)
	}
	if run.Repeated != "" {
		row += "  second run"
	}
	if run.Verdict == scenario.Skipped {
		row += "  skipped: " + plain.Text(run.Failure)
	}
	p.say("%s %s\n", p.mark(run.Verdict), row)
	switch {
	case run.Verdict == scenario.Failed || run.Verdict == scenario.Errored:
		p.evidence(run)
	case p.o.Verbose && run.Verdict == scenario.Passed:
		p.steps(run.Steps, "  ")
		p.checks(run)
		for _, t := range run.Traffic {
			p.note(t)
		}
		p.say("\n")
	}
}

// Name is the name of a run: the scenario, the cell of the matrix, and the attempt unless it is the
// first.
func Name(run *scenario.Run) string {
	name := run.Scenario
	if len(run.Cell) > 0 {
		var cell []string
		for _, key := range slices.Sorted(maps.Keys(run.Cell)) {
			cell = append(cell, key+"="+value(run.Cell[key]))
		}
		name += " [" + strings.Join(cell, " ") + "]"
	}
	if run.Attempt > 1 {
		name += fmt.Sprintf(" #%d", run.Attempt)
	}
	return name
}

// value formats a matrix value; for an object it returns the field values without their names.
func value(v any) string {
	named, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprint(v)
	}
	var values []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		values = append(values, value(named[name]))
	}
	return strings.Join(values, "/")
}

type sums struct {
	sent, lost, open, streams int
	elsewhere                 map[string]int // requests that this machine's gateway has not led, by route
}

func sum(runs ...*scenario.Run) (s sums) {
	s.elsewhere = map[string]int{}
	for _, run := range runs {
		for _, t := range run.Traffic {
			s.sent, s.lost, s.open, s.streams = s.sent+t.Sent, s.lost+t.Summary.Lost, s.open+t.Open, s.streams+1
			if t.Route == traffic.RouteKubeProxy || t.Route == traffic.RouteAgent {
				s.elsewhere[t.Route] += t.Sent
			}
		}
	}
	return s
}

// requests describes how many requests runs have sent and lost; empty = they had no traffic.
func requests(runs ...*scenario.Run) string {
	s := sum(runs...)
	if s.streams == 0 {
		return ""
	}
	text := count(s.sent, "request", "requests")
	for _, route := range slices.Sorted(maps.Keys(s.elsewhere)) {
		switch n := s.elsewhere[route]; n {
		case 0:
		case s.sent:
			text += " " + events.RoutePhrase(route)
		default:
			text += fmt.Sprintf(", %s of them %s", Number(n), events.RoutePhrase(route))
		}
	}
	text += fmt.Sprintf(", %s lost", Number(s.lost))
	if s.open > 0 {
		text += fmt.Sprintf(", %s not answered yet", Number(s.open))
	}
	return text
}

func (p *printer) summary(r *scenario.Report) {
	counts := map[scenario.Verdict]int{}
	for _, run := range r.Runs {
		counts[run.Verdict]++
	}
	var parts []string
	for _, v := range []struct {
		verdict scenario.Verdict
		colour  string
	}{{scenario.Failed, red}, {scenario.Errored, red}, {scenario.Passed, green}, {scenario.Skipped, yellow}} {
		if n := counts[v.verdict]; n > 0 {
			parts = append(parts, p.paint(v.colour, fmt.Sprintf("%d %s", n, v.verdict)))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, p.paint(yellow, "nothing was run"))
	}
	row := strings.Join(parts, ", ") + " in " + seconds(r.Elapsed)
	if text := requests(r.Runs...); text != "" {
		row += "; " + text
	}
	p.say("%s (seed %d)\n", row, r.Seed)
}
