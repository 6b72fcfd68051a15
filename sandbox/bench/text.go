package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// slowest is how many kinds of requests the table shows; the page and the JSON form have all.
const slowest = 8

// WriteText writes a table for each scenario, what could not be measured, and the comparison.
func WriteText(w io.Writer, r *Result) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, of := range r.groups() {
		line(t, of.title, "bases", "runs", "samples", "p50", "p90", "p99", "max", "unit")
		for _, s := range of.shown() {
			line(t, "  "+s.name, strconv.Itoa(s.bases), strconv.Itoa(len(s.runs)), strconv.Itoa(s.samples()), s.figure(Perc50), s.figure(Perc90), s.figure(Perc99), s.figure(Max), s.unit)
		}
		line(t)
	}
	_ = t.Flush() // a Builder takes everything
	for _, run := range r.Runs {
		if run.Verdict != scenario.Passed {
			fmt.Fprintf(&b, "not measured: %s, %d bases: %s: %s\n", run.title(), run.Bases, run.Verdict, run.Failure)
		}
	}
	for _, note := range r.notes() {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	r.Baseline.write(&b)
	fmt.Fprintf(&b, "%s: %s\n", r.Machine.Name, r.Machine)
	if _, err := io.WriteString(w, plain.Lines(b.String())); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

func line(w io.Writer, cells ...string) {
	for i, cell := range cells {
		cells[i] = plain.Text(cell)
	}
	fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// group is what belongs to one scenario.
type group struct {
	title string
	all   []series
}

// groups are the scenarios in their order, with their measures, each by the number of bases.
func (r *Result) groups() []group {
	var list []group
	for _, s := range r.all() {
		i := slices.IndexFunc(list, func(g group) bool { return g.title == s.scenario })
		if i < 0 {
			i = len(list)
			list = append(list, group{title: s.scenario})
		}
		list[i].all = append(list[i].all, s)
	}
	for _, g := range list {
		order := map[string]int{}
		for _, s := range g.all {
			if _, known := order[s.measurement+s.name]; !known {
				order[s.measurement+s.name] = len(order)
			}
		}
		slices.SortStableFunc(g.all, func(a, b series) int {
			return cmp.Or(cmp.Compare(order[a.measurement+a.name], order[b.measurement+b.name]), cmp.Compare(a.bases, b.bases))
		})
	}
	return list
}

// shown are the measures for a table: of requests the kinds whose p99 is the highest with any number of bases.
func (g group) shown() []series {
	worst := map[string]float64{}
	var names []string
	for _, s := range g.all {
		if s.measurement != Responsiveness {
			continue
		}
		if _, known := worst[s.name]; !known {
			names = append(names, s.name)
		}
		worst[s.name] = max(worst[s.name], median(s.values(Perc99)))
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(worst[b], worst[a]) })
	names = names[:min(len(names), slowest)]
	return slices.DeleteFunc(slices.Clone(g.all), func(s series) bool {
		return s.measurement == Responsiveness && !slices.Contains(names, s.name)
	})
}

// figure is the median of the runs; empty if the measure has no such figure.
func (s series) figure(name string) string {
	if _, has := s.runs[0].Data[name]; !has {
		return ""
	}
	return short(median(s.values(name)))
}

// short shows as many digits as mean something.
func short(v float64) string {
	if v < 100 && v != float64(int64(v)) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// notes are those of the runs, each once, and how late the runs saw.
func (r *Result) notes() []string {
	var notes []string
	var lag time.Duration
	for _, run := range r.Runs {
		lag = max(lag, run.Lag)
		for _, n := range run.Notes {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	if lag > 0 {
		notes = append(notes, fmt.Sprintf("the watches told up to %d ms late: times of Pods may be off by as much", lag.Milliseconds()))
	}
	if r.Stopped {
		notes = append(notes, "it was stopped before all runs had been made")
	}
	return notes
}

// write tells a comparison; nil = there was none.
func (c *Comparison) write(b *strings.Builder) {
	if c == nil {
		return
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(b, "warning: %s\n", w)
	}
	for _, m := range c.Missing {
		fmt.Fprintf(b, "not compared, since it was not measured now: %s\n", m)
	}
	for _, change := range c.Changes {
		fmt.Fprintf(b, "%s\n", change)
	}
	fmt.Fprintf(b, "%d figures compared with the baseline: %d worse, %d better, the others as before\n", c.Compared, len(c.Regressions()), len(c.Changes)-len(c.Regressions()))
}

// String is a sentence.
func (c Change) String() string {
	word := "better"
	if c.Worse {
		word = "WORSE"
	}
	return fmt.Sprintf("%s: %s, %d bases: %s %s was %s and is %s %s; noise is up to %s", word, c.Scenario, c.Bases, c.Name, shown(c.Percentile),
		short(c.Before), short(c.Now), c.Unit, short(c.Noise))
}

// shown is a figure's name for people: p99 for Perc99.
func shown(figure string) string {
	return strings.ToLower(strings.Replace(figure, "Perc", "p", 1))
}
