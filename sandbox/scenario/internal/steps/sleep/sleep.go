// Package sleep executes the step sleep.
package sleep

import (
	"context"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec waits for a duration, or until a condition is true.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.Sleep) (string, error) {
	if a.OrUntil != "" {
		return sleepUntil(ctx, e, a)
	}
	select {
	case <-time.After(a.For.Duration):
		return fmt.Sprintf("slept for %s: %s", a.For.Duration, a.Reason), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func sleepUntil(ctx context.Context, e *steps.Env, a *v1alpha1.Sleep) (string, error) {
	p, err := e.Compile(a.OrUntil, expr.Condition)
	if err != nil {
		return "", err
	}
	if err := e.Follow(ctx, p); err != nil {
		return "", err
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, a.For.Duration)
	defer cancel()
	is := e.Condition(p)
	err = e.Recorder.WaitUntil(limited, func(v observe.Snapshot) (bool, error) { return is(v) == nil, nil })
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case limited.Err() != nil:
		return fmt.Sprintf("slept for %s: %s; the condition did not become true", a.For.Duration, a.Reason), nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("slept for %s: %s", time.Since(began).Round(time.Millisecond), a.Reason), nil
}
