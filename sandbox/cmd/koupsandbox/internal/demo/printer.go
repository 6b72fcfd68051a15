package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// The names of the demo scenarios.
const (
	deployment = "deployment"
	daemonSet  = "daemonset"
)

const (
	// defaultWidth is the output width in columns if Options.Width is not set. Output narrower than minColumnsWidth
	// is not split into one column per scenario.
	defaultWidth, minColumnsWidth = 100, 84
)

// printer prints the events of each scenario in its own column. Its methods may be called concurrently.
type printer struct {
	out   io.Writer
	width int // width of a column in characters; 0 if the output is not split into columns
	color bool
	clock clock.PassiveClock

	mu      sync.Mutex
	columns []*column
}

// column is the output column of one scenario.
type column struct {
	scenario, title, about, lesson string
	group                          string
	start                          time.Time
	bases                          map[string]*baseTracker
	inconclusive                   string // cause if the first run was inconclusive; empty otherwise
}

func newPrinter(o Options) *printer {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	width := o.Width
	if width <= 0 {
		width = defaultWidth
	}
	t := &printer{out: o.Out, color: o.Color, clock: o.Clock, width: (width - 3) / 2, columns: []*column{
		{scenario: deployment, title: "Deployment", about: "new version installed first",
			lesson: "The new version is installed while the old version is active. The base switches " +
				"between them, and " +
				"then uninstalls the old version."},
		{scenario: daemonSet, title: "DaemonSet", about: "old version removed first",
			lesson: "Without maxSurge, a DaemonSet deletes the old Pod of a base before it creates the new " +
				"one. The base " +
				"answers 404 until the new version is installed. With maxSurge: 1, no request is lost."},
	}}
	if width < minColumnsWidth {
		t.width = 0
	}
	return t
}

// printHeader prints the introduction and the column heads.
func (t *printer) printHeader() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.printf("\nTwo groups of three bases have version 1.0.0 of the module \"stock\" and receive requests.\n" +
		"Bases are simulated; module code does not run. Version 2.0.0 is released in two ways:\n\n")
	if t.width == 0 {
		return
	}
	left, right := t.columns[0], t.columns[1]
	t.printf("%s │ %s\n", t.bold(t.fill(left.title+": "+left.about)), t.bold(right.title+": "+right.about))
	t.printf("%s─┼─%s\n", strings.Repeat("─", t.width), strings.Repeat("─", t.width))
}

// progress prints the progress of the scenario runs.
func (t *printer) progress(e scenario.ProgressEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Run == nil {
		return
	}
	for _, c := range t.columns {
		if c.scenario != e.Run.Scenario {
			continue
		}
		switch e.Kind {
		case scenario.RunStarted:
			if c.inconclusive != "" {
				t.printf("── inconclusive: %s; repeating the run ──\n", c.inconclusive)
			}
			c.group, c.start, c.bases = e.Run.Namespace, t.clock.Now(), map[string]*baseTracker{}
		case scenario.RunPostponed:
			c.inconclusive = e.Run.InconclusiveCause()
		case scenario.StepEnded:
			if e.Step.Result == scenario.Passed || e.Step.Action == "traffic" {
				t.printLine(c, e.Step.Started.Add(e.Step.Elapsed), e.Step.Name, "")
			} else {
				t.printLine(c, e.Step.Started.Add(e.Step.Elapsed), e.Step.Name+": "+e.Step.Message, red)
			}
		case scenario.RunEnded:
			colour := green
			if e.Run.Result != scenario.Passed {
				colour = red
			}
			t.printLine(c, e.Run.Started.Add(e.Run.Elapsed), fmt.Sprintf("%s: %s", e.Run.Result, requestCounts(e.Run)),
				colour)
		}
	}
}

// observe prints a sandbox event.
func (t *printer) observe(e events.Event) {
	if e.Module == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.columns {
		if c.group == "" || !strings.HasPrefix(e.Module.Base, c.group+"-") {
			continue
		}
		base := strings.TrimPrefix(e.Module.Base, c.group+"-")
		p := c.bases[base]
		if p == nil {
			p = &baseTracker{}
			c.bases[base] = p
		}
		if text, bad := p.apply(base, e); bad {
			t.printLine(c, e.Time, text, red)
		} else if text != "" {
			t.printLine(c, e.Time, text, green)
		}
	}
}

// printResults prints the results of the scenario runs.
func (t *printer) printResults(r *scenario.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.printf("\n")
	for _, c := range t.columns {
		for _, run := range r.Runs {
			if run.Scenario != c.scenario {
				continue
			}
			mark, colour := "✓", green
			if run.Result != scenario.Passed {
				mark, colour = "✗", red
			}
			t.printf("%s %s %s\n", t.colorize(colour, mark), t.bold(fmt.Sprintf("%-11s", c.title)),
				t.colorize(colour, requestCounts(run)))
			for _, line := range strings.Split(ansi.Wordwrap(c.lesson, 2*max(t.width, 30)-10, ""), "\n") {
				t.printf("    %s\n", line)
			}
		}
	}
}

func requestCounts(run *scenario.Run) string {
	sent, lost := 0, 0
	for _, s := range run.Traffic {
		sent, lost = sent+s.Sent, lost+s.Summary.Lost
	}
	return fmt.Sprintf("%s requests sent, %s lost", report.Number(sent), report.Number(lost))
}

// printLine prints a line of text in a column.
func (t *printer) printLine(c *column, at time.Time, text, colour string) {
	text = fmt.Sprintf("%4.1fs  %s", max(at.Sub(c.start), 0).Seconds(),
		plain.Text(strings.Join(strings.Fields(text), " ")))
	switch {
	case t.width == 0:
		t.printf("%-10s  %s\n", c.title, t.colorize(colour, text))
	case c == t.columns[0]:
		t.printf("%s │\n", t.colorize(colour, t.fill(text)))
	default:
		t.printf("%s │ %s\n", t.fill(""), t.colorize(colour, ansi.Truncate(text, t.width, "…")))
	}
}

// fill truncates or pads a text to the width of a column.
func (t *printer) fill(text string) string {
	text = ansi.Truncate(text, t.width, "…")
	return text + strings.Repeat(" ", t.width-ansi.StringWidth(text))
}

func (t *printer) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format, args...)
}

// Terminal colours.
const (
	red   = "9"
	green = "2"
)

func (t *printer) colorize(colour, text string) string {
	if !t.color || colour == "" {
		return text
	}
	return lipgloss.NewStyle().Foreground(lipgloss.Color(colour)).Render(text)
}

func (t *printer) bold(text string) string {
	if !t.color {
		return text
	}
	return lipgloss.NewStyle().Bold(true).Render(text)
}
