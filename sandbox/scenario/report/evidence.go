package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

const (
	// maxViolations is the maximum number of violations that the text report shows for a check. maxLosses is the
	// maximum number of groups of lost requests that it shows for a stream. The HTML report has no such limits.
	maxViolations = 5
	maxLosses     = 8
	// The report shows the first firstLines and the last lastLines lines of a long text.
	firstLines, lastLines = 4, 14
)

func (p *printer) printEvidence(run *scenario.Run) {
	failed := failedStep(run.Steps)
	place := run.File
	if failed != nil && failed.Line > 0 {
		place = fmt.Sprintf("%s:%d", run.File, failed.Line)
	}
	p.printf("  %s\n", p.colorize(faint,
		plain.Text(fmt.Sprintf("%s  seed %d  namespace %s", place, run.Seed, run.Namespace))))
	p.printf("%s\n\n", p.colorize(bold, indent(plain.Lines(run.Failure), "  ")))
	if len(run.Steps) > 0 {
		p.printf("  Steps\n")
		p.printSteps(run.Steps, "    ")
	}
	for _, d := range run.Details {
		if strings.TrimSpace(d.Text) == "" {
			continue
		}
		p.printf("  %s\n%s\n", plain.Text(d.Title), p.diff(indent(p.shorten(plain.Lines(d.Text)), "    ")))
	}
	if len(run.Checks) > 0 {
		p.printf("  Checks\n")
		p.printChecks(run)
	}
	for _, t := range run.Traffic {
		p.printNote(t)
		p.printLosses(run, t)
	}
	if run.RerunCommand != "" {
		p.printf("  Rerun: %s\n", plain.Text(run.RerunCommand))
	}
	p.printf("\n")
}

func failedStep(steps []*scenario.Step) *scenario.Step {
	for _, s := range steps {
		if s.Result != scenario.Failed && s.Result != scenario.Errored {
			continue
		}
		if inner := failedStep(s.Steps); inner != nil {
			return inner
		}
		return s
	}
	return nil
}

func (p *printer) printSteps(steps []*scenario.Step, by string) {
	for _, s := range steps {
		p.printf("%s%s %-10s %-*s %6s", by, p.mark(s.Result), plain.Text(s.Action), max(0, 52-len(by)),
			plain.Text(s.Name), seconds(s.Elapsed))
		if s.Message != "" && (s.Result != scenario.Passed || p.o.Verbose) {
			p.printf("  %s", strings.ReplaceAll(plain.Lines(s.Message), "\n", "\n"+by+"    "))
		}
		p.printf("\n")
		p.printSteps(s.Steps, by+"  ")
	}
}

func (p *printer) printChecks(run *scenario.Run) {
	for _, c := range run.Checks {
		p.printf("    %s %-14s %s", p.mark(c.Result), plain.Text(c.Name), plain.Text(c.Summary))
		if c.Expect != expectHolds {
			p.printf(" %s", p.colorize(faint, "("+plain.Text(c.Expect)+")"))
		}
		p.printf("\n")
		if c.Result == scenario.Passed && !p.o.Verbose {
			continue
		}
		for i, v := range c.Violations {
			if i == maxViolations {
				p.printf("        and %d more\n", len(c.Violations)-i)
				break
			}
			p.printf("        %s\n", plain.Text(violation(run, v)))
		}
	}
}

// expectHolds is the default value of Check.Expect.
const expectHolds = "holds"

func violation(run *scenario.Run, v scenario.Violation) string {
	text := since(run, v.Time)
	for _, who := range []string{v.Base, v.Pod} {
		if who != "" {
			text += " " + who
		}
	}
	if v.Length > 0 {
		text += " for " + length(v.Length)
	}
	return text + ": " + v.Message
}

// printNote prints the note of a stream, for example that the stream stopped at one of its limits.
func (p *printer) printNote(t scenario.Traffic) {
	if t.Note != "" {
		p.printf("  %s\n", p.colorize(yellow, plain.Text("Requests of "+t.Name+": "+t.Note)))
	}
}

// loss identifies a group of requests that were lost at the same base and Pod for the same reason.
type loss struct {
	result         traffic.Result
	base, pod, why string
}

// printLosses prints the lost requests, grouped by result, base, Pod and error.
func (p *printer) printLosses(run *scenario.Run, t scenario.Traffic) {
	if len(t.Lost) == 0 {
		return
	}
	var order []loss
	type span struct {
		n           int
		first, last time.Time
	}
	groups := map[loss]*span{}
	for _, l := range t.Lost {
		key := loss{l.Result, l.Base, l.Pod, l.Error}
		g := groups[key]
		if g == nil {
			g = &span{first: l.Due}
			groups[key] = g
			order = append(order, key)
		}
		g.n++
		g.last = l.Due
	}
	sent := strings.TrimSuffix(Number(t.Sent)+" "+events.RoutePhrase(t.Route), " ")
	p.printf("  Lost requests of %s: %s of %s (%s)\n", plain.Text(t.Name), Number(t.Summary.Lost), sent,
		plain.Text(t.Judge))
	for i, key := range order {
		if i == maxLosses {
			p.printf("    and %s\n", plain.Count(len(order)-i, "more group"))
			break
		}
		g := groups[key]
		where := strings.TrimSpace(key.base + " " + key.pod)
		if where != "" {
			where = " at " + where
		}
		p.printf("    %s\n", plain.Text(
			strings.TrimSuffix(fmt.Sprintf("%s %s%s, %s to %s: %s", Number(g.n), key.result, where,
				since(run, g.first), since(run, g.last), key.why), ": ")))
	}
}

// shorten replaces the middle lines of a long text with a note.
func (p *printer) shorten(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := len(lines) - firstLines - lastLines
	if p.o.Verbose || more < 2 {
		return text
	}
	note := fmt.Sprintf("… %d more lines in the HTML report …", more)
	return strings.Join(slices.Concat(lines[:firstLines], []string{note}, lines[len(lines)-lastLines:]), "\n")
}

func (p *printer) diff(text string) string {
	if !p.o.Color {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		switch trimmed := strings.TrimSpace(l); {
		case strings.HasPrefix(trimmed, "- "):
			lines[i] = p.colorize(red, l)
		case strings.HasPrefix(trimmed, "+ "):
			lines[i] = p.colorize(green, l)
		}
	}
	return strings.Join(lines, "\n")
}
