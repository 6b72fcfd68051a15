package scenario

import (
	"context"
	"log/slog"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// Options configures Execute.
type Options struct {
	// Sandbox runs the scenarios. It must be running. Required.
	Sandbox *sandbox.Sandbox
	// Scenarios are the scenarios to run, as returned by source.Load. Required.
	Scenarios []*source.Scenario
	// Repeat is the number of runs of each scenario. Default: 1.
	Repeat int
	// Seed is the random seed. To reproduce the runs of an earlier call, set the seed in its report. Default: random.
	Seed uint64
	// Flags are the command-line flags that create an equal sandbox. The rerun commands in the report contain these
	// flags. Default: none.
	Flags []string
	// FromStep is the name of the first step to execute in each scenario. Earlier steps are skipped. Default: the first
	// step.
	FromStep string
	// Keep keeps the namespaces, objects and bases of the runs. Default: they are removed.
	Keep bool
	// LeaveNamespaces keeps the empty namespaces of the runs. This saves time if many runs use a temporary sandbox:
	// to delete a namespace, Kubernetes sends one or two requests for each API resource. Default: namespaces are
	// deleted.
	LeaveNamespaces bool
	// Parallel is the maximum number of concurrent runs. Exclusive runs never run concurrently. Default: 1.
	Parallel int
	// DryRun makes Execute expand and validate the scenarios without running them.
	DryRun bool
	// FailFast skips the remaining runs after a run that has not passed.
	FailFast bool
	// Progress is called for each progress event, one call at a time. It may keep a reference to the event. Default:
	// none.
	Progress func(ProgressEvent)
	// RequestLog is called at the end of a run for each request of each stream, one call at a time. Default: none.
	RequestLog func(run *Run, stream string, record traffic.Record)
	// Logger logs messages that do not affect results. Default: nothing is logged.
	Logger *slog.Logger
}

// ProgressKind is the kind of a ProgressEvent.
type ProgressKind string

// The kinds of progress events, in the order in which they occur.
const (
	// Planned: all runs are planned; Total is the number of runs.
	Planned ProgressKind = "planned"
	// RunStarted: a run has started.
	RunStarted ProgressKind = "runBegan"
	// StepEnded: a step of a run has ended.
	StepEnded ProgressKind = "stepEnded"
	// RunPostponed: a run was inconclusive, because the machine was too slow. The run is repeated once after all
	// other runs.
	RunPostponed ProgressKind = "runPostponed"
	// RunEnded: a run has ended, and its result is final. Its clean-up is still in progress.
	RunEnded ProgressKind = "runEnded"
	// Cleaned: the clean-up of a run has ended. Message describes the objects and bases that remain, if any.
	Cleaned ProgressKind = "cleaned"
)

// ProgressEvent reports the progress of Execute.
type ProgressEvent struct {
	Kind ProgressKind
	// Total is the number of runs.
	Total int
	// Run is the current state of the run; nil for Planned. It has no timeline until the run has ended.
	Run *Run
	// Step is the step that ended. It is set only for StepEnded. Depth is the number of groups that contain the step.
	Step  *Step
	Depth int
	// Message is a message for users.
	Message string
}

// Execute runs scenarios and returns the report. It blocks until all runs have ended and are cleaned up. Unless Keep
// is set, an inconclusive run is repeated once after all other runs. No other run is active during the repetition.
// Execute returns an error if it cannot start, for example if the sandbox does not respond. Later errors are in the
// report. When ctx ends, the current runs stop their steps, execute their Finally steps, clean up and are reported.
// The remaining runs are skipped.
func Execute(ctx context.Context, o Options) (*Report, error) {
	r, err := newRunner(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.run(ctx), nil
}
