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

// TextOptions configures the text format.
type TextOptions struct {
	// Color enables terminal colours.
	Color bool
	// Verbose prints the steps and checks of passed runs, and long texts in full. Default: one line for each passed
	// run.
	Verbose bool
}

// shownDelay is the shortest Run.Delay that the text report shows.
const shownDelay = 200 * time.Millisecond

// WriteRun writes one run as text.
func WriteRun(w io.Writer, run *scenario.Run, o TextOptions) error {
	p := newPrinter(w, o)
	p.printRun(run)
	return p.flush()
}

// WriteSummary writes the summary line of a report.
func WriteSummary(w io.Writer, r *scenario.Report, o TextOptions) error {
	p := newPrinter(w, o)
	p.printSummary(r)
	return p.flush()
}

// printer writes to a buffered writer. The buffered writer keeps the first write error.
type printer struct {
	w *bufio.Writer
	o TextOptions
}

func newPrinter(w io.Writer, o TextOptions) *printer {
	return &printer{w: bufio.NewWriter(w), o: o}
}

func (p *printer) flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// printf writes a formatted text. The caller must first clean texts that are not from this program, see package
// plain.
func (p *printer) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...) // flush returns the error
}

func (p *printer) printRun(run *scenario.Run) {
	row := fmt.Sprintf("%-52s %6s", plain.Text(Name(run)), seconds(run.Elapsed))
	if text := requests(run); text != "" {
		row += "  " + text
	}
	if run.Delay >= shownDelay {
		row += "  machine delay " + seconds(run.Delay)
	}
	if run.FirstFailure != "" {
		row += "  repeated"
	}
	if run.Result == scenario.Skipped {
		row += "  skipped: " + plain.Text(run.Failure)
	}
	p.printf("%s %s\n", p.mark(run.Result), row)
	switch {
	case run.Result == scenario.Failed || run.Result == scenario.Errored:
		p.printEvidence(run)
	case p.o.Verbose && run.Result == scenario.Passed:
		p.printSteps(run.Steps, "  ")
		p.printChecks(run)
		for _, t := range run.Traffic {
			p.printNote(t)
		}
		p.printf("\n")
	}
}

// Name returns the display name of a run: the scenario, the matrix cell and, for repetitions, the number of the
// attempt.
func Name(run *scenario.Run) string {
	name := run.Scenario
	if len(run.Cell) > 0 {
		var cell []string
		for _, key := range slices.Sorted(maps.Keys(run.Cell)) {
			cell = append(cell, key+"="+formatValue(run.Cell[key]))
		}
		name += " [" + strings.Join(cell, " ") + "]"
	}
	if run.Attempt > 1 {
		name += fmt.Sprintf(" #%d", run.Attempt)
	}
	return name
}

// formatValue formats a matrix value. For an object, it formats the field values without their names.
func formatValue(v any) string {
	named, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprint(v)
	}
	var values []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		values = append(values, formatValue(named[name]))
	}
	return strings.Join(values, "/")
}

type sums struct {
	sent, lost, open, streams int
	allowed                   int            // number of lost requests in passed runs
	elsewhere                 map[string]int // number of requests outside the local gateway, by route
}

func sum(runs ...*scenario.Run) (s sums) {
	s.elsewhere = map[string]int{}
	for _, run := range runs {
		for _, t := range run.Traffic {
			s.sent, s.lost, s.open, s.streams = s.sent+t.Sent, s.lost+t.Summary.Lost, s.open+t.Open, s.streams+1
			if run.Result == scenario.Passed {
				s.allowed += t.Summary.Lost
			}
			if t.Route == traffic.RouteKubeProxy || t.Route == traffic.RouteAgent {
				s.elsewhere[t.Route] += t.Sent
			}
		}
	}
	return s
}

// lostText formats the number of lost requests, and how many of them are allowed because their run has passed.
func (s sums) lostText() string {
	text := Number(s.lost) + " lost"
	switch s.allowed {
	case 0:
	case s.lost:
		text += ", allowed"
	default:
		text += fmt.Sprintf(" (%s allowed)", Number(s.allowed))
	}
	return text
}

// requests describes how many requests the runs have sent and lost. It returns "" if the runs had no traffic.
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
	text += ", " + s.lostText()
	if s.open > 0 {
		text += fmt.Sprintf(", %s without a response", Number(s.open))
	}
	return text
}

func (p *printer) printSummary(r *scenario.Report) {
	counts := map[scenario.Result]int{}
	for _, run := range r.Runs {
		counts[run.Result]++
	}
	var parts []string
	for _, r := range []struct {
		result scenario.Result
		colour string
	}{{scenario.Failed, red}, {scenario.Errored, red}, {scenario.Passed, green}, {scenario.Skipped, yellow}} {
		if n := counts[r.result]; n > 0 {
			parts = append(parts, p.colorize(r.colour, fmt.Sprintf("%d %s", n, r.result)))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, p.colorize(yellow, "no runs"))
	}
	row := strings.Join(parts, ", ") + " in " + seconds(r.Elapsed)
	if text := requests(r.Runs...); text != "" {
		row += "; " + text
	}
	p.printf("%s (seed %d)\n", row, r.Seed)
}
