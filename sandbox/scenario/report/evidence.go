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
	// mostViolations of a check are shown, mostLosses groups of lost requests of a stream: enough
	// to see what happens, few enough to find the first. The HTML report has all.
	mostViolations = 5
	mostLosses     = 8
	// firstLines and lastLines of a long text are shown: what it is about, and what came last.
	firstLines, lastLines = 4, 14
)

func (p *printer) evidence(run *scenario.Run) {
	failed := failedStep(run.Steps)
	place := run.File
	if failed != nil && failed.Line > 0 {
		place = fmt.Sprintf("%s:%d", run.File, failed.Line)
	}
	p.say("  %s\n", p.paint(faint,
		plain.Text(fmt.Sprintf("%s  seed %d  namespace %s", place, run.Seed, run.Namespace))))
	p.say("%s\n\n", p.paint(bold, indent(plain.Lines(run.Failure), "  ")))
	if len(run.Steps) > 0 {
		p.say("  Steps\n")
		p.steps(run.Steps, "    ")
	}
	for _, d := range run.Details {
		if strings.TrimSpace(d.Text) == "" {
			continue
		}
		p.say("  %s\n%s\n", plain.Text(d.Title), p.diff(indent(p.shorten(plain.Lines(d.Text)), "    ")))
	}
	if len(run.Checks) > 0 {
		p.say("  Checks\n")
		p.checks(run)
	}
	for _, t := range run.Traffic {
		p.note(t)
		p.losses(run, t)
	}
	if run.Again != "" {
		p.say("  Again: %s\n", plain.Text(run.Again))
	}
	p.say("\n")
}

func failedStep(steps []*scenario.Step) *scenario.Step {
	for _, s := range steps {
		if s.Verdict != scenario.Failed && s.Verdict != scenario.Errored {
			continue
		}
		if inner := failedStep(s.Steps); inner != nil {
			return inner
		}
		return s
	}
	return nil
}

func (p *printer) steps(steps []*scenario.Step, by string) {
	for _, s := range steps {
		p.say("%s%s %-10s %-*s %6s", by, p.mark(s.Verdict), plain.Text(s.Action), max(0, 52-len(by)),
			plain.Text(s.Name), seconds(s.Elapsed))
		if s.Message != "" && (s.Verdict != scenario.Passed || p.o.Verbose) {
			p.say("  %s", strings.ReplaceAll(plain.Lines(s.Message), "\n", "\n"+by+"    "))
		}
		p.say("\n")
		p.steps(s.Steps, by+"  ")
	}
}

func (p *printer) checks(run *scenario.Run) {
	for _, c := range run.Checks {
		p.say("    %s %-14s %s", p.mark(c.Verdict), plain.Text(c.Name), plain.Text(c.Summary))
		if c.Expect != expectHolds {
			p.say(" %s", p.paint(faint, "("+plain.Text(c.Expect)+")"))
		}
		p.say("\n")
		if c.Verdict == scenario.Passed && !p.o.Verbose {
			continue
		}
		for i, v := range c.Violations {
			if i == mostViolations {
				p.say("        and %d more\n", len(c.Violations)-i)
				break
			}
			p.say("        %s\n", plain.Text(violation(run, v)))
		}
	}
}

// expectHolds is what a check expects unless a scenario says otherwise.
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

// note prints what the reader of the verdict of a stream must know, such as that it stopped at one of its limits.
func (p *printer) note(t scenario.Traffic) {
	if t.Note != "" {
		p.say("  %s\n", p.paint(yellow, plain.Text("Requests of "+t.Name+": "+t.Note)))
	}
}

// loss is a group of requests that were lost for the same reason at the same place.
type loss struct {
	result         traffic.Result
	base, pod, why string
}

// losses prints the lost requests, grouped by result, place and error.
func (p *printer) losses(run *scenario.Run, t scenario.Traffic) {
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
	p.say("  Lost requests of %s: %s of %s (%s)\n", plain.Text(t.Name), Number(t.Summary.Lost), sent,
		plain.Text(t.Judge))
	for i, key := range order {
		if i == mostLosses {
			p.say("    and %d more reasons or places\n", len(order)-i)
			break
		}
		g := groups[key]
		where := strings.TrimSpace(key.base + " " + key.pod)
		if where != "" {
			where = " at " + where
		}
		p.say("    %s\n", plain.Text(
			strings.TrimSuffix(fmt.Sprintf("%s %s%s, %s to %s: %s", Number(g.n), key.result, where,
				since(run, g.first), since(run, g.last), key.why), ": ")))
	}
}

// shorten omits lines of a long text, with a note.
func (p *printer) shorten(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := len(lines) - firstLines - lastLines
	if p.o.Verbose || more < 2 {
		return text
	}
	note := fmt.Sprintf("… %d lines, which the HTML report has …", more)
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
			lines[i] = p.paint(red, l)
		case strings.HasPrefix(trimmed, "+ "):
			lines[i] = p.paint(green, l)
		}
	}
	return strings.Join(lines, "\n")
}
