package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchmath"
)

const (
	// MinRuns is the minimum number of runs for each side of a comparison. With fewer runs, no difference can be
	// significant in the Mann-Whitney U test.
	MinRuns = 4
	// minShare (a fraction of the baseline), minTime (milliseconds) and minRate (Pods per second) are the smallest
	// differences that are reported. Smaller differences are below the resolution of watches and histograms.
	minShare, minTime, minRate = 0.1, 10, 1
)

// Comparison is the result of comparing two sets of benchmark results.
type Comparison struct {
	// Compared is the number of values that exist in both sets.
	Compared int
	// Changes lists the significant differences.
	Changes []MetricChange
	// Missing lists the names of baseline benchmarks that have no new results.
	Missing []string
}

// MetricChange is a significant difference between two medians.
type MetricChange struct {
	// Name is the name of the benchmark. Unit is the unit of the compared values, such as p50-ms.
	Name, Unit string
	// Before is the median of the baseline. Now is the median of the new results.
	Before, Now float64
	// Test is the result of the Mann-Whitney U test of the two sets of values.
	Test  benchmath.Comparison
	Worse bool
}

// Regressions returns the changes whose new median is worse than the baseline.
func (c *Comparison) Regressions() []MetricChange {
	return slices.DeleteFunc(slices.Clone(c.Changes), func(c MetricChange) bool { return !c.Worse })
}

// matches returns an error if the baseline was measured with another configuration, so that results cannot be
// compared with it.
func (r *Results) matches(config map[string]string) error {
	for _, key := range []string{"goos", "goarch", "cpu", coresKey, providerKey} {
		if r.config[key] != config[key] {
			return fmt.Errorf("the baseline was measured with %s %q, but the current value is %q; "+
				"measure a new baseline", key, r.config[key], config[key])
		}
	}
	if !slices.ContainsFunc(r.benchmarks, func(f *benchmark) bool { return len(f.values) >= MinRuns }) {
		return fmt.Errorf("the baseline has fewer than %d runs; measure it with --runs %d", MinRuns, MinRuns)
	}
	return nil
}

// Compare compares results with a baseline. It reports a change if the Mann-Whitney U test is significant at the 0.05
// level, and the medians differ by more than 10 % and by more than 10 ms or 1 Pod/s. It fails if no benchmark has
// enough runs on both sides.
func Compare(baseline, now *Results) (*Comparison, error) {
	if err := baseline.matches(now.config); err != nil {
		return nil, err
	}
	c := &Comparison{}
	for _, before := range baseline.benchmarks {
		after := now.find(before.name, before.unit)
		if after == nil {
			if name := now.missing(before.name); name != "" && !slices.Contains(c.Missing, name) {
				c.Missing = append(c.Missing, name)
			}
			continue
		}
		if min(len(before.values), len(after.values)) < MinRuns {
			continue
		}
		c.Compared++
		change := MetricChange{Name: before.name, Unit: before.unit, Before: before.median(), Now: after.median()}
		change.Test = benchmath.AssumeNothing.Compare(before.sample(), after.sample())
		rate, least := strings.HasSuffix(before.unit, podsPerSec), float64(minTime)
		if rate {
			least = minRate
		}
		if change.Test.P < change.Test.Alpha &&
			math.Abs(change.Now-change.Before) > max(minShare*change.Before, least) {
			change.Worse = (change.Now > change.Before) != rate
			c.Changes = append(c.Changes, change)
		}
	}
	if c.Compared == 0 {
		return nil, fmt.Errorf("no benchmark has at least %d passed runs in both the baseline and the new results",
			MinRuns)
	}
	return c, nil
}

// missing returns the name to report for a baseline benchmark that has no new results. If the whole scenario has no
// results, it returns the name of the scenario with its number of bases. It returns an empty string for an API
// request that was not sent during the run.
func (r *Results) missing(name string) string {
	run, _, _ := strings.Cut(name, measureKey)
	switch {
	case !slices.ContainsFunc(r.benchmarks, func(f *benchmark) bool {
		return strings.HasPrefix(f.name,
			run+measureKey)
	}):
		return run
	case strings.Contains(name, requestMeasure):
		return ""
	default:
		return name
	}
}

func (f *benchmark) sample() *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(f.values), &benchmath.DefaultThresholds)
}

func (f *benchmark) median() float64 {
	return round(benchmath.AssumeNothing.Summary(f.sample(), 0.95).Center)
}

// WriteText writes the comparison as a text table.
func (c *Comparison) WriteText(w io.Writer) error {
	for _, name := range c.Missing {
		fmt.Fprintf(w, "missing from the new results: %s\n", name)
	}
	changes := slices.SortedStableFunc(slices.Values(c.Changes),
		func(a, b MetricChange) int { return cmp.Compare(b.Now/b.Before, a.Now/a.Before) })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, change := range changes {
		word := "better"
		if change.Worse {
			word = "WORSE"
		}
		fmt.Fprintf(t, "%s\t%s\t%g → %g %s\t%s\t%s\n", word, change.Name, change.Before, change.Now, change.Unit,
			change.Test.FormatDelta(change.Before, change.Now), change.Test)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	_, err := fmt.Fprintf(w, "%d results compared with the baseline: %d worse, %d better\n", c.Compared,
		len(c.Regressions()), len(c.Changes)-len(c.Regressions()))
	if err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}
