package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// askTime bounds a question to the API server.
const askTime = 30 * time.Second

// Options of Execute.
type Options struct {
	// Sandbox that is measured; it must be up. Required.
	Sandbox *sandbox.Sandbox
	// API is a client of its Kubernetes API. Required.
	API kubernetes.Interface
	// Sizes are scenarios, once for each number of bases that they are to have. Required.
	Sizes [][]*source.Scenario
	// Runs is how often each is run. Default: 1.
	Runs int
	// Baseline is an earlier result to compare with; what cannot be compared is refused before anything
	// begins. Default: there is none.
	Baseline *Result
	// Progress hears what happens in the runs, one call at a time. Default: nobody.
	Progress func(scenario.Event)
	// Measured hears of each run what was measured, before the run is cleaned up. Default: nobody.
	Measured func(Run)
}

// Execute runs every size in turn, as often as it is to be, so that a machine that gets slower does so for
// all of them. It blocks until all runs have ended and what they made is gone. When ctx ends, so do the runs:
// the result has what was measured until then, and says that it was stopped. The error tells what kept it
// from beginning, or that nothing could be compared; the result, if there is one, is right all the same.
func Execute(ctx context.Context, o Options) (*Result, error) {
	r, err := newResult(ctx, o.Sandbox)
	if err != nil {
		return nil, err
	}
	if o.Baseline != nil {
		if err := Comparable(o.Baseline, r); err != nil {
			return nil, err
		}
	}
	for range max(o.Runs, 1) {
		for _, scenarios := range o.Sizes {
			if err := r.run(ctx, o, scenarios); err != nil {
				return r, err
			}
			if ctx.Err() != nil {
				r.Stopped = true
				return r, nil //nolint:nilerr // whoever has stopped it knows
			}
		}
	}
	if o.Baseline != nil {
		r.Baseline, err = Compare(o.Baseline, r)
	}
	return r, err
}

// newResult begins a result in a sandbox.
func newResult(ctx context.Context, of *sandbox.Sandbox) (*Result, error) {
	status, err := of.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	r := &Result{Format: format, Version: version.Of(), Sandbox: of.Name, Provider: string(status.Provider), Kubernetes: status.Version, Runs: []Run{}}
	r.Machine, err = MachineOf(ctx)
	return r, err
}

// run runs scenarios once and measures each run between its two looks at the API server, before it is cleaned
// up: what the clean-up costs is no part of it.
func (r *Result) run(ctx context.Context, o Options, scenarios []*source.Scenario) error {
	var look look
	_, err := scenario.Execute(ctx, scenario.Options{Sandbox: o.Sandbox, Scenarios: scenarios, Progress: func(e scenario.Event) {
		switch e.Kind {
		case scenario.RunBegan:
			look = lookAt(ctx, o.API)
		case scenario.RunEnded:
			run := runOf(e.Run, look, lookAt(ctx, o.API))
			r.Runs = append(r.Runs, run)
			if o.Measured != nil {
				o.Measured(run)
			}
		}
		if o.Progress != nil {
			o.Progress(e)
		}
	}})
	return err
}

// look is what an API server says of itself at a moment.
type look struct {
	metrics Metrics
	err     error
}

// lookAt asks an API server; Ctrl-C does not take the end of a run from it.
func lookAt(ctx context.Context, api kubernetes.Interface) look {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	metrics, err := APIMetrics(ctx, api.CoreV1().RESTClient())
	return look{metrics, err}
}

// runOf measures a run that has ended.
func runOf(run *scenario.Run, before, after look) Run {
	l := follow(run.Timeline, time.Time{})
	m := Run{Scenario: run.Scenario, Cell: cellOf(run.Cell), Bases: len(l.bases), Verdict: run.Verdict, Failure: run.Failure, Elapsed: run.Elapsed, Lag: run.Delay}
	if run.Verdict == scenario.Passed {
		m.measure(l, before, after)
	}
	return m
}

// measure adds all measures.
func (m *Run) measure(l *lives, before, after look) {
	m.Items = l.items()
	if len(l.all) == 0 {
		m.Notes = append(m.Notes, "no module Pod was created: there is nothing of Pods to measure")
	}
	if err := cmp.Or(before.err, after.err); err != nil {
		m.Notes = append(m.Notes, "API responsiveness is not measured: "+err.Error())
		return
	}
	items, ok := responsiveness(before.metrics, after.metrics)
	if !ok {
		m.Notes = append(m.Notes, "API responsiveness is not measured: the API server's counters went back, since it began anew or another one answered")
	}
	m.Items = append(m.Items, items...)
}

// cellOf names a cell of a matrix.
func cellOf(values map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, values[name]))
	}
	return strings.Join(parts, ",")
}

// Observed is the name of the one run of Observe.
const Observed = "(observed)"

// Observe measures what others do in a sandbox, until ctx ends, which is no error. follow tells the events of
// the sandbox. Pods that were there before are left out, and endpoints no such stream tells.
func Observe(ctx context.Context, of *sandbox.Sandbox, api kubernetes.Interface, follow func(context.Context, func(timeline.Event) error) error) (*Result, error) {
	r, err := newResult(ctx, of)
	if err != nil {
		return nil, err
	}
	before, start := lookAt(ctx, api), time.Now()
	var events []timeline.Event
	if err := follow(ctx, func(e timeline.Event) error {
		events = append(events, e)
		return nil
	}); ctx.Err() == nil {
		return nil, err
	}
	r.Runs = append(r.Runs, observed(events, start, before, lookAt(ctx, api)))
	return r, nil
}

func observed(events []timeline.Event, start time.Time, before, after look) Run {
	l := follow(events, start)
	m := Run{Scenario: Observed, Bases: len(l.bases), Verdict: scenario.Passed, Elapsed: time.Since(start),
		Notes: []string{"network programming is measured in the runs of scenarios only"}}
	m.measure(l, before, after)
	return m
}
