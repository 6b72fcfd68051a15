package report

import (
	"bytes"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

const (
	// Limits that keep every summary below 1 MiB, which is GitHub's limit for a job summary: the number of rows, the
	// length of a name in characters, the number of runs with evidence, and the size of the evidence of a run in
	// bytes.
	maxRows          = 500
	maxNameLength    = 120
	maxEvidence      = 20
	maxEvidenceBytes = 16 << 10
)

// WriteMarkdown writes a summary for the page of a CI job, as GitHub Flavored Markdown, which GitLab also supports.
// The summary consists of a table of all runs, failed runs first, and collapsed sections with the evidence of failed
// runs. A long summary is truncated, and a note says so.
func WriteMarkdown(w io.Writer, r *scenario.Report) error {
	runs := slices.Clone(r.Runs)
	wrong := func(run *scenario.Run) bool { return run.Result == scenario.Failed || run.Result == scenario.Errored }
	slices.SortStableFunc(runs, func(a, b *scenario.Run) int {
		if wrong(a) == wrong(b) {
			return 0
		}
		if wrong(a) {
			return -1
		}
		return 1
	})
	var summary bytes.Buffer
	if err := WriteSummary(&summary, r, TextOptions{}); err != nil {
		return err
	}
	p := newPrinter(w, TextOptions{})
	p.printf("### Scenarios\n\n%s\n", markdown(summary.String()))
	if len(runs) > 0 {
		p.printf("\n| | Run | Took | Requests | Lost |\n|---|---|---:|---:|---:|\n")
	}
	for i, run := range runs {
		if i == maxRows {
			p.printf("\n%s in `report.html`.\n", count(len(runs)-i, "more run", "more runs"))
			break
		}
		p.printRow(run)
	}
	for i, run := range runs {
		if !wrong(run) {
			break
		}
		if i == maxEvidence {
			p.printf("\n`report.html` has the other failed runs.\n")
			break
		}
		if err := p.printCollapsed(run); err != nil {
			return err
		}
	}
	return p.flush()
}

func (p *printer) printRow(run *scenario.Run) {
	sent, lost := "", ""
	if s := sum(run); s.streams > 0 {
		sent, lost = Number(s.sent), Number(s.lost)
		switch {
		case s.lost > 0 && s.allowed == s.lost:
			lost += ", allowed"
		case s.lost > 0:
			lost = "**" + lost + "**"
		}
	}
	p.printf("| %s | %s | %s | %s | %s |\n", resultEmoji(run.Result), markdown(shortName(run)), seconds(run.Elapsed),
		sent,
		lost)
}

// resultEmoji returns the emoji for a result.
func resultEmoji(v scenario.Result) string {
	switch v {
	case scenario.Passed:
		return "✅"
	case scenario.Skipped:
		return "➖ skipped"
	case scenario.Errored:
		return "⚠️ errored"
	default:
		return "❌ failed"
	}
}

// printCollapsed prints a run in a collapsed section.
func (p *printer) printCollapsed(run *scenario.Run) error {
	var text bytes.Buffer
	if err := WriteRun(&text, run, TextOptions{}); err != nil {
		return err
	}
	var lines strings.Builder
	for line := range strings.Lines(html.EscapeString(strings.TrimSpace(text.String()))) {
		if lines.Len()+len(line) > maxEvidenceBytes {
			lines.WriteString("…\n")
			break
		}
		lines.WriteString(line)
	}
	p.printf("\n<details><summary>%s</summary>\n<pre>\n%s\n</pre>\n</details>\n", html.EscapeString(shortName(run)),
		strings.TrimSpace(lines.String()))
	return nil
}

func shortName(run *scenario.Run) string {
	name := []rune(plain.Text(Name(run)))
	if len(name) > maxNameLength {
		name = append(name[:maxNameLength-1], '…')
	}
	return string(name)
}

// markdown escapes a text for use in a paragraph or a table cell.
func markdown(text string) string {
	text = html.EscapeString(strings.TrimSpace(text))
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\`*_[]|~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
