package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// metricsTimeout is the timeout of one request for the metrics of the API server.
const metricsTimeout = 30 * time.Second

// Options configures Execute and Observe.
type Options struct {
	// Sandbox is the sandbox to measure. It must be running. Required.
	Sandbox *sandbox.Sandbox
	// API is a client for the Kubernetes API of the sandbox. Required.
	API kubernetes.Interface
	// Sizes lists the scenarios to run, with one element for each number of bases. Required for Execute.
	Sizes [][]*source.Scenario
	// Runs is the number of runs for each scenario. Default: 1.
	Runs int
	// Output receives the results of each run, in the Go benchmark format, when the run ends. Required.
	Output io.Writer
	// Baseline holds the results of earlier runs, to compare the new results with. Execute fails before the first run
	// if the results cannot be compared. Default: none.
	Baseline *Results
	// Progress is called for each event of a run. Calls do not overlap. Default: none.
	Progress func(scenario.ProgressEvent)
	// Measured is called after each run, before the objects of the run are deleted. Default: none.
	Measured func(Run)
}

// Run describes one run of a scenario.
type Run struct {
	// Name is the name of the benchmark, such as RollingUpdate/tunnel=mqtt/bases=4.
	Name    string
	Verdict scenario.Result
	// Failure is the reason why the run failed. A failed run has no results.
	Failure string
	Elapsed time.Duration
	// Notes describes the measures that are missing and why.
	Notes   []string
	Results []*benchfmt.Result
}

// Report is the result of Execute or Observe.
type Report struct {
	Results Results
	// Runs is the number of runs. Failed is the number of runs that failed.
	Runs, Failed int
	// Stopped reports whether the context was done before the last run ended.
	Stopped bool
	// Comparison is the comparison with the baseline. It is nil if there is no baseline.
	Comparison *Comparison
}

// OK reports whether all runs passed and no value is worse than in the baseline. It returns false if there were no
// runs or if the context was done before the last run ended.
func (r *Report) OK() bool {
	return r.Runs > 0 && r.Failed == 0 && !r.Stopped && (r.Comparison == nil || len(r.Comparison.Regressions()) == 0)
}

type recorder struct {
	Options
	config []benchfmt.Config
	writer *benchfmt.Writer
	report Report
	err    error // first error of the writer
}

func newRecorder(ctx context.Context, o Options) (*recorder, error) {
	status, err := o.Sandbox.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	config, err := configOf(ctx, status)
	if err != nil {
		return nil, err
	}
	r := &recorder{Options: o, config: config, writer: benchfmt.NewWriter(o.Output)}
	r.report.Results.setConfig(config)
	return r, nil
}

// Execute runs the scenarios for each number of bases in turn, and repeats this Runs times. It blocks until all runs
// have ended and their objects are deleted. When ctx is done, the current run is stopped, and the report contains the
// results so far. The report is nil if Execute fails before the first run.
func Execute(ctx context.Context, o Options) (*Report, error) {
	r, err := newRecorder(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Baseline != nil {
		if err := o.Baseline.matches(r.report.Results.config); err != nil {
			return nil, err
		}
	}
	for range max(o.Runs, 1) {
		for _, scenarios := range o.Sizes {
			if err := r.run(ctx, scenarios); err != nil {
				return &r.report, err
			}
			if ctx.Err() != nil {
				r.report.Stopped = true
				return &r.report, nil //nolint:nilerr // Stopped reports it
			}
		}
	}
	if o.Baseline != nil {
		r.report.Comparison, err = Compare(o.Baseline, &r.report.Results)
	}
	return &r.report, err
}

// run runs the scenarios once. It reads the metrics of the API server before the clean-up, so that they do not
// include the clean-up requests.
func (r *recorder) run(ctx context.Context, scenarios []*source.Scenario) error {
	var before snapshot
	_, err := scenario.Execute(ctx,
		scenario.Options{Sandbox: r.Sandbox, Scenarios: scenarios, Progress: func(e scenario.ProgressEvent) {
			switch e.Kind {
			case scenario.RunStarted:
				before = takeSnapshot(ctx, r.API)
			case scenario.RunEnded:
				r.record(runOf(e.Run, before, takeSnapshot(ctx, r.API)))
			}
			if r.Progress != nil {
				r.Progress(e)
			}
		}})
	return errors.Join(err, r.err)
}

func (r *recorder) record(run Run) {
	r.report.Runs++
	if run.Verdict != scenario.Passed {
		r.report.Failed++
	}
	for _, result := range run.Results {
		result.Config = r.config
		r.report.Results.add(result)
		if err := r.writer.Write(result); err != nil && r.err == nil {
			r.err = fmt.Errorf("writing benchmark results: %w", err)
		}
	}
	if r.Measured != nil {
		r.Measured(run)
	}
}

type snapshot struct {
	metrics Metrics
	err     error
}

// takeSnapshot reads the metrics of the API server. It ignores the cancellation of ctx, because a canceled run is
// measured, too.
func takeSnapshot(ctx context.Context, api kubernetes.Interface) snapshot {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsTimeout)
	defer cancel()
	metrics, err := APIMetrics(ctx, api.CoreV1().RESTClient())
	return snapshot{metrics, err}
}

func runOf(run *scenario.Run, before, after snapshot) Run {
	l := readEvents(run.Timeline, time.Time{})
	m := Run{Name: nameOf(run.Scenario, run.Cell, len(l.bases)), Verdict: run.Result, Failure: run.Failure,
		Elapsed: run.Elapsed}
	if run.Result == scenario.Passed {
		m.measure(l, before, after)
	}
	return m
}

// nameOf returns the benchmark name of a scenario run. For example, the scenario rolling-update with the matrix
// values {tunnel: mqtt} and 4 bases is named RollingUpdate/tunnel=mqtt/bases=4.
func nameOf(name string, cell map[string]any, bases int) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		b.WriteString(strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):])
	}
	for _, key := range slices.Sorted(maps.Keys(cell)) {
		value := strings.NewReplacer(" ", "_", "\t", "_", "\n", "_", "/", "_").Replace(fmt.Sprint(cell[key]))
		fmt.Fprintf(&b, "/%s=%s", key, value)
	}
	fmt.Fprintf(&b, "/bases=%d", bases)
	return b.String()
}

func (m *Run) measure(l *podTimeline, before, after snapshot) {
	m.Results = l.results()
	if len(l.all) == 0 {
		m.Notes = append(m.Notes, "no module Pod was created, so there are no results for Pods")
	}
	if err := cmp.Or(before.err, after.err); err != nil {
		m.Notes = append(m.Notes, "API responsiveness was not measured: "+err.Error())
	} else if requests, ok := responsiveness(before.metrics, after.metrics); ok {
		m.Results = append(m.Results, requests...)
	} else {
		m.Notes = append(m.Notes,
			"API responsiveness was not measured: the counters of the API server decreased; it may have restarted, "+
				"or another API server may have answered")
	}
	for _, r := range m.Results {
		r.Name = append(benchfmt.Name(m.Name), r.Name...)
	}
}

// Observe measures the activity in a sandbox until ctx is done, which is not an error. Observe calls follow, which
// must pass the sandbox events to the given function until ctx is done. Pods that already exist are ignored. Network
// programming is not measured, because the events do not include endpoints.
func Observe(ctx context.Context, o Options, follow func(context.Context, func(events.Event) error) error) (*Report,
	error) {
	r, err := newRecorder(ctx, o)
	if err != nil {
		return nil, err
	}
	before, start := takeSnapshot(ctx, o.API), time.Now()
	var seen []events.Event
	if err := follow(ctx, func(e events.Event) error {
		seen = append(seen, e)
		return nil
	}); ctx.Err() == nil {
		return nil, err
	}
	r.record(newObservedRun(seen, start, before, takeSnapshot(ctx, o.API)))
	return &r.report, r.err
}

func newObservedRun(all []events.Event, start time.Time, before, after snapshot) Run {
	l := readEvents(all, start)
	m := Run{Name: nameOf("observed", nil, len(l.bases)), Verdict: scenario.Passed, Elapsed: time.Since(start)}
	m.measure(l, before, after)
	return m
}
