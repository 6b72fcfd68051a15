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
	// lastTime bounds what is done for a run after its context has ended: its
	// finally, the end of its traffic, its evidence.
	lastTime = time.Minute
	// awaitTime is how long the Pods that are being deleted at the end may take to
	// go, so that what is left on the bases can be judged.
	awaitTime = 15 * time.Second
	// newsTime is how long the bases' word that a module is gone may come after that
	// of the API that its Pod is.
	newsTime = time.Second
)

// execution is one run in progress.
type execution struct {
	r     *runner
	in    *instance
	world *observe.World
	env   *steps.Env
	bases func(context.Context) ([]control.Base, error) // of the run, as the daemon says

	stop  context.CancelFunc // ends the watches
	ended sync.WaitGroup     // of the watches

	private string // the folder of the kubeconfig of scripts; empty if there are none

	mu          sync.Mutex
	run         *Run
	backgrounds []*background
	from        string          // the step to begin with, until it has come
	lasting     context.Context // of all steps; those in the background use it instead of the context of their group
	blamed      bool            // the first failure has been explained
}

func newExecution(r *runner, i *instance) *execution {
	e := &execution{r: r, in: i, run: newRun(i), from: r.o.FromStep, stop: func() {}}
	e.bases = e.listBases
	return e
}

// errBroken is the cause of the end of a run that can no longer be observed.
var errBroken = errors.New("the sandbox can no longer be watched")

// errStopped is the cause of the end of a run that the user stopped.
var errStopped = errors.New("stopped")

// errored reports whether an error is not caused by the scenario.
func errored(err error) bool {
	return errors.Is(err, errBroken) || errors.Is(err, control.ErrUnreachable) || errors.Is(err, errStopped) ||
		errors.Is(err, errInconclusive)
}

// perform makes the run and returns its report. It does not clean up.
func (e *execution) perform(ctx context.Context) *Run {
	e.run.Started, e.run.Speed = time.Now(), e.r.status.Speed
	spec := &e.in.Spec
	limited, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), spec.Timeout.Duration,
		fmt.Errorf("the run took longer than its timeout of %s", spec.Timeout.Duration))
	defer cancel()
	limited, broken := context.WithCancelCause(limited)
	defer broken(nil)
	// So that the end of ctx, whatever its cause, can be told from a timeout.
	defer context.AfterFunc(ctx, func() { broken(fmt.Errorf("%w: %w", errStopped, context.Cause(ctx))) })()

	err := e.setUp(limited, broken)
	if err != nil {
		err = because(limited, err)
		e.fail(Errored, "setting up: "+err.Error())
		e.evidence(ctx)
		return e.finish(ctx)
	}
	e.must(e.body(limited))
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), e.lastTime(ctx))
	defer cancelLast()
	blind := errors.Is(context.Cause(limited), errBroken)
	e.must(e.env.Repair(last)) // nothing comes to rest without the platform
	if !blind {
		e.awaitPods(last) // under the traffic that goes on: an uninstall must not lose requests either
	}
	e.must(e.env.StopAll(last))
	e.must(e.list(last, spec.Finally, place{"spec.finally", 0, &e.run.Steps}))
	e.must(e.joinAll())
	if !blind && len(spec.Finally) > 0 {
		e.must(e.env.Repair(last))
		e.awaitPods(last)
	}
	end := time.Now()
	if !blind {
		e.must(e.catchUp(last, true))
		e.must(e.faults())
		e.must(e.releases(last))
		events := e.world.Events()
		e.world.Look(func(v observe.View) { err = astray(events, v.State().BaseOf) })
		e.must(err)
	}
	e.verdicts(last, end)
	e.evidence(last)
	return e.finish(last)
}

// lastTime returns the time limit after the steps. A run that was stopped does not wait for the timeouts of Finally.
func (e *execution) lastTime(ctx context.Context) time.Duration {
	limit := lastTime
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

// awaitPods waits until all Pods are known and no Pod is being deleted. Modules that are on bases then are left
// behind.
func (e *execution) awaitPods(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	pods := observe.Subject{Resource: observe.Pods, Namespace: e.in.name}
	if err := e.world.CatchUp(ctx, pods); err != nil {
		e.r.o.Logger.Debug("not all Pods are known", "run", e.in.name, "err", err) // the checks judge what is
	}
	err := e.world.Until(ctx, func(v observe.View) (bool, error) {
		all, _ := v.Objects(pods, "", nil)
		return !slices.ContainsFunc(all,
			func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil }), nil
	})
	if err != nil {
		e.r.o.Logger.Debug("Pods are still being deleted", "run", e.in.name, "err", err) // the checks say what is left
		return
	}
	ctx, cancelNews := context.WithTimeout(ctx, newsTime)
	defer cancelNews()
	err = e.world.Until(ctx, func(v observe.View) (bool, error) { return len(v.State().Leftovers(nil)) == 0, nil })
	if err != nil {
		e.r.o.Logger.Debug("modules are left", "run", e.in.name, "err", err) // so does this
	}
}

// body does the steps under the invariants of the scenario.
func (e *execution) body(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errors.New("the steps are over")) // for those in the background, after a failure
	spec := &e.in.Spec
	guarded, release, err := e.guard(ctx, "", spec.Always, spec.Never)
	if err != nil {
		return err
	}
	e.lasting = guarded
	err = e.list(guarded, spec.Steps, place{"spec.steps", 0, &e.run.Steps})
	if err == nil {
		err = e.joinAll()
	}
	if err == nil {
		err = e.catchUpConditions(guarded, len(spec.Always)+len(spec.Never))
	}
	if broken := release(); broken != nil && !errors.Is(err, broken) {
		return broken
	}
	if err == nil && e.from != "" {
		return fmt.Errorf("there is no step %q to begin with", e.from)
	}
	return err
}

// must fails the run with an error, unless the run has failed.
func (e *execution) must(err error) {
	switch {
	case err == nil:
	case errored(err):
		e.fail(Errored, err.Error())
	default:
		e.fail(Failed, err.Error())
	}
	if err != nil {
		e.blame(nil, err)
	}
}

// fail records the first reason why the run has not passed.
func (e *execution) fail(v Verdict, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run.Failure == "" {
		e.run.Verdict, e.run.Failure = v, why
	}
}

// blame fails the run with the failure of a step, and keeps the details of the first one.
func (e *execution) blame(s *Step, err error) {
	if s != nil && s.Steps == nil { // a group fails by a step in it
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
	if e.blamed {
		return
	}
	e.blamed = true
	e.run.Details = append(e.run.Details, failure.Details...)
}

func (e *execution) explain(d Detail) {
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
		e.run.Verdict = Passed
	}
	if e.env != nil {
		e.run.Traffic = e.streams(ctx)
	}
	if e.world != nil {
		e.run.Timeline, e.run.Delay = e.world.Events(), e.world.Lag()
	}
	for _, t := range e.run.Traffic {
		e.run.Delay = max(e.run.Delay, t.Late)
	}
	e.run.weighDelay()
	e.run.Elapsed = time.Since(e.run.Started)
	return Redacted(e.run)
}

// streams returns the traffic of the run, and sends its records to the ledger of the options.
func (e *execution) streams(ctx context.Context) []Traffic {
	var all []Traffic
	for _, s := range e.env.Streams() {
		if s.End == nil {
			continue // it could not be stopped, which has failed the run
		}
		t := Traffic{Summary: s.End.Summary, Judge: s.Spec.Judge, Verdict: Passed, Seconds: s.End.Seconds,
			BinWidth: s.End.BinWidth, Bins: s.End.Bins, Lost: s.End.LostRequests}
		if s.Failure != nil {
			t.Verdict = Failed
		}
		all = append(all, t)
		if e.r.o.Ledger != nil {
			e.ledger(ctx, s.Spec.Name)
		}
	}
	return all
}

func (e *execution) ledger(ctx context.Context, stream string) {
	err := e.r.o.Sandbox.TrafficRecords(ctx, e.in.name, stream, func(record traffic.Record) {
		e.r.progressing.Lock()
		defer e.r.progressing.Unlock()
		e.r.o.Ledger(e.run, stream, record)
	})
	if err != nil {
		e.r.o.Logger.Warn("cannot read the ledger", "run", e.in.name, "stream", stream, "err", err)
	}
}

func (e *execution) progress(event Event) {
	e.mu.Lock()
	run := *e.run
	run.Steps, run.Timeline = nil, nil // they change
	step := *event.Step
	e.mu.Unlock()
	event.Run, event.Step = &run, &step
	e.r.tell(Redacted(event))
}
