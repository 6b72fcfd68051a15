// Package assert executes the step assert.
package assert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec waits until the condition of the step is met: the objects match, or the expression is true. If the step has a
// duration, Exec waits until the condition has been met for this duration without interruption.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Assert) (string, error) {
	check, text, err := newCheck(ctx, e, a)
	if err != nil {
		return "", err
	}
	var least time.Duration
	if a.For != nil {
		least = a.For.Duration
	}
	last := steps.Fail("not evaluated yet")
	err = waitUntilHeld(ctx, e, least, func(v observe.Snapshot) bool {
		f := check(v)
		if f != nil {
			last = f
		}
		return f == nil
	})
	if err != nil {
		return "", steps.TimeoutFailure(ctx, err, func() *steps.Failure { return last })
	}
	if least > 0 {
		text += " for " + least.String()
	}
	return text, nil
}

func newCheck(ctx context.Context, e *steps.Env, a *v1alpha1.Assert) (steps.Check, string, error) {
	if a.Resource != nil {
		t, err := e.ResolveRef(a.Of())
		if err != nil {
			return nil, "", err
		}
		if a.Absent {
			return absent(t, match.Normalize(a.Resource)), "no " + t.Kind + " matches", e.CatchUp(ctx, t)
		}
		return present(t, match.Normalize(a.Resource)), t.String() + " matches", e.CatchUp(ctx, t)
	}
	p, err := e.Compile(a.CEL, expr.Condition)
	if err != nil {
		return nil, "", err
	}
	return e.Condition(p), "condition is true", e.Follow(ctx, p)
}

// present returns a Check that fails if no object matches.
func present(t steps.ObjectRef, want any) steps.Check {
	return func(v observe.Snapshot) *steps.Failure {
		found, ever := v.Objects(t.Subject, t.Name, t.Labels)
		if len(found) == 0 && ever {
			return steps.Fail("%s was deleted", t)
		} else if len(found) == 0 {
			return steps.Fail("%s never existed", t)
		}
		var best match.Result
		var closest *unstructured.Unstructured
		for _, o := range found {
			r := match.Compare(want, o.Object)
			if r.Matches() {
				return nil
			}
			if closest == nil || len(r.Differences) < len(best.Differences) {
				best, closest = r, o
			}
		}
		of := ""
		if len(found) > 1 {
			of = fmt.Sprintf(" (the closest of %d)", len(found))
		}
		first := "nothing was compared"
		if len(best.Differences) > 0 {
			first = best.Differences[0].String()
		}
		more := ""
		if n := len(best.Differences) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return steps.Fail("%s %s%s: %s%s", t.Kind, closest.GetName(), of, first, more).
			With("Differences", match.Lines(best.Differences)).With(steps.LastSeen(closest))
	}
}

// absent returns a Check that fails if any object matches.
func absent(t steps.ObjectRef, want any) steps.Check {
	return func(v observe.Snapshot) *steps.Failure {
		found, _ := v.Objects(t.Subject, t.Name, t.Labels)
		for _, o := range found {
			if match.Compare(want, o.Object).Matches() {
				return steps.Fail("%s %s exists and matches", t.Kind, o.GetName()).With(steps.LastSeen(o))
			}
		}
		return nil
	}
}

// waitUntilHeld blocks until good has returned true without interruption for the duration least. It then waits for
// delayed watch events, unless the API is unavailable.
func waitUntilHeld(ctx context.Context, e *steps.Env, least time.Duration, good func(observe.Snapshot) bool) error {
	if least <= 0 {
		return e.Recorder.WaitUntil(ctx, func(v observe.Snapshot) (bool, error) { return good(v), nil })
	}
	turned := make(chan bool, 1)
	var now, sent bool
	stop := e.Recorder.Watch(func(c observe.Update) {
		if is := good(c.Snapshot); !sent || is != now {
			now, sent = is, true
			select {
			case <-turned: // replaces a value that was not received yet
			default:
			}
			turned <- is
		}
	})
	defer stop()
	timer := time.NewTimer(least)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case is := <-turned:
			timer.Stop()
			if is {
				timer.Reset(least)
			}
		case <-timer.C:
			if err := e.Recorder.CatchUpAll(ctx); err != nil && !errors.Is(err, observe.ErrNoList) {
				return err
			}
			select {
			case is := <-turned:
				if is { // it was false in between
					timer.Reset(least)
				}
			default:
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
