package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps/registry"
)

// background is a step that runs in the background.
type background struct {
	name string
	done chan struct{} // closed when the step has ended
	err  error         // error of the step; valid after done is closed
}

// stepPosition is the position of a step in the scenario and in the report.
type stepPosition struct {
	field string // path of the step's field, such as spec.steps[2]
	depth int
	list  *[]*Step // steps in the report to which the step is added
}

func (e *execution) runSteps(ctx context.Context, steps []v1alpha1.Step, at stepPosition) error {
	for i := range steps {
		to := stepPosition{fmt.Sprintf("%s[%d]", at.field, i), at.depth, at.list}
		if err := e.runStep(ctx, &steps[i], to); err != nil {
			return err
		}
	}
	return nil
}

// runParallel executes steps concurrently, blocks until all of them have ended, and returns the first error. An error
// cancels the other steps.
func (e *execution) runParallel(ctx context.Context, steps []v1alpha1.Step, at stepPosition) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	errs := make([]error, len(steps))
	for i := range steps {
		to := stepPosition{fmt.Sprintf("%s[%d]", at.field, i), at.depth, at.list}
		wg.Go(func() {
			errs[i] = e.runStep(ctx, &steps[i], to)
			if errs[i] != nil {
				cancel(fmt.Errorf("parallel step %q failed", steps[i].Name))
			}
		})
	}
	wg.Wait()
	for _, err := range errs { // the error that cancelled the other steps
		if err != nil && !errors.Is(err, context.Cause(ctx)) {
			return err
		}
	}
	return errors.Join(errs...)
}

// runStep executes a step and its repetitions. A background step is only started.
func (e *execution) runStep(ctx context.Context, s *v1alpha1.Step, at stepPosition) error {
	if e.isSkipped(s) {
		done := e.startStep(s, at, 0)
		done.Name = s.Name
		e.endStep(done, at, Skipped, "before the first step to execute")
		return nil
	}
	first := e.startStep(s, at, 0)
	if !s.Background {
		return e.repeatStep(ctx, s, at, first)
	}
	b := &background{name: s.Name, done: make(chan struct{})}
	e.mu.Lock()
	e.backgrounds = append(e.backgrounds, b)
	e.mu.Unlock()
	go func() {
		defer close(b.done)
		b.err = e.repeatStep(e.stepsContext, s, at, first)
	}()
	return nil
}

// isSkipped reports whether a step is skipped because it precedes Options.FromStep.
func (e *execution) isSkipped(s *v1alpha1.Step) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.firstStep != "" && s.Name == e.firstStep {
		e.firstStep = ""
	}
	return e.firstStep != "" && !containsStep(s, e.firstStep)
}

func containsStep(s *v1alpha1.Step, name string) bool {
	return slices.ContainsFunc(s.Inner(),
		func(x v1alpha1.Step) bool { return x.Name == name || containsStep(&x, name) })
}

// startStep adds an execution of a step to the report. n is the index of the repetition, from 0.
func (e *execution) startStep(s *v1alpha1.Step, at stepPosition, n int) *Step {
	done := &Step{Name: s.Name, Action: s.Kind(), Line: e.in.Line(at.field), Started: time.Now()}
	if s.Repeat != nil && *s.Repeat > 1 {
		done.Name = fmt.Sprintf("%s (%d of %d)", s.Name, n+1, *s.Repeat)
	}
	e.mu.Lock()
	*at.list = append(*at.list, done)
	e.mu.Unlock()
	e.recordStep(done.Name, events.StepBegan, "")
	return done
}

// repeatStep executes a step and its repetitions. The caller has already added the first execution to the report.
func (e *execution) repeatStep(ctx context.Context, s *v1alpha1.Step, at stepPosition, done *Step) error {
	for n := 1; ; n++ {
		if err := e.runOnce(ctx, s, at, done); err != nil || s.Repeat == nil || n >= *s.Repeat {
			return err
		}
		done = e.startStep(s, at, n)
	}
}

func (e *execution) runOnce(ctx context.Context, s *v1alpha1.Step, at stepPosition, done *Step) error {
	message, skipped, err := e.runGuarded(ctx, s, at, done)
	switch {
	case err != nil && errored(err):
		e.endStep(done, at, Errored, err.Error())
	case err != nil:
		e.endStep(done, at, Failed, err.Error())
	case skipped:
		e.endStep(done, at, Skipped, message)
	default:
		e.endStep(done, at, Passed, message)
	}
	if err != nil {
		e.recordFailure(done, err)
	}
	return err
}

// runGuarded executes a step with its timeout, and evaluates the invariants of the step in the meantime. If the
// condition of the step is false, the step is skipped.
func (e *execution) runGuarded(ctx context.Context, s *v1alpha1.Step, at stepPosition, done *Step) (message string,
	skipped bool,
	err error) {
	if s.If != "" {
		do, err := e.evalCondition(ctx, s.If)
		if err != nil || !do {
			return "its condition is false: " + s.If, true, err
		}
	}
	if s.Timeout != nil && s.Timeout.Duration > 0 {
		var cancel context.CancelFunc
		limit := s.Timeout.Duration
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s", limit))
		defer cancel()
	}
	guarded, release, err := e.guard(ctx, done.Name+": ", s.Always, s.Never)
	if err != nil {
		return "", false, err
	}
	message, err = e.runAction(guarded, s, at, done)
	if err == nil {
		err = e.catchUpConditions(guarded, len(s.Always)+len(s.Never))
	}
	if broken := release(); broken != nil {
		return "", false, broken
	}
	return message, false, withCause(guarded, err)
}

// withCause adds the cancellation cause of ctx to an error, unless the error already contains it or wraps a
// *steps.Failure.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	var failure *steps.Failure
	if errors.As(err, &failure) { // the step failed before ctx ended
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

func (e *execution) evalCondition(ctx context.Context, text string) (bool, error) {
	p, err := e.env.Compile(text, expr.Condition)
	if err != nil {
		return false, err
	}
	if err := e.env.Follow(ctx, p); err != nil {
		return false, err
	}
	var r expr.Result
	e.recorder.Read(func(v observe.Snapshot) { r, err = p.Eval(e.env.Data(v, p)) })
	return r.Value == true, err
}

func (e *execution) runAction(ctx context.Context, s *v1alpha1.Step, at stepPosition, done *Step) (string, error) {
	inner := stepPosition{at.field + "." + s.Kind(), at.depth + 1, &done.Steps}
	switch {
	case len(s.Steps) > 0:
		return "", e.runSteps(ctx, s.Steps, inner)
	case len(s.Parallel) > 0:
		return "", e.runParallel(ctx, s.Parallel, inner)
	}
	a, err := e.expandAction(&s.Action)
	if err != nil {
		return "", err
	}
	return registry.Exec(ctx, e.env, a)
}

// join waits until a background step has ended, and returns the error of the step.
func (e *execution) join(ctx context.Context, name string) (string, error) {
	e.mu.Lock()
	var b *background
	for _, x := range e.backgrounds { // the last one, if an outer step was repeated
		if x.name == name {
			b = x
		}
	}
	e.mu.Unlock()
	if b == nil {
		return "", fmt.Errorf("background step %q has not started", name)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return "", fmt.Errorf("%w: step %q has not ended", context.Cause(ctx), name)
	}
	if b.err != nil {
		return "", fmt.Errorf("step %q failed: %w", name, b.err)
	}
	return fmt.Sprintf("step %q has ended", name), nil
}

func (e *execution) joinAll() error {
	e.mu.Lock()
	all := slices.Clone(e.backgrounds)
	e.mu.Unlock()
	var first error
	for _, b := range all {
		<-b.done // the context of the step ends with the run
		if b.err != nil && first == nil {
			first = b.err
		}
	}
	return first
}

// recordStep records the start or the end of a step as an event.
func (e *execution) recordStep(name string, state events.StepState, message string) {
	first, _, _ := strings.Cut(message, "\n")
	e.recorder.AddEvent(events.Event{Time: time.Now(),
		Step: &events.StepEvent{Name: name, State: state, Message: first}})
}

func (e *execution) endStep(s *Step, at stepPosition, v Result, message string) {
	e.mu.Lock()
	s.Elapsed, s.Result, s.Message = time.Since(s.Started), v, message
	e.mu.Unlock()
	e.recordStep(s.Name, events.StepState(v), message)
	e.progress(ProgressEvent{Kind: StepEnded, Step: s, Depth: at.depth})
}

// expandAction evaluates those expressions in an action that use outputs of earlier steps.
func (e *execution) expandAction(a *v1alpha1.Action) (*v1alpha1.Action, error) {
	text, err := json.Marshal(a)
	if err != nil || !expr.HasExpression(string(text)) {
		return a, err
	}
	var content any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("decoding the step: %w", err)
	}
	content, err = e.env.Expand(content)
	if err != nil {
		return nil, err
	}
	text, err = json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding the step: %w", err)
	}
	expanded := &v1alpha1.Action{}
	if err := utiljson.Unmarshal(text, expanded); err != nil {
		return nil, fmt.Errorf("decoding the step after the evaluation of its expressions: %w", err)
	}
	return expanded, nil
}
