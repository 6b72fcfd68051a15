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

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

const (
	// maxDelay is the longest Run.Delay with which a failed result is still valid: a quarter of the default request
	// timeout at speed 1.
	maxDelay = 500 * time.Millisecond
	// catchUpTimeout limits how long a run waits until it has observed all events.
	catchUpTimeout = 15 * time.Second
	// catchUpInterval is the polling interval of catchUp.
	catchUpInterval = 100 * time.Millisecond
)

var errInconclusive = errors.New("inconclusive")

// eventsLate is the cause in errEventsLate.
var eventsLate = fmt.Sprintf("the run did not observe all events within %s", catchUpTimeout)

// errEventsLate is the error that catchUp returns after catchUpTimeout.
var errEventsLate = fmt.Errorf("%w: %s", errInconclusive, eventsLate)

// Inconclusive reports whether the run has no valid result because the machine was too slow. Execute repeats such a
// run once.
func (r *Run) Inconclusive() bool {
	return r.Result == Errored && strings.Contains(r.Failure, errInconclusive.Error())
}

// InconclusiveCause returns why the run is inconclusive, without the failure that the delay may have caused. It returns
// "" if the run is not inconclusive.
func (r *Run) InconclusiveCause() string {
	switch {
	case !r.Inconclusive():
		return ""
	case strings.Contains(r.Failure, eventsLate):
		return eventsLate
	}
	return r.delayed()
}

func (r *Run) delayed() string {
	return fmt.Sprintf("this machine was delayed by up to %.1f s", r.Delay.Seconds())
}

// markInconclusive makes a failed run inconclusive if Run.Delay may have caused the failure. This is the case if the
// delay is longer than maxDelay, or longer than the module of a deleted Pod stays on its base.
func (r *Run) markInconclusive() {
	if r.Result == Failed && r.Delay > min(maxDelay, api.Drain/time.Duration(max(r.Speed, 1))) {
		r.Result = Errored
		r.Failure = fmt.Sprintf("%s: %s: %s", errInconclusive, r.delayed(), r.Failure)
	}
}

// lastWrite returns the resource version of the last write to the API, which every list response contains. It lists
// LimitRanges because a cluster has few of them: even to list a single namespace, the API server reads all objects of
// the resource. It returns 0 if resource versions are not numbers.
func (e *execution) lastWrite(ctx context.Context) (uint64, error) {
	list, err := e.r.kube.Typed.CoreV1().LimitRanges(e.in.name).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	version, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return 0, nil //nolint:nilerr // resource versions of this API are not numbers
	}
	return version, nil
}

// catchUp blocks until the run has observed all events that have occurred so far. It returns errEventsLate after
// catchUpTimeout, and errUnobservable if bases or objects cannot be listed. If wait is set, it retries while the API
// server cannot list objects.
func (e *execution) catchUp(ctx context.Context, wait bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catchUpTimeout, errEventsLate)
	defer cancel()
	var last error // of the last attempt
	for ctx.Err() == nil {
		done, err := e.caughtUp(ctx)
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			continue
		case err != nil && (!wait || !errors.Is(err, observe.ErrNoList)):
			return fmt.Errorf("%w: %w", errUnobservable, err)
		}
		last = err
		select {
		case <-time.After(catchUpInterval):
		case <-ctx.Done():
		}
	}
	if last == nil || errors.Is(last, context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", errUnobservable, last)
}

// caughtUp reports whether the observed state of the bases equals their state in the daemon. It first blocks until
// the watches have delivered all Pods and EndpointSlices that the API lists.
func (e *execution) caughtUp(ctx context.Context) (bool, error) {
	for _, r := range []observe.Subject{{Resource: observe.Pods, Namespace: e.in.name},
		{Resource: observe.EndpointSlices, Namespace: e.in.name}} {
		if err := e.recorder.CatchUp(ctx, r); err != nil {
			return false, err
		}
	}
	bases, err := e.queryBases(ctx)
	return err == nil && e.matchesEvents(bases), err
}

// catchUpConditions is called at the end of the scope of conditions. It blocks until the conditions have been
// evaluated for all events in the scope. It does not wait for an unavailable API server.
func (e *execution) catchUpConditions(ctx context.Context, conditions int) error {
	if conditions == 0 {
		return nil
	}
	if err := e.catchUp(ctx, false); errors.Is(err, errInconclusive) {
		return err
	}
	return nil
}

func (e *execution) listBases(ctx context.Context) ([]control.Base, error) {
	return e.r.o.Sandbox.Bases(ctx, e.in.name)
}

// matchesEvents reports whether the observed state of the bases equals their state in the list from the daemon.
func (e *execution) matchesEvents(bases []control.Base) (same bool) {
	e.recorder.Read(func(v observe.Snapshot) {
		seen := v.Bases()
		same = !slices.ContainsFunc(bases, func(b control.Base) bool {
			base, ok := seen[strings.TrimPrefix(b.HostName, e.in.name+"-")]
			return !ok || base.Running != b.Running ||
				!slices.Equal(modulesOf(base.Modules), slices.Sorted(slices.Values(b.Modules)))
		})
	})
	return same
}

func modulesOf(all []events.ModuleStatus) []string {
	var out []string
	for _, m := range all {
		out = append(out, m.String()+" "+string(m.State))
	}
	slices.Sort(out)
	return out
}
