package scenario

import (
	"context"
	"log/slog"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// Options of Execute.
type Options struct {
	// Sandbox that the scenarios run in; it must be up. Required.
	Sandbox *sandbox.Sandbox
	// Scenarios to run, as source.Load returns them. Required.
	Scenarios []*source.Scenario
	// Repeat is how often each scenario is run. Default: 1.
	Repeat int
	// Seed repeats everything random of an earlier call. Default: drawn.
	Seed uint64
	// Flags are words of the command that repeats a run, which bring the same sandbox up. Default: none, it
	// is up.
	Flags []string
	// FromStep is the name of the first step to do, in each scenario; those before
	// are skipped. Default: the first.
	FromStep string
	// Keep leaves everything that the runs have made. Default: it is removed.
	Keep bool
	// LeaveNamespaces leaves the namespaces of the runs, without what the runs have made in them, for a
	// sandbox that many runs follow each other in until it is thrown away: to remove one costs the API
	// server a request or two for each resource that it has. Default: they are removed.
	LeaveNamespaces bool
	// Parallel is how many runs go on at once; exclusive ones are alone in any case.
	// Default: 1.
	Parallel int
	// DryRun expands and checks everything, and runs nothing.
	DryRun bool
	// FailFast begins no further run after one that has not passed.
	FailFast bool
	// Progress hears what happens, one call at a time. What it is given is its own.
	// Default: nobody.
	Progress func(ProgressEvent)
	// RequestLog gets every request of every stream when its run ends, one call at a
	// time. Default: nobody.
	RequestLog func(run *Run, stream string, record traffic.Record)
	// Logger for what is of no concern to the verdict. Default: nothing is logged.
	Logger *slog.Logger
}

// ProgressKind says what an Event tells.
type ProgressKind string

// The kinds of events, in their order.
const (
	// Planned: all scenarios were read; Total says how many runs there will be.
	Planned ProgressKind = "planned"
	// RunStarted: a run began.
	RunStarted ProgressKind = "runBegan"
	// StepEnded: a step of a run ended.
	StepEnded ProgressKind = "stepEnded"
	// RunPostponed: a run was inconclusive, because the machine was too slow. It is made once more after all others.
	RunPostponed ProgressKind = "runPostponed"
	// RunEnded: the verdict of a run is known; its clean-up goes on.
	RunEnded ProgressKind = "runEnded"
	// Cleaned: what a run has made is gone, or is kept; Message says what is left.
	Cleaned ProgressKind = "cleaned"
)

// ProgressEvent is one thing that happens during Execute.
type ProgressEvent struct {
	Kind ProgressKind
	// Total is how many runs there are.
	Total int
	// Run that it is about, as it is at that moment, without its timeline until it
	// has ended; nil with Planned.
	Run *Run
	// Step that ended, with StepEnded; Depth is how many groups it is in.
	Step  *Step
	Depth int
	// Message for people.
	Message string
}

// Execute runs scenarios and returns the report. It blocks until all have ended
// and what they have made is gone. Unless Keep is set, an inconclusive run is made once more, alone, after the others. The error tells of what kept it from beginning,
// such as a sandbox that does not answer; what goes wrong later stands in the
// report. When ctx ends the runs end, do their Finally, are cleaned up, and are
// reported; those that had not begun are skipped.
func Execute(ctx context.Context, o Options) (*Report, error) {
	r, err := newRunner(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.run(ctx), nil
}
