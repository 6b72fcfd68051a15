package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

const (
	// inconclusive begins why a run has no verdict.
	inconclusive = "inconclusive: "
	// tooLate is how late a run may see what happens, so that a step which has waited in vain, or a
	// condition that was not true, is taken for the truth: what a status may take (judge.Options).
	tooLate = time.Second
	// lateEnough is a quarter of the time that a request has unless a scenario says otherwise; that counts
	// from when the request was due.
	lateEnough = 500 * time.Millisecond
	// catchTime is how long the run may take at its end to see everything that has happened.
	catchTime = 15 * time.Second
	// lookAgain is the pause between two looks at the bases meanwhile.
	lookAgain = 100 * time.Millisecond
)

// errLate is why a run has no verdict that saw too late what happened.
var errLate = errors.New("the machine is too busy")

// lateness says that the run was told so late.
func lateness(lag time.Duration) error {
	return fmt.Errorf(inconclusive+"the watch was %.1f s late; %w", lag.Seconds(), errLate)
}

// lastWrite asks the API for the number of its last write: that of a list, however short. It is one of LimitRanges,
// of which there are hardly any: for one Pod of 10,000 the API server goes through all of them.
func (e *execution) lastWrite(ctx context.Context) (uint64, error) {
	list, err := e.r.kube.Typed.CoreV1().LimitRanges(e.in.name).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	version, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return 0, nil //nolint:nilerr // the API numbers its writes in another way
	}
	return version, nil
}

// doubt puts in front of the failure of a step, or of a condition, that it may be the run's own: it
// was told too late of what it has waited for. What is known without the watches is no matter of
// doubt.
func (e *execution) doubt(s *v1alpha1.Step, err error) error {
	lag := e.world.Lag()
	if err == nil || lag <= tooLate || errored(err) {
		return err
	}
	var broken *violated
	if watched := s != nil && (s.Assert != nil || s.Wait != nil || s.Base != nil || s.Delete != nil); !watched && !errors.As(err, &broken) {
		return err
	}
	return fmt.Errorf("%w: %w", lateness(lag), err)
}

// catchUp waits until the run has seen what there is by now: what happened last may be on its way
// still, and nobody is to be blamed for it.
func (e *execution) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catchTime, lateness(catchTime))
	defer cancel()
	return lateOr(ctx, e.catch(ctx))
}

// catchUpLast does so at the end of the run, when the platform is there again: an API that gives no
// list now, since a disk or the machine stands still, is asked again.
func (e *execution) catchUpLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catchTime, lateness(catchTime))
	defer cancel()
	err := e.catch(ctx)
	for errors.Is(err, observe.ErrNoList) && ctx.Err() == nil {
		select {
		case <-time.After(lookAgain):
			err = e.catch(ctx)
		case <-ctx.Done():
		}
	}
	return lateOr(ctx, err)
}

// lateOr makes an error that of a run that sees too late what happened, if it is no more than that: no answer, or
// not the one that is waited for, until ctx has ended.
func lateOr(ctx context.Context, err error) error {
	why := context.Cause(ctx)
	switch {
	case err == nil || !errors.Is(why, errLate) || errors.Is(err, errBroken) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errLate):
		return why
	}
	return fmt.Errorf("%w: %w", why, err)
}

func (e *execution) catch(ctx context.Context) error {
	for _, r := range []observe.Subject{{Resource: observe.Pods, Namespace: e.in.name}, {Resource: observe.EndpointSlices, Namespace: e.in.name}} {
		if err := e.world.CatchUp(ctx, r); err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
	}
	for {
		bases, err := e.bases(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		if e.asTold(bases) {
			return nil
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// seen waits at the end of the scope of conditions until they have been evaluated for all that
// happened in it. An API that is away tells nothing that could be waited for.
func (e *execution) seen(ctx context.Context, conditions int) error {
	if conditions == 0 {
		return nil
	}
	if err := e.catchUp(ctx); errors.Is(err, errLate) {
		return err
	}
	return nil
}

// basesNow asks the daemon for the bases of the run.
func (e *execution) basesNow(ctx context.Context) ([]control.Base, error) {
	return e.r.o.Sandbox.Bases(ctx, e.in.name)
}

// asTold tells whether the events say of all bases what the daemon does.
func (e *execution) asTold(bases []control.Base) (same bool) {
	e.world.Look(func(v observe.View) {
		told := v.Bases()
		same = !slices.ContainsFunc(bases, func(b control.Base) bool {
			seen, there := told[strings.TrimPrefix(b.HostName, e.in.name+"-")]
			return !there || seen.Running != b.Running || !slices.Equal(modulesOf(seen.Modules), slices.Sorted(slices.Values(b.Modules)))
		})
	})
	return same
}

// modulesOf writes modules as control.Base does.
func modulesOf(all []timeline.ModuleStatus) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.String()+" "+string(m.State))
	}
	slices.Sort(out)
	return out
}
