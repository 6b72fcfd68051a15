package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

const (
	// LeastRuns is how many runs each side of a comparison needs: of two nobody knows which is the odd one.
	LeastRuns = 3
	// spreads is how many times the spread of one side the medians must differ; normal turns a median
	// deviation into the standard deviation of a normal distribution.
	spreads, normal = 3, 1.4826
	// share of the baseline's median that is noise on any machine.
	share = 0.1
	// leastTime in ms, and leastRate in Pods a second, are noise of the measuring itself: of watches, and of
	// buckets, the first of which ends at 5 ms.
	leastTime, leastRate = 10, 1
)

// Comparison is what has become of a baseline.
type Comparison struct {
	// Of is the machine of the baseline.
	Of Machine `json:"of"`
	// Compared is how many figures were.
	Compared int `json:"compared"`
	// Changes are those that differ beyond noise, worse or better.
	Changes []Change `json:"changes"`
	// Missing are the measures, and the sizes, of the baseline that now are not there.
	Missing []string `json:"missing,omitempty"`
	// Warnings say what makes the comparison doubtful.
	Warnings []string `json:"warnings,omitempty"`
}

// Change is a figure that differs beyond noise.
type Change struct {
	Scenario    string `json:"scenario"`
	Bases       int    `json:"bases"`
	Measurement string `json:"measurement"`
	Name        string `json:"name"`
	Percentile  string `json:"percentile"`
	Unit        string `json:"unit"`
	// Before and Now are medians of the runs; Noise is what they may differ by.
	Before float64 `json:"before"`
	Now    float64 `json:"now"`
	Noise  float64 `json:"noise"`
	Worse  bool    `json:"worse"`
}

// Regressions are the changes to the worse.
func (c *Comparison) Regressions() []Change {
	return slices.DeleteFunc(slices.Clone(c.Changes), func(c Change) bool { return !c.Worse })
}

// Comparable says why what is measured in this sandbox, on this machine, cannot be compared with a baseline;
// nil = it can. Ask before a long measurement.
func Comparable(baseline, now *Result) error {
	switch {
	case baseline.Machine.hardware() != now.Machine.hardware():
		return fmt.Errorf("the baseline was measured on another machine (%s: %s), and this is %s: %s; measure a baseline here",
			baseline.Machine.Name, baseline.Machine.hardware(), now.Machine.Name, now.Machine.hardware())
	case baseline.Provider != now.Provider:
		return fmt.Errorf("the baseline was measured with the provider %s, and this is %s", baseline.Provider, now.Provider)
	}
	for _, s := range baseline.all() {
		if len(s.runs) >= LeastRuns {
			return nil
		}
	}
	return fmt.Errorf("no scenario of the baseline has %d runs that have passed, and of fewer nobody knows the noise: measure it with --runs %d or more", LeastRuns, LeastRuns)
}

// Compare says what differs from a baseline. A figure is worse when the medians of the two sides differ by
// more than the noise, and the better quarter of the runs now is worse than the worse quarter before. Noise is
// three times the spread of the side that spreads more, a tenth of the baseline, and 10 ms or one Pod a
// second, whichever is most. Of a percentile beyond which a run has no sample, nothing is said. The error
// says that there is nothing to compare.
func Compare(baseline, now *Result) (*Comparison, error) {
	if err := Comparable(baseline, now); err != nil {
		return nil, err
	}
	c := &Comparison{Of: baseline.Machine, Changes: []Change{}}
	if baseline.Machine.Name != now.Machine.Name {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the baseline was measured on %s, and this is %s: they are alike, but not the same machine", baseline.Machine.Name, now.Machine.Name))
	}
	if baseline.Kubernetes != now.Kubernetes {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the baseline was measured with Kubernetes %s, and this is %s", baseline.Kubernetes, now.Kubernetes))
	}
	few := false
	present := now.all()
	for _, before := range baseline.all() {
		i := slices.IndexFunc(present, before.same)
		if i < 0 {
			c.miss(before, present)
			continue
		}
		if len(before.runs) < LeastRuns || len(present[i].runs) < LeastRuns {
			few = true
			continue
		}
		c.compare(before, present[i])
	}
	switch {
	case c.Compared > 0:
		return c, nil
	case few:
		return nil, fmt.Errorf("nothing is compared with the baseline: each side needs %d runs of a scenario that have passed", LeastRuns)
	default:
		return nil, errors.New("nothing is compared with the baseline: it has no measure of these scenarios with these numbers of bases")
	}
}

// same tells whether two series are of the same measure.
func (s series) same(other series) bool {
	return s.scenario == other.scenario && s.bases == other.bases && s.measurement == other.measurement && s.name == other.name
}

// miss notes what is not there any more, in few words: a size that was not run, or requests of which there are
// none at all. A kind of request that nobody sends is no loss.
func (c *Comparison) miss(before series, present []series) {
	what := fmt.Sprintf("%s, %d bases", before.scenario, before.bases)
	run, measured := false, false
	for _, s := range present {
		if s.scenario == before.scenario && s.bases == before.bases {
			run, measured = true, measured || s.measurement == before.measurement
		}
	}
	switch requests := before.measurement == Responsiveness; {
	case run && requests && measured:
		return
	case run && requests:
		what += ": " + before.measurement
	case run:
		what += fmt.Sprintf(": %s %s", before.measurement, before.name)
	}
	if !slices.Contains(c.Missing, what) {
		c.Missing = append(c.Missing, what)
	}
}

// compare judges the figures of one measure.
func (c *Comparison) compare(before, now series) {
	if now.measurement == Throughput { // the seconds in between are few, and say little
		c.judge(before, now, Max, -1, leastRate)
		return
	}
	for _, p := range shares {
		if min(before.samples(), now.samples()) >= p.least {
			c.judge(before, now, p.name, 1, leastTime)
		}
	}
}

// judge compares one figure. worse is 1 if more is worse, and -1 if less is.
func (c *Comparison) judge(before, now series, percentile string, worse, least float64) {
	c.Compared++
	old, young := before.values(percentile), now.values(percentile)
	change := Change{Scenario: now.scenario, Bases: now.bases, Measurement: now.measurement, Name: now.name, Percentile: percentile, Unit: now.unit,
		Before: median(old), Now: median(young)}
	change.Noise = max(spreads*normal*max(deviation(old), deviation(young)), share*change.Before, least)
	if math.Abs(change.Now-change.Before) <= change.Noise || overlap(old, young) {
		return
	}
	change.Worse = (change.Now-change.Before)*worse > 0
	c.Changes = append(c.Changes, change)
}

// overlap tells whether the quarters that face each other do: of three runs, the nearest two.
func overlap(a, b []float64) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return percentile(a, 75) >= percentile(b, 25) && percentile(b, 75) >= percentile(a, 25)
}
