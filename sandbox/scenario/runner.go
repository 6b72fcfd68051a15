package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/redact"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
)

type runner struct {
	o      Options
	status *control.Status
	kube   *kube.Client
	plan   []*instance
	report *Report

	cleaning sync.WaitGroup

	// perform executes one run and returns its report. It also returns a function that cleans up, and that returns a
	// description of the objects and bases that remain.
	perform func(context.Context, *instance) (run *Run, cleanUp func(context.Context) (left string))

	// progressMu guards report and inconclusive. It is held while Progress or RequestLog is called.
	progressMu   sync.Mutex
	inconclusive map[int]*Run // inconclusive first attempts, by index in plan
}

// newRunner plans all runs. It does not start them.
func newRunner(ctx context.Context, o Options) (*runner, error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	status, err := o.Sandbox.Status(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("requesting the status of sandbox %q: %w", o.Sandbox.Name, err)
	}
	r := &runner{o: o, status: status, inconclusive: map[int]*Run{}}
	r.perform = func(ctx context.Context, i *instance) (*Run, func(context.Context) string) {
		e := newExecution(r, i)
		return e.perform(ctx), e.cleanUp
	}
	r.plan, err = plan(o, status.Env, status.Speed)
	if err != nil {
		return nil, err
	}
	if err := r.checkSpeed(); err != nil {
		return nil, err
	}
	r.kube, err = kube.Open(o.Sandbox.Kubeconfig)
	if err != nil {
		return nil, err
	}
	r.report = &Report{Sandbox: o.Sandbox.Name, Provider: string(status.Provider), Version: status.Version,
		Seed: o.Seed, Started: time.Now()}
	for _, i := range r.plan {
		i.rerunCommand = r.rerunCommand(i)
		r.report.Runs = append(r.report.Runs, newRun(i))
	}
	return r, nil
}

func (r *runner) checkSpeed() error {
	have := max(r.status.Speed, 1)
	for _, s := range r.o.Scenarios {
		if want := s.Scenario.Spec.Speed; want != 0 && want != have {
			return fmt.Errorf(
				"scenario %s requires speed %d, but sandbox %q has speed %d; create a sandbox with --speed %d",
				s.Scenario.Metadata.Name, want, r.o.Sandbox.Name, have, want)
		}
	}
	return nil
}

func newRun(i *instance) *Run {
	s := i.Scenario
	return Redacted(&Run{
		Scenario: s.Metadata.Name, File: i.Origin.File, Description: s.Spec.Description, Source: s.Spec.Source,
		Labels: s.Metadata.Labels, Cell: i.Cell.Values, Attempt: i.attempt, Seed: i.seed, RerunCommand: i.rerunCommand,
		Namespace: i.name, Result: Skipped,
		Steps: []*Step{},
	})
}

// run executes all runs. The report lists the runs in the order of the plan.
func (r *runner) run(ctx context.Context) *Report {
	r.reportProgress(ProgressEvent{Kind: Planned, Total: len(r.plan)})
	if !r.o.DryRun {
		schedule{
			n: len(r.plan), parallel: r.o.Parallel,
			exclusive: func(n int) bool { return *r.plan[n].Spec.Exclusive },
			stopped:   func() bool { return r.stopped(ctx) },
			cleaned:   r.cleaning.Wait,
			run:       func(n int) { r.runInstance(ctx, n) },
		}.runAll()
		r.repeatInconclusive(ctx)
	}
	for _, run := range r.report.Runs {
		if run.Result == Skipped && run.Failure == "" {
			run.Failure = r.skipReason(ctx)
		}
	}
	r.report.Elapsed = time.Since(r.report.Started)
	return r.report
}

func (r *runner) skipReason(ctx context.Context) string {
	switch {
	case r.o.DryRun:
		return "dry run"
	case ctx.Err() != nil:
		return "stopped before it started"
	default:
		return "an earlier run did not pass"
	}
}

// schedule defines the order of the runs. The runs that may be concurrent come first. The exclusive runs follow, one
// at a time.
type schedule struct {
	n         int // number of runs
	parallel  int // maximum number of concurrent runs; 0 means 1
	exclusive func(n int) bool
	stopped   func() bool // reports whether no further run may start
	cleaned   func()      // blocks until all ended runs are cleaned up
	run       func(n int)
}

// runAll executes the runs. It blocks until all runs have ended and are cleaned up. A run may start while other runs
// are cleaned up.
func (s schedule) runAll() {
	slots := make(chan struct{}, max(s.parallel, 1))
	var wg sync.WaitGroup
	for n := range s.n {
		if s.exclusive(n) {
			continue
		}
		slots <- struct{}{}
		if s.stopped() {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s.run(n)
		})
	}
	wg.Wait()
	s.cleaned()
	for n := range s.n {
		if s.exclusive(n) && !s.stopped() {
			s.run(n)
			s.cleaned()
		}
	}
}

// stopped reports whether no further run may start.
func (r *runner) stopped(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	r.progressMu.Lock()
	defer r.progressMu.Unlock()
	return r.o.FailFast && slices.ContainsFunc(r.report.Runs,
		func(run *Run) bool { return run.Result == Failed || run.Result == Errored })
}

// runInstance executes a run of the plan and starts its clean-up. If the first attempt is inconclusive, it does not
// record the result, because the run is repeated.
func (r *runner) runInstance(ctx context.Context, n int) {
	r.progressMu.Lock()
	i, run, first := r.plan[n], r.report.Runs[n], r.inconclusive[n]
	r.progressMu.Unlock()
	r.reportProgress(ProgressEvent{Kind: RunStarted, Run: newRun(i)})
	done, cleanUp := r.perform(ctx, i)
	kind := RunEnded
	r.progressMu.Lock()
	if first == nil && done.Inconclusive() && !r.o.Keep && ctx.Err() == nil {
		kind = RunPostponed
		r.inconclusive[n] = done
	} else {
		if first != nil {
			done.FirstFailure = first.Failure
		}
		*run = *done
	}
	r.progressMu.Unlock()
	r.reportProgress(ProgressEvent{Kind: kind, Run: done})
	r.cleaning.Go(func() {
		r.reportProgress(ProgressEvent{Kind: Cleaned, Run: done, Message: cleanUp(ctx)})
	})
}

// repeatInconclusive repeats the inconclusive runs one at a time. A run that cannot be repeated keeps its first result.
func (r *runner) repeatInconclusive(ctx context.Context) {
	for _, n := range slices.Sorted(maps.Keys(r.inconclusive)) {
		i := r.plan[n]
		again, err := newInstance(i.Origin, i.Cell, i.attempt, i.seed, r.status.Env, r.status.Speed)
		if err != nil || r.stopped(ctx) {
			*r.report.Runs[n] = *r.inconclusive[n]
			continue
		}
		again.rerunCommand = i.rerunCommand
		r.plan[n] = again
		r.runInstance(ctx, n)
		r.cleaning.Wait()
	}
}

// reportProgress passes an event to Options.Progress, one event at a time.
func (r *runner) reportProgress(e ProgressEvent) {
	if r.o.Progress == nil {
		return
	}
	r.progressMu.Lock()
	defer r.progressMu.Unlock()
	e.Total, e.Message = len(r.plan), redact.Text(e.Message)
	if e.Run != nil {
		run := *e.Run
		e.Run = &run
	}
	r.o.Progress(e)
}
