package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// invariant is a condition that is evaluated at every change that may change it,
// as long as its scope lasts. A moment at which it has no value, because a field
// or an object is not there, or at which it compares nothing, proves nothing, for
// or against it; there must be others.
type invariant struct {
	name     string
	program  *expr.Program
	never    bool // it must never be true; else always
	compared int
	last     error // why it had no value last
	broken   *violated
}

type violated struct {
	text  string
	event string
	at    time.Time
}

// Error says what was broken and when.
func (v *violated) Error() string { return v.text + " at the event: " + v.event }

// guard watches over invariants. The context it returns ends when one is broken;
// release ends the watch and returns why, if one was. Every invariant becomes a
// check of the report, named after prefix.
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
	// What was before the scope is no part of it.
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
		x.last = fmt.Errorf("there were no elements in %s", strings.Join(r.EmptyLists, ", "))
		return
	}
	x.compared++
	if r.Value == x.never {
		word := "always"
		if x.never {
			word = "never"
		}
		x.broken = &violated{fmt.Sprintf("%s %q was broken", word, x.name), event, time.Now()}
	}
}

func (e *execution) reportInvariants(all []*invariant) error {
	var first error
	for _, x := range all {
		c := Check{Name: x.name, Expect: string(v1alpha1.Holds), Result: Passed, Compared: x.compared,
			Summary: fmt.Sprintf("held at all %d events that could have changed it", x.compared)}
		switch {
		case x.broken != nil:
			c.Result, c.Summary = Failed, x.broken.Error()
			c.Violations = []Violation{{Time: x.broken.at, Message: x.broken.event}}
			if first == nil {
				first = x.broken
			}
		case x.compared == 0:
			c.Result, c.Summary = Failed, "it was never compared with anything, so it proves nothing"
			if x.last != nil {
				c.Summary += ": " + x.last.Error()
			}
			if first == nil {
				first = errors.New("the invariant " + x.name + ": " + c.Summary)
			}
		}
		e.addCheck(c)
	}
	return first
}

// addCheck adds a check to the report. Checks with the same name, of a step that was repeated, are merged.
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
