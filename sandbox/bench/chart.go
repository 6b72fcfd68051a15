package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The size of a chart and of its margins.
const (
	width, height           = 420.0, 200.0
	left, right, above, low = 52.0, 12.0, 10.0, 26.0
	// manyTimes is from how many times the fewest bases the axis is a logarithm.
	manyTimes = 10
)

// chart is a measure against the number of bases.
type chart struct {
	Name, Unit  string
	Lines       []curve
	Columns     []tick // numbers of bases
	Rows        []tick // values
	Table       []row
	Width, High float64
	Left, Right float64 // of the plot
	Top, Bottom float64
}

// curve joins the medians of a percentile; dots are single runs.
type curve struct {
	Name   string // its class too
	Points string
	Dots   []dot
}

type dot struct {
	X, Y  float64
	Title string
}

type tick struct {
	At   float64
	Text string
}

// row is a number of bases in the table beneath.
type row struct {
	Bases, Runs, Samples int
	Cells                []string
}

// chartOf draws the series of one measure, by the number of bases.
func chartOf(all []series) chart {
	c := chart{Name: all[0].name, Unit: all[0].unit, Width: width, High: height, Left: left, Right: width - right, Top: above, Bottom: height - low}
	figures := []string{Perc50, Perc90, Perc99}
	if _, has := all[0].runs[0].Data[Max]; has {
		figures = append(figures, Max)
	}
	most := 0.0
	for _, s := range all {
		for _, f := range figures {
			most = max(most, slices.Max(s.values(f)))
		}
	}
	step := stepOf(most)
	top := max(step*math.Ceil(most/step), step)
	x, y := across(all), func(v float64) float64 { return c.Bottom - v/top*(c.Bottom-c.Top) }
	for v := 0.0; v <= top+step/2; v += step {
		c.Rows = append(c.Rows, tick{y(v), short(v)})
	}
	for _, f := range figures {
		line := curve{Name: shown(f)}
		var points []string
		for _, s := range all {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(s.bases), y(median(s.values(f)))))
			for i, v := range s.values(f) {
				line.Dots = append(line.Dots, dot{x(s.bases), y(v), fmt.Sprintf("%s, %d bases, run %d: %s %s", shown(f), s.bases, i+1, short(v), s.unit)})
			}
		}
		line.Points = strings.Join(points, " ")
		c.Lines = append(c.Lines, line)
	}
	for _, s := range all {
		c.Columns = append(c.Columns, tick{x(s.bases), fmt.Sprint(s.bases)})
		r := row{Bases: s.bases, Runs: len(s.runs), Samples: s.samples()}
		for _, f := range figures {
			r.Cells = append(r.Cells, fmt.Sprintf("%s ± %s", s.figure(f), short(deviation(s.values(f)))))
		}
		c.Table = append(c.Table, r)
	}
	return c
}

// across places numbers of bases between the margins; a single one is in the middle.
func across(all []series) func(int) float64 {
	scale := func(n int) float64 { return float64(n) }
	first, last := all[0].bases, all[len(all)-1].bases
	if first > 0 && last >= manyTimes*first {
		scale = func(n int) float64 { return math.Log(float64(n)) }
	}
	const inside = 24.0 // so that the first and the last are off the edges
	from, to := left+inside, width-right-inside
	return func(n int) float64 {
		if first == last {
			return (from + to) / 2
		}
		return from + (scale(n)-scale(first))/(scale(last)-scale(first))*(to-from)
	}
}

// stepOf is the distance of the lines across: 1, 2 or 5 times a power of ten, at most five of them.
func stepOf(most float64) float64 {
	if most <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, times := range []float64{1, 2, 5, 10} {
		if most/(step*times) <= 5 {
			return step * times
		}
	}
	return step * 10
}
