package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// format is the version of a Result's JSON form.
const format = 1

// Names of what an Item's Data has.
const (
	Perc50 = "Perc50"
	Perc90 = "Perc90"
	Perc99 = "Perc99"
	// Max is the most of a second; of throughput only.
	Max = "Max"
)

// The measurements, named as clusterloader2 names them.
const (
	// PodStartup: how long Pods take from their creation until a watch shows them Ready, and each part.
	PodStartup = "PodStartupLatency"
	// Throughput: Pods that were scheduled in each second.
	Throughput = "SchedulingThroughput"
	// NetworkProgramming: from a Pod that a watch shows Ready to the endpoints of its Services.
	NetworkProgramming = "NetworkProgrammingLatency"
	// Responsiveness: how long requests to the API server take, by verb and resource.
	Responsiveness = "APIResponsiveness"
)

const (
	milliseconds  = "ms"
	podsASecond   = "Pods/s"
	metricLabel   = "Metric"
	countLabel    = "Count"
	verbLabel     = "Verb"
	resourceLabel = "Resource"
	subLabel      = "Subresource"
	scopeLabel    = "Scope"
)

// Result is all that was measured. Its JSON form is what a later call compares with.
type Result struct {
	// Format is the version of the JSON form, 1.
	Format  int     `json:"format"`
	Machine Machine `json:"machine"`
	// Version of koupsandbox; empty if it was built without one. Sandbox is its name, Provider and
	// Kubernetes are its API.
	Version    string `json:"version,omitempty"`
	Sandbox    string `json:"sandbox"`
	Provider   string `json:"provider"`
	Kubernetes string `json:"kubernetes"`
	// Runs in the order in which they were made.
	Runs []Run `json:"runs"`
	// Stopped: it was ended before all runs had been made.
	Stopped bool `json:"stopped,omitempty"`
	// Baseline is the comparison with an earlier result; nil = there was none.
	Baseline *Comparison `json:"baseline,omitempty"`
}

// Run is one run of a scenario.
type Run struct {
	Scenario string `json:"scenario"`
	// Cell of its matrix, such as tunnel=mqtt; empty = it has none.
	Cell string `json:"cell,omitempty"`
	// Bases is how many bases the run has seen.
	Bases   int              `json:"bases"`
	Verdict scenario.Verdict `json:"verdict"`
	// Failure says why it has not passed. Such a run has no Items.
	Failure string        `json:"failure,omitempty"`
	Elapsed time.Duration `json:"elapsed"`
	// Lag is how late, at most, the run was told of what had happened: how far its times may be off.
	Lag time.Duration `json:"lag,omitempty"`
	// Notes say what could not be measured, and why.
	Notes []string `json:"notes,omitempty"`
	// Items are the measures.
	Items []Item `json:"dataItems,omitempty"`
}

// Item is one measure of a run, in the shape of clusterloader2's PerfData, with the measurement beside it.
type Item struct {
	Measurement string `json:"measurement"`
	// Data has Perc50, Perc90 and Perc99, of throughput Max too.
	Data map[string]float64 `json:"data"`
	// Unit is ms or Pods/s.
	Unit string `json:"unit"`
	// Labels: Metric, or Verb, Resource, Subresource and Scope of requests; and Count, how many samples
	// there were.
	Labels map[string]string `json:"labels"`
}

// Name is that of the measure: create_to_schedule, or PATCH pods/status (resource).
func (i Item) Name() string {
	if name := i.Labels[metricLabel]; name != "" {
		return name
	}
	name := i.Labels[verbLabel] + " " + i.Labels[resourceLabel]
	if sub := i.Labels[subLabel]; sub != "" {
		name += "/" + sub
	}
	if scope := i.Labels[scopeLabel]; scope != "" {
		name += " (" + scope + ")"
	}
	return name
}

// samples is how many there were; 0 = the label is missing or no number.
func (i Item) samples() int {
	n, err := strconv.Atoi(i.Labels[countLabel])
	if err != nil {
		return 0
	}
	return n
}

// passed are the runs that have passed.
func (r *Result) passed() []Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return run.Verdict != scenario.Passed })
}

// OK tells whether there was a run and all have passed, no end came early, and nothing is worse than in
// the baseline.
func (r *Result) OK() bool {
	return len(r.Runs) > 0 && len(r.passed()) == len(r.Runs) && !r.Stopped && (r.Baseline == nil || len(r.Baseline.Regressions()) == 0)
}

// series is a measure of a scenario with a number of bases, over the runs.
type series struct {
	scenario, measurement, name, unit string
	bases                             int
	runs                              []Item
}

// values of one percentile, by run.
func (s series) values(percentile string) []float64 {
	values := make([]float64, len(s.runs))
	for i, item := range s.runs {
		values[i] = item.Data[percentile]
	}
	return values
}

// samples is how many the run with the fewest had.
func (s series) samples() int {
	least := s.runs[0].samples()
	for _, item := range s.runs {
		least = min(least, item.samples())
	}
	return least
}

// all gathers the measures of the runs that have passed, in the order in which they come first.
func (r *Result) all() []series {
	var list []series
	for _, run := range r.passed() {
		of := run.title()
		for _, item := range run.Items {
			name := item.Name()
			i := slices.IndexFunc(list, func(s series) bool {
				return s.scenario == of && s.bases == run.Bases && s.measurement == item.Measurement && s.name == name
			})
			if i < 0 {
				i = len(list)
				list = append(list, series{scenario: of, bases: run.Bases, measurement: item.Measurement, name: name, unit: item.Unit})
			}
			list[i].runs = append(list[i].runs, item)
		}
	}
	return list
}

// title names the scenario, and its cell.
func (r Run) title() string { return strings.TrimSpace(r.Scenario + " " + r.Cell) }

// WriteJSON writes a result for programs, and for Read.
func WriteJSON(w io.Writer, r *Result) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Read reads the result of an earlier call from a file.
func Read(file string) (*Result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline: %w", err)
	}
	r := &Result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is no result of koupsandbox bench: %w", file, err)
	}
	switch {
	case r.Format == 0:
		return nil, fmt.Errorf("%s is no result of koupsandbox bench: it names no format", file)
	case r.Format != format:
		return nil, fmt.Errorf("%s has the format %d, and this koupsandbox reads %d: measure the baseline anew", file, r.Format, format)
	case len(r.passed()) == 0:
		return nil, errors.New(file + " has no run that has passed: nothing can be compared with it")
	}
	return r, nil
}
