// Package fault executes the step fault.
package fault

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec sets, clears or awaits faults.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.FaultAction) (string, error) {
	switch {
	case a.Set != nil:
		return set(ctx, e, a.Set)
	case a.Clear != nil:
		return clearFaults(ctx, e, a.Clear)
	}
	return await(ctx, e, a.Await)
}

func set(ctx context.Context, e *steps.Env, a *v1alpha1.FaultSet) (string, error) {
	bases, hosts, err := e.Bases(a.Bases)
	if err != nil {
		return "", err
	}
	i := fault.Injection{Fault: e.Named(a.Fault), Target: a.Target, Bases: hosts, Group: e.Group,
		Replica: ptr.Deref(a.Replica, 0)}
	// bases have the seed of the run
	if a.Target != v1alpha1.TargetBase && (i.Probability != 0 || i.Delay.Spread != 0) {
		i.Seed = cmp.Or(i.Seed, e.Seed)
	}
	e.WatchFault(i.Fault, a.Target, bases)
	if _, err := e.Sandbox.SetFault(ctx, i); err != nil {
		return "", fmt.Errorf("setting the fault %s: %w", i.ID, err)
	}
	on := strings.Join(bases, ", ")
	if a.Target != v1alpha1.TargetBase {
		on = strings.TrimSpace(string(a.Target) + " " + on)
	}
	return fmt.Sprintf("set fault %s (%s) on %s", i.ID, i.Kind, on), nil
}

func selector(e *steps.Env, a *v1alpha1.FaultSelector) (control.FaultSelector, error) {
	_, hosts, err := e.Bases(a.Bases)
	return control.FaultSelector{Group: e.Group, Target: a.Target, Bases: hosts, IDs: a.IDs}, err
}

func clearFaults(ctx context.Context, e *steps.Env, a *v1alpha1.FaultSelector) (string, error) {
	selector, err := selector(e, a)
	if err == nil {
		err = e.Sandbox.ClearFaults(ctx, selector)
	}
	if err != nil {
		return "", fmt.Errorf("clearing faults: %w", err)
	}
	return "cleared faults " + cmp.Or(strings.Join(a.IDs, ", "), strings.Join(a.Bases, ", "), string(a.Target)), nil
}

const awaitEvery = 20 * time.Millisecond

// await waits until faults have ended.
func await(ctx context.Context, e *steps.Env, a *v1alpha1.FaultSelector) (string, error) {
	selector, err := selector(e, a)
	if err != nil {
		return "", err
	}
	var waiting []string
	err = steps.Poll(ctx, awaitEvery, func() (bool, error) {
		now, err := e.Sandbox.Faults(ctx, e.Group)
		if err != nil {
			return false, fmt.Errorf("listing the faults: %w", err)
		}
		waiting = nil
		for _, f := range now.Faults {
			if f.Ended == "" && selector.Matches(f.Injection) {
				waiting = append(waiting, fmt.Sprintf("%s, which was triggered %d times", f.ID, f.Triggered))
			}
		}
		return len(waiting) == 0, nil
	})
	if err != nil {
		return "", steps.Ended(ctx, err,
			func() *steps.Failure { return steps.Fail("faults have not ended: %s", strings.Join(waiting, "; ")) })
	}
	return "faults have ended: " + strings.Join(a.IDs, ", "), nil
}
