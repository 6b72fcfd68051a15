package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

const (
	// finalTimeout limits the work after the context of a run has ended: executing its finally steps, stopping its
	// traffic, and collecting evidence.
	finalTimeout = time.Minute
	// podDeletionTimeout is how long a run waits at its end until terminating Pods are deleted. The run then checks
	// which modules remain on its bases.
	podDeletionTimeout = 15 * time.Second
	// moduleEventTimeout is how long to wait, after a Pod was removed from the API, for the event that reports the
	// removal of its modules.
	moduleEventTimeout = time.Second
)

// execution is a run that is in progress.
type execution struct {
	r          *runner
	in         *instance
	recorder   *observe.Recorder
	env        *steps.Env
	queryBases func(context.Context) ([]control.Base, error) // returns the bases of the run from the daemon

	stop    context.CancelFunc // stops the watches of the run
	watches sync.WaitGroup     // counts the running watches

	privateDir string // directory of the kubeconfig of scripts; empty without scripts

	mu           sync.Mutex
	run          *Run
	backgrounds  []*background
	firstStep    string          // name of the first step to execute; empty after this step was reached
	stepsContext context.Context // context of all steps; background steps use it instead of the context of their group
	explained    bool            // true after the details of the first failure were recorded
}

func newExecution(r *runner, i *instance) *execution {
	e := &execution{r: r, in: i, run: newRun(i), firstStep: r.o.FromStep, stop: func() {}}
	e.queryBases = e.listBases
	return e
}

// errUnobservable is the cancellation cause of a run whose events can no longer be observed.
var errUnobservable = errors.New("the sandbox can no longer be observed")

// errStopped is the cancellation cause of a run that the user stopped.
var errStopped = errors.New("stopped")

// errored reports whether an error has a cause other than the tested system, so that the run is Errored and not
// Failed.
func errored(err error) bool {
	return errors.Is(err, errUnobservable) || errors.Is(err, control.ErrUnreachable) || errors.Is(err, errStopped) ||
		errors.Is(err, errInconclusive)
}

// perform executes the run and returns its report. It does not clean up.
func (e *execution) perform(ctx context.Context) *Run {
	e.run.Started, e.run.Speed = time.Now(), e.r.status.Speed
	spec := &e.in.Spec
	limited, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), spec.Timeout.Duration,
		fmt.Errorf("the run exceeded its timeout of %s", spec.Timeout.Duration))
	defer cancel()
	limited, broken := context.WithCancelCause(limited)
	defer broken(nil)
	// errStopped distinguishes the end of ctx from a timeout.
	defer context.AfterFunc(ctx, func() { broken(fmt.Errorf("%w: %w", errStopped, context.Cause(ctx))) })()

	err := e.setUp(limited, broken)
	if err != nil {
		err = withCause(limited, err)
		e.fail(Errored, "setting up: "+err.Error())
		e.addEvidence(ctx)
		return e.finish(ctx)
	}
	e.failOn(e.body(limited))
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), e.finalTimeLimit(ctx))
	defer cancelLast()
	unobservable := errors.Is(context.Cause(limited), errUnobservable)
	e.failOn(e.env.Repair(last)) // Pods cannot be deleted while components are unavailable
	if !unobservable {
		e.awaitPods(last) // traffic continues: an uninstall must not lose requests either
	}
	e.failOn(e.env.StopAll(last))
	e.failOn(e.runSteps(last, spec.Finally, stepPosition{"spec.finally", 0, &e.run.Steps}))
	e.failOn(e.joinAll())
	if !unobservable && len(spec.Finally) > 0 {
		e.failOn(e.env.Repair(last))
		e.awaitPods(last)
	}
	end := time.Now()
	if !unobservable {
		e.failOn(e.catchUp(last, true))
		e.failOn(e.faults())
		e.failOn(e.releases(last))
		events := e.recorder.Events()
		e.recorder.Read(func(v observe.Snapshot) { err = findStrayPod(events, v.State().BaseOf) })
		e.failOn(err)
	}
	e.evaluateChecks(last, end)
	e.addEvidence(last)
	return e.finish(last)
}

// finalTimeLimit returns the time limit for the work after the steps. It includes the timeouts of the finally steps,
// unless the user has stopped the run.
func (e *execution) finalTimeLimit(ctx context.Context) time.Duration {
	limit := finalTimeout
	if ctx.Err() != nil {
		return limit
	}
	for _, s := range e.in.Spec.Finally {
		if s.Timeout != nil && s.Repeat != nil {
			limit += s.Timeout.Duration * time.Duration(*s.Repeat)
		}
	}
	return limit
}

// awaitPods waits until all Pods are observed, no Pod is terminating, and the bases have reported the removal of the
// modules of deleted Pods. It returns no error after a timeout, because the checks report the modules that remain.
func (e *execution) awaitPods(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, podDeletionTimeout)
	defer cancel()
	pods := observe.Subject{Resource: observe.Pods, Namespace: e.in.name}
	if err := e.recorder.CatchUp(ctx, pods); err != nil {
		e.r.o.Logger.Debug("could not observe all Pods", "run", e.in.name, "err", err)
	}
	err := e.recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) {
		all, _ := v.Objects(pods, "", nil)
		return !slices.ContainsFunc(all,
			func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil }), nil
	})
	if err != nil {
		e.r.o.Logger.Debug("Pods are still being deleted", "run", e.in.name, "err", err)
		return
	}
	ctx, cancelNews := context.WithTimeout(ctx, moduleEventTimeout)
	defer cancelNews()
	err = e.recorder.WaitUntil(ctx,
		func(v observe.Snapshot) (bool, error) { return len(v.State().Leftovers(nil)) == 0, nil })
	if err != nil {
		e.r.o.Logger.Debug("modules remain on bases", "run", e.in.name, "err", err)
	}
}

// body executes the steps while the invariants of the scenario are evaluated.
func (e *execution) body(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errors.New("the steps have ended")) // stops background steps after a failure
	spec := &e.in.Spec
	guarded, release, err := e.guard(ctx, "", spec.Always, spec.Never)
	if err != nil {
		return err
	}
	e.stepsContext = guarded
	err = e.runSteps(guarded, spec.Steps, stepPosition{"spec.steps", 0, &e.run.Steps})
	if err == nil {
		err = e.joinAll()
	}
	if err == nil {
		err = e.catchUpConditions(guarded, len(spec.Always)+len(spec.Never))
	}
	if broken := release(); broken != nil && !errors.Is(err, broken) {
		return broken
	}
	if err == nil && e.firstStep != "" {
		return fmt.Errorf("start step %q not found", e.firstStep)
	}
	return err
}

// failOn makes the run Failed or Errored if err is not nil. An earlier failure of the run is kept.
func (e *execution) failOn(err error) {
	switch {
	case err == nil:
	case errored(err):
		e.fail(Errored, err.Error())
	default:
		e.fail(Failed, err.Error())
	}
	if err != nil {
		e.recordFailure(nil, err)
	}
}

// fail records the result and the reason why the run has not passed, unless a reason was already recorded.
func (e *execution) fail(v Result, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run.Failure == "" {
		e.run.Result, e.run.Failure = v, why
	}
}

// recordFailure makes the run fail with the error of a step. For the first error of the run, it also records the
// details.
func (e *execution) recordFailure(s *Step, err error) {
	if s != nil && s.Steps == nil { // a group fails because of one of its steps
		v := Failed
		if errored(err) {
			v = Errored
		}
		e.fail(v, fmt.Sprintf("step %q: %s", s.Name, err))
	}
	var failure *steps.Failure
	if !errors.As(err, &failure) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.explained {
		return
	}
	e.explained = true
	e.run.Details = append(e.run.Details, failure.Details...)
}

func (e *execution) addDetail(d Detail) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.Text != "" {
		e.run.Details = append(e.run.Details, d)
	}
}

func (e *execution) finish(ctx context.Context) *Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run.Failure == "" {
		e.run.Result = Passed
	}
	if e.env != nil {
		e.run.Traffic = e.trafficResults(ctx)
	}
	if e.recorder != nil {
		e.run.Timeline, e.run.Delay = e.recorder.Events(), e.recorder.Lag()
	}
	for _, t := range e.run.Traffic {
		e.run.Delay = max(e.run.Delay, t.Late)
	}
	e.run.markInconclusive()
	e.run.Elapsed = time.Since(e.run.Started)
	return Redacted(e.run)
}

// trafficResults returns the results of all request streams of the run, and passes the record of each request to
// Options.RequestLog.
func (e *execution) trafficResults(ctx context.Context) []Traffic {
	var all []Traffic
	for _, s := range e.env.Streams() {
		if s.End == nil {
			continue // it could not be stopped, and the run has failed
		}
		t := Traffic{Summary: s.End.Summary, Judge: s.Spec.Judge, Result: Passed, Seconds: s.End.Seconds,
			BinWidth: s.End.BinWidth, Bins: s.End.Bins, Lost: s.End.LostRequests}
		if s.Failure != nil {
			t.Result = Failed
		}
		all = append(all, t)
		if e.r.o.RequestLog != nil {
			e.writeRequestLog(ctx, s.Spec.Name)
		}
	}
	return all
}

func (e *execution) writeRequestLog(ctx context.Context, stream string) {
	err := e.r.o.Sandbox.TrafficRecords(ctx, e.in.name, stream, func(record traffic.Record) {
		e.r.progressMu.Lock()
		defer e.r.progressMu.Unlock()
		e.r.o.RequestLog(e.run, stream, record)
	})
	if err != nil {
		e.r.o.Logger.Warn("could not read the request log", "run", e.in.name, "stream", stream, "err", err)
	}
}

func (e *execution) progress(event ProgressEvent) {
	e.mu.Lock()
	run := *e.run
	run.Steps, run.Timeline = nil, nil // they are still modified
	step := *event.Step
	e.mu.Unlock()
	event.Run, event.Step = &run, &step
	e.r.reportProgress(Redacted(event))
}
