package scenario

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// told makes the daemon's stream tell of something so late.
func told(e *execution, lag time.Duration) {
	e.world.Note(timeline.Event{Kind: timeline.Synced})
	e.world.Note(timeline.Event{Time: time.Now().Add(-lag), Kind: timeline.Base, Base: "base-1", State: string(timeline.BaseReady)})
}

// A step that has waited in vain has failed, unless the run was told too late: then nobody knows.
func TestStepsOfARunThatSeesTooLate(t *testing.T) {
	const wait = "steps: [{name: it comes, timeout: 1s, assert: {cel: \"bases.size() > 9\"}}]"
	for _, tt := range []struct {
		name, spec string
		lag        time.Duration
		verdict    Verdict
		why        string
	}{
		{"in time", wait, 900 * time.Millisecond, Failed, `step "it comes": not within 1s`},
		{"too late", wait, 3200 * time.Millisecond, Errored, `step "it comes": inconclusive: the watch was 3.2 s late; the machine is too busy: not within 1s`},
		{"in a group", "steps: [{steps: [{name: it comes, timeout: 1s, assert: {cel: \"bases.size() > 9\"}}]}]", 3200 * time.Millisecond, Errored,
			`step "it comes": inconclusive: the watch was 3.2 s late`},
		{"what needs no watch", "steps: [{name: a script, script: {content: exit 3}}]", 3200 * time.Millisecond, Failed, `step "a script": `},
		{"a condition", "never: [{name: two bases, cel: bases.size() == 1}]\nsteps: [{script: {content: \"true\"}}]", 3200 * time.Millisecond, Errored,
			`step "script": inconclusive: the watch was 3.2 s late; the machine is too busy: never "two bases" was broken`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := begin(t, Options{}, tt.spec)
			told(e, tt.lag)
			e.must(e.body(t.Context()))
			if e.run.Verdict != tt.verdict || !strings.HasPrefix(e.run.Failure, tt.why) {
				t.Errorf("%s: %s; want %s: %s", e.run.Verdict, e.run.Failure, tt.verdict, tt.why)
			}
		})
	}
}

// The checks judge what has happened, so the run waits until it has seen all of it.
func TestCatchUpWithTheBases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := begin(t, Options{}, "steps: [{script: {content: \"true\"}}]")
		host := e.in.name + "-base-1"
		told(e, 0)
		e.bases = func(context.Context) ([]control.Base, error) {
			return []control.Base{{HostName: host, Running: true, Modules: []string{"stock:1 ACTIVATED"}}}, nil
		}
		began := time.Now()
		err := e.catchUp(t.Context())
		if !errors.Is(err, errLate) || !errored(err) || time.Since(began) != catchTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		done := make(chan error, 1)
		go func() { done <- e.catchUp(t.Context()) }()
		synctest.Wait()
		e.world.Note(timeline.Event{Time: time.Now(), Kind: timeline.Module, Base: "base-1", Module: "stock", Version: "1", State: "ACTIVATED"})
		if err := <-done; err != nil {
			t.Error(err)
		}
		e.bases = func(context.Context) ([]control.Base, error) { return nil, errors.New("gone") }
		if err := e.catchUp(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("without a daemon: %v", err)
		}
	})
}

// At its end a run asks an API again that gives no list.
func TestTheEndOfARunWaitsForTheAPI(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails int // how many questions
		with  error
		want  error
		after time.Duration
	}{
		{"for a while", 3, errors.New("etcdserver: request timed out"), nil, 3 * lookAgain},
		{"for ever", math.MaxInt, errors.New("connection refused"), errBroken, catchTime},
		{"without an answer", math.MaxInt, context.DeadlineExceeded, errLate, catchTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := begin(t, Options{}, "steps: [{script: {content: \"true\"}}]")
				client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{observe.Pods: "PodList"})
				asked := 0
				client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
					asked++
					return asked <= tt.fails, nil, tt.with
				})
				e.world = observe.New(observe.Options{Client: client, Namespace: e.in.name, Group: e.in.name})
				followed, cancel := context.WithCancel(t.Context())
				cancel() // nothing is to be told
				_ = e.world.Follow(followed, observe.Subject{Resource: observe.Pods, Namespace: e.in.name})
				began := time.Now()
				if err := e.catchUpLast(t.Context()); !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if after := time.Since(began); after != tt.after {
					t.Errorf("it took %s, want %s", after, tt.after)
				}
			})
		})
	}
}

// The checks know the times that the scenario gives the controller.
func TestJudgeOptions(t *testing.T) {
	o := judgeOptions(&v1alpha1.ScenarioSpec{Controller: &v1alpha1.ControllerNeeds{Env: map[string]string{
		"LIST_INTERVAL": "2s", "BASE_UNREACHABLE_AFTER": "4s", "INSTALL_TIMEOUT": "1m", "UNINSTALL_TIMEOUT": "nonsense",
	}}}, 10)
	if o.ListEvery != 2*time.Second || o.SilentAfter != 4*time.Second || o.InstallWithin != time.Minute || o.UninstallWithin != 0 || o.Speed != 10 {
		t.Errorf("%+v", o)
	}
}
