package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// invariant is a condition with a scope. Within its scope, it is evaluated after each change that may affect it. An
// evaluation is ignored if it has no value (because a field or an object does not exist) or compares nothing. An
// invariant fails if all its evaluations are ignored.
type invariant struct {
	name     string
	program  *expr.Program
	never    bool // the condition must never be true; otherwise it must always be true
	compared int
	last     error // reason why the last evaluation had no value
	broken   *violationError
}

type violationError struct {
	text  string
	event string
	at    time.Time
}

// Error describes the violated invariant and the event that violated it.
func (v *violationError) Error() string { return v.text + " at the event: " + v.event }

// guard starts to evaluate invariants. The returned context is cancelled when an invariant is violated. The returned
// function stops the evaluation, adds a check for each invariant to the report, and returns the first violation.
// prefix is the prefix of the names of these checks.
func (e *execution) guard(ctx context.Context, prefix string, always, never []v1alpha1.Invariant) (context.Context,
	func() error, error) {
	if len(always)+len(never) == 0 {
		return ctx, func() error { return nil }, nil
	}
	var all []*invariant
	for i, group := range [][]v1alpha1.Invariant{always, never} {
		for _, x := range group {
			p, err := e.env.Compile(x.CEL, expr.Condition)
			if err != nil {
				return ctx, nil, err
			}
			if err := e.env.Follow(ctx, p); err != nil {
				return ctx, nil, err
			}
			all = append(all, &invariant{name: prefix + x.Name, program: p, never: i == 1})
		}
	}
	// Changes before the scope are not evaluated.
	if err := e.recorder.CatchUpAll(ctx); err != nil && !errors.Is(err, observe.ErrNoList) {
		return ctx, nil, err
	}
	guarded, cancel := context.WithCancelCause(ctx)
	stop := e.recorder.Watch(func(c observe.Update) {
		for _, x := range all {
			first := x.compared == 0 && x.last == nil
			if x.broken == nil && (first || steps.UsesTopic(x.program, c.Topic)) {
				x.evaluate(e.env.Data(c.Snapshot, x.program), c.Description)
			}
			if x.broken != nil {
				cancel(x.broken)
			}
		}
	})
	return guarded, func() error {
		stop()
		cancel(nil)
		return e.reportInvariants(all)
	}, nil
}

func (x *invariant) evaluate(data expr.Data, event string) {
	r, err := x.program.Eval(data)
	if err != nil {
		x.last = err
		return
	}
	if len(r.EmptyLists) > 0 {
		x.last = fmt.Errorf("these lists are empty: %s", strings.Join(r.EmptyLists, ", "))
		return
	}
	x.compared++
	if r.Value == x.never {
		kind := "always"
		if x.never {
			kind = "never"
		}
		x.broken = &violationError{fmt.Sprintf("invariant %q (%s) was violated", x.name, kind), event, time.Now()}
	}
}

func (e *execution) reportInvariants(all []*invariant) error {
	var first error
	for _, x := range all {
		c := Check{Name: x.name, Expect: string(v1alpha1.Holds), Result: Passed, Compared: x.compared,
			Summary: "true at " + plain.Count(x.compared, "evaluation")}
		switch {
		case x.broken != nil:
			c.Result, c.Summary = Failed, x.broken.Error()
			c.Violations = []Violation{{Time: x.broken.at, Message: x.broken.event}}
			if first == nil {
				first = x.broken
			}
		case x.compared == 0:
			c.Result, c.Summary = Failed, "never compared anything, so it proves nothing"
			if x.last != nil {
				c.Summary += ": " + x.last.Error()
			}
			if first == nil {
				first = fmt.Errorf("invariant %q: %s", x.name, c.Summary)
			}
		}
		e.addCheck(c)
	}
	return first
}

// addCheck adds a check to the report. If the report contains a check with the same name, because a step is repeated,
// addCheck merges the two checks.
func (e *execution) addCheck(c Check) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.run.Checks {
		if old := &e.run.Checks[i]; old.Name == c.Name {
			c.Compared += old.Compared
			c.Violations = append(old.Violations, c.Violations...)
			if old.Result == Failed {
				c.Result, c.Summary = Failed, old.Summary
			}
			*old = c
			return
		}
	}
	e.run.Checks = append(e.run.Checks, c)
}
