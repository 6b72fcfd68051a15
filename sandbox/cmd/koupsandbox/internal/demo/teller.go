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

// The names of the scenarios.
const (
	deployment = "deployment"
	daemonSet  = "daemonset"
)

const (
	// defaultWidth is that of lines that go to a file, narrowest the width below
	// which the columns follow each other instead.
	defaultWidth, narrowest = 100, 84
)

// teller prints the events of each scenario in a column. Its methods may be called concurrently.
type teller struct {
	out   io.Writer
	width int // of a column; 0 = no columns
	color bool
	clock clock.PassiveClock

	mu      sync.Mutex
	columns []*column
}

// column is one of the scenarios.
type column struct {
	scenario, title, about, lesson string
	group                          string
	start                          time.Time
	places                         map[string]*place
}

func newTeller(o Options) *teller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	width := o.Width
	if width <= 0 {
		width = defaultWidth
	}
	t := &teller{out: o.Out, color: o.Color, clock: o.Clock, width: (width - 3) / 2, columns: []*column{
		{scenario: deployment, title: "Deployment", about: "new version beside the old one",
			places: map[string]*place{},
			lesson: "The new version is installed while the old one serves. A base switches in an instant, and only " +
				"then is the old one uninstalled."},
		{scenario: daemonSet, title: "DaemonSet", about: "old version removed first", places: map[string]*place{},
			lesson: "Without maxSurge it deletes the Pod of a base before it makes the next one: until the new " +
				"version is installed, that base answers 404. With maxSurge: 1 it loses nothing."},
	}}
	if width < narrowest {
		t.width = 0
	}
	return t
}

func (t *teller) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.say("\nThe module \"stock\" serves in version 1.0.0 on three bases, twice; each base gets requests " +
		"all the time.\n" +
		"Now version 2.0.0 is released, in two ways:\n\n")
	if t.width == 0 {
		return
	}
	left, right := t.columns[0], t.columns[1]
	t.say("%s │ %s\n", t.bold(t.fill(left.title+": "+left.about)), t.bold(right.title+": "+right.about))
	t.say("%s─┼─%s\n", strings.Repeat("─", t.width), strings.Repeat("─", t.width))
}

// progress prints the progress of the runner.
func (t *teller) progress(e scenario.ProgressEvent) {
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
			c.group, c.start = e.Run.Namespace, t.clock.Now()
		case scenario.StepEnded:
			if e.Step.Result == scenario.Passed || e.Step.Action == "traffic" {
				t.tell(c, e.Step.Started.Add(e.Step.Elapsed), e.Step.Name, "")
			} else {
				t.tell(c, e.Step.Started.Add(e.Step.Elapsed), e.Step.Name+": "+e.Step.Message, red)
			}
		case scenario.RunEnded:
			colour := green
			if e.Run.Result != scenario.Passed {
				colour = red
			}
			t.tell(c, e.Run.Started.Add(e.Run.Elapsed), fmt.Sprintf("%s: %s", e.Run.Result, figures(e.Run)), colour)
		}
	}
}

// seen prints an event of the sandbox.
func (t *teller) seen(e events.Event) {
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
		p := c.places[base]
		if p == nil {
			p = &place{}
			c.places[base] = p
		}
		if text, bad := p.change(base, e); bad {
			t.tell(c, e.Time, text, red)
		} else if text != "" {
			t.tell(c, e.Time, text, green)
		}
	}
}

// end prints the results.
func (t *teller) end(r *scenario.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.say("\n")
	for _, c := range t.columns {
		for _, run := range r.Runs {
			if run.Scenario != c.scenario {
				continue
			}
			mark, colour := "✓", green
			if run.Result != scenario.Passed {
				mark, colour = "✗", red
			}
			t.say("%s %s %s\n", t.paint(colour, mark), t.bold(fmt.Sprintf("%-11s", c.title)),
				t.paint(colour, figures(run)))
			for _, line := range strings.Split(ansi.Wordwrap(c.lesson, 2*max(t.width, 30)-10, ""), "\n") {
				t.say("    %s\n", line)
			}
		}
	}
}

func figures(run *scenario.Run) string {
	sent, lost := 0, 0
	for _, s := range run.Traffic {
		sent, lost = sent+s.Sent, lost+s.Summary.Lost
	}
	return fmt.Sprintf("%s requests sent, %s lost", report.Number(sent), report.Number(lost))
}

// tell prints a line in a column.
func (t *teller) tell(c *column, at time.Time, text, colour string) {
	text = fmt.Sprintf("%4.1fs  %s", max(at.Sub(c.start), 0).Seconds(),
		plain.Text(strings.Join(strings.Fields(text), " ")))
	switch {
	case t.width == 0:
		t.say("%-10s  %s\n", c.title, t.paint(colour, text))
	case c == t.columns[0]:
		t.say("%s │\n", t.paint(colour, t.fill(text)))
	default:
		t.say("%s │ %s\n", t.fill(""), t.paint(colour, ansi.Truncate(text, t.width, "…")))
	}
}

// fill makes a text as wide as a column.
func (t *teller) fill(text string) string {
	text = ansi.Truncate(text, t.width, "…")
	return text + strings.Repeat(" ", t.width-ansi.StringWidth(text))
}

func (t *teller) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format, args...) // there is nobody to tell
}

// The colours of terminals.
const (
	red   = "9"
	green = "2"
)

func (t *teller) paint(colour, text string) string {
	if !t.color || colour == "" {
		return text
	}
	return lipgloss.NewStyle().Foreground(lipgloss.Color(colour)).Render(text)
}

func (t *teller) bold(text string) string {
	if !t.color {
		return text
	}
	return lipgloss.NewStyle().Bold(true).Render(text)
}
