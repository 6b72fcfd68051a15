package scenario

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// TestDelayMakesFailureInconclusive checks that a long delay of the machine makes a failed run inconclusive, and does
// not change other results.
func TestDelayMakesFailureInconclusive(t *testing.T) {
	for name, tt := range map[string]struct {
		run  Run
		want Result
	}{
		"failed in time":                 {Run{Result: Failed, Delay: maxDelay}, Failed},
		"failed with a delay":            {Run{Result: Failed, Delay: maxDelay + 1}, Errored},
		"failed at speed 5 with a delay": {Run{Result: Failed, Delay: api.Drain/5 + 1, Speed: 5}, Errored},
		"failed at speed 5 in time":      {Run{Result: Failed, Delay: api.Drain / 5, Speed: 5}, Failed},
		"passed with a delay":            {Run{Result: Passed, Delay: time.Hour}, Passed},
	} {
		tt.run.Failure = "why"
		tt.run.markInconclusive()
		if tt.run.Result != tt.want || !strings.HasSuffix(tt.run.Failure, "why") ||
			tt.run.Inconclusive() != (tt.want == Errored) {
			t.Errorf("%s: %s: %s, want %s", name, tt.run.Result, tt.run.Failure, tt.want)
		}
		cause := tt.run.InconclusiveCause()
		if (cause != "") != (tt.want == Errored) || strings.Contains(cause, "why") ||
			!strings.Contains(tt.run.Failure, cause) {
			t.Errorf("%s: cause %q of %q", name, cause, tt.run.Failure)
		}
	}
	late := Run{Result: Errored, Failure: "step 1: " + errEventsLate.Error() + ": why"}
	if cause := late.InconclusiveCause(); cause != eventsLate {
		t.Errorf("cause %q of %q", cause, late.Failure)
	}
}

// TestRunDelay checks that an event that arrives an hour late sets the Delay of the run, and makes the failed run
// inconclusive.
func TestRunDelay(t *testing.T) {
	e := newTestExecution(t, Options{}, "steps: [{script: {content: exit 3}}]")
	e.recorder.AddEvent(events.Event{Synced: true})
	e.recorder.AddEvent(events.Event{Time: time.Now().Add(-time.Hour),
		Base: &events.BaseEvent{Base: "base-1", Change: events.BaseReady}})
	e.failOn(e.body(t.Context()))
	if run := e.finish(t.Context()); run.Delay < time.Hour || !run.Inconclusive() {
		t.Errorf("delay %s, %s: %s", run.Delay, run.Result, run.Failure)
	}
}

// TestInconclusiveRunsAreRepeated checks that an inconclusive run is repeated once, with the same seed and a new
// namespace, and that the result of the second run is reported.
func TestInconclusiveRunsAreRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		results []Run // results of the calls of perform, in order
		keep    bool
		want    Run
		kinds   []ProgressKind
	}{
		"the second run passes": {
			results: []Run{{Result: Errored, Failure: "inconclusive: late"}, {Result: Passed}},
			want:    Run{Result: Passed, FirstFailure: "inconclusive: late"},
			kinds:   []ProgressKind{RunStarted, RunPostponed, Cleaned, RunStarted, RunEnded, Cleaned},
		},
		"the second run is inconclusive": {
			results: []Run{{Result: Errored, Failure: "inconclusive: late"},
				{Result: Errored, Failure: "inconclusive: later"}},
			want:  Run{Result: Errored, Failure: "inconclusive: later", FirstFailure: "inconclusive: late"},
			kinds: []ProgressKind{RunStarted, RunPostponed, Cleaned, RunStarted, RunEnded, Cleaned},
		},
		"a failure is not repeated": {
			results: []Run{{Result: Failed, Failure: "lost"}},
			want:    Run{Result: Failed, Failure: "lost"},
			kinds:   []ProgressKind{RunStarted, RunEnded, Cleaned},
		},
		"kept runs are not repeated": {
			results: []Run{{Result: Errored, Failure: "inconclusive: late"}}, keep: true,
			want:  Run{Result: Errored, Failure: "inconclusive: late"},
			kinds: []ProgressKind{RunStarted, RunEnded, Cleaned},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Scenarios: []*source.Scenario{load(t, "steps: [{script: {content: echo}}]")}, Seed: 1,
				Keep: tt.keep}
			var kinds []ProgressKind
			o.Progress = func(e ProgressEvent) { kinds = append(kinds, e.Kind) }
			r := &runner{o: o, status: &control.Status{}, report: &Report{}, inconclusive: map[int]*Run{}}
			var err error
			r.plan, err = plan(o, "dev", 1)
			if err != nil {
				t.Fatal(err)
			}
			r.report.Runs = []*Run{newRun(r.plan[0])}
			var made []*instance
			r.perform = func(_ context.Context, i *instance) (*Run, func(context.Context) string) {
				made = append(made, i)
				return &tt.results[len(made)-1], func(context.Context) string { return "" }
			}
			r.run(t.Context())
			if diff := cmp.Diff(&tt.want, r.report.Runs[0]); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(append([]ProgressKind{Planned}, tt.kinds...), kinds); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if len(made) != len(tt.results) ||
				len(made) == 2 && (made[0].seed != made[1].seed || made[0].name == made[1].name) {
				t.Errorf("%d runs: %+v", len(made), made)
			}
		})
	}
}

// TestCatchUpWaitsForBaseEvents checks that catchUp waits until the run has observed all events of the bases.
func TestCatchUpWaitsForBaseEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestExecution(t, Options{}, "steps: [{script: {content: \"true\"}}]")
		host := e.in.name + "-base-1"
		e.recorder.AddEvent(events.Event{Synced: true})
		e.recorder.AddEvent(events.Event{Time: time.Now(),
			Base: &events.BaseEvent{Base: "base-1", Change: events.BaseReady}})
		e.queryBases = func(context.Context) ([]control.Base, error) {
			return []control.Base{{HostName: host, Running: true, Modules: []string{"stock:1 ACTIVATED"}}}, nil
		}
		began := time.Now()
		err := e.catchUp(t.Context(), false)
		if !errors.Is(err, errInconclusive) || !errored(err) || time.Since(began) != catchUpTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		done := make(chan error, 1)
		go func() { done <- e.catchUp(t.Context(), false) }()
		synctest.Wait()
		e.recorder.AddEvent(events.Event{Time: time.Now(),
			Module: &events.ModuleEvent{Base: "base-1", ModuleRef: events.ModuleRef{Name: "stock", Version: "1"},
				State: "ACTIVATED"}})
		if err := <-done; err != nil {
			t.Error(err)
		}
		e.queryBases = func(context.Context) ([]control.Base, error) { return nil, errors.New("gone") }
		if err := e.catchUp(t.Context(), false); !errors.Is(err, errUnobservable) {
			t.Errorf("without a daemon: %v", err)
		}
	})
}

// TestCatchUpRetriesLists checks that catchUp retries while the API server cannot list objects.
func TestCatchUpRetriesLists(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails int // number of list requests that fail
		with  error
		want  error
		after time.Duration
	}{
		{"for a while", 3, errors.New("etcdserver: request timed out"), nil, 3 * catchUpInterval},
		{"indefinitely", math.MaxInt, errors.New("connection refused"), errUnobservable, catchUpTimeout},
		{"without a response", math.MaxInt, context.DeadlineExceeded, errInconclusive, catchUpTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newTestExecution(t, Options{}, "steps: [{script: {content: \"true\"}}]")
				client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
					map[schema.GroupVersionResource]string{observe.Pods: "PodList"})
				asked := 0
				client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
					asked++
					return asked <= tt.fails, nil, tt.with
				})
				e.recorder = observe.New(observe.Options{Client: client, Namespace: e.in.name, Group: e.in.name})
				followed, cancel := context.WithCancel(t.Context())
				cancel() // no watch events are delivered
				_ = e.recorder.Follow(followed, observe.Subject{Resource: observe.Pods, Namespace: e.in.name})
				began := time.Now()
				if err := e.catchUp(t.Context(), true); !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if after := time.Since(began); after != tt.after {
					t.Errorf("catchUp took %s, want %s", after, tt.after)
				}
			})
		})
	}
}

// TestJudgeOptions checks that judgeOptions contains the controller timings that the scenario configures.
func TestJudgeOptions(t *testing.T) {
	o := judgeOptions(&v1alpha1.ScenarioSpec{Controller: &v1alpha1.ControllerNeeds{Env: map[string]string{
		"LIST_INTERVAL": "2s", "BASE_UNREACHABLE_AFTER": "4s", "INSTALL_TIMEOUT": "1m", "UNINSTALL_TIMEOUT": "nonsense",
	}}}, 10)
	if o.ListInterval != 2*time.Second || o.UnreachableAfter != 4*time.Second || o.InstallTimeout != time.Minute ||
		o.UninstallTimeout != 0 || o.Speed != 10 {
		t.Errorf("%+v", o)
	}
}
