package fuzz

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

var (
	//go:embed index.html
	pageText string
	//go:embed index.css
	pageStyle string
)

var indexPage = template.Must(template.New(PageFile).Funcs(template.FuncMap{
	"number": report.Number,
	"round":  func(d time.Duration) time.Duration { return d.Round(time.Second) },
	"time":   func(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") },
	"page":   (*Failure).page,
}).Parse(pageText))

// index is what the template gets.
type index struct {
	*Result
	Style    template.CSS
	Policy   string
	Names    []string
	Rows     []mapRow
	Triggers int
}

// Verdict is a class of the style sheet.
func (i index) Verdict() string {
	switch {
	case len(i.Failures) > 0:
		return "failed"
	case i.Error != "":
		return "errored"
	case i.Schedules == 0:
		return "skipped"
	}
	return "passed"
}

// mapRow has what came after a move; its name is empty for the moves that were the first.
type mapRow struct {
	Name  string
	Cells []mapCell
}

// mapCell is a pair of moves.
type mapCell struct {
	Title    string
	Triggers int // of the second move, that there were
	Times    int
}

// mapLevels is how many colours the map has.
const mapLevels = 5

// Level is the cell's colour: 0 = the pair was not there, mapLevels = with every trigger.
func (c mapCell) Level() int { return (c.Triggers*mapLevels + len(triggers) - 1) / len(triggers) }

// mapOf returns the moves, and a row for each and for the beginning of schedules.
func mapOf(r *Result) (names []string, rows []mapRow) {
	if names = r.Only; len(names) == 0 {
		names = Names()
	}
	times := map[pair]int{}
	for _, c := range r.Covered {
		times[pair{First: c.First, When: c.When, Second: c.Second}] += c.Times
	}
	for _, first := range append([]string{""}, names...) {
		row := mapRow{Name: first}
		for _, second := range names {
			var cell mapCell
			var list strings.Builder
			for _, when := range triggers {
				if n := times[pair{First: first, When: when, Second: second}]; n > 0 {
					cell.Triggers++
					cell.Times += n
					fmt.Fprintf(&list, "\n%s: %d", when, n)
				}
			}
			before := first
			if first == "" {
				before = "begins"
			}
			cell.Title = fmt.Sprintf("%s, then %s: %d%s", before, second, cell.Times, list.String())
			row.Cells = append(row.Cells, cell)
		}
		rows = append(rows, row)
	}
	return names, rows
}

// WriteHTML writes one file without a script that shows a result in a browser without a network: the
// figures, the failures with links to their files, and which pairs of moves there were.
func WriteHTML(w io.Writer, r *Result) error {
	i := index{Result: r, Triggers: len(triggers)}
	i.Style, i.Policy = report.Sheet(pageStyle)
	i.Names, i.Rows = mapOf(r)
	if err := indexPage.Execute(w, i); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// AnHour is how many schedules ended in an hour; 0 before the first.
func (r *Result) AnHour() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Schedules) / r.Elapsed.Hours()
}
