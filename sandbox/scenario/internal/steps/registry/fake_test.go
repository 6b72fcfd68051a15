package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	typedfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/apitest"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

const (
	run         = "run-x"
	waitTimeout = check.WaitTimeout
)

// fakeSandbox is a fake daemon. It records the calls of its methods. Unlike the real daemon, it also creates the
// Nodes of bases.
type fakeSandbox struct {
	// nodes is called with true when a Node must be created, and with false when it must be deleted.
	nodes func(control.Base, bool)

	mu    sync.Mutex
	calls []string
	bases map[string]control.Base // bases by host name
	count map[string]int          // number of bases, by set
	end   traffic.StreamResult
	busy  map[string]int // number of writes by the controllers in each polling interval, by verb and resource

	writes apifault.Writes
	faults []fault.Status
	// ending is the number of polls after which all faults have ended; 0 means never.
	ending int
	err    error // error that the next call returns
}

func (f *fakeSandbox) record(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	err := f.err
	f.err = nil
	return err
}

func (f *fakeSandbox) AddBases(_ context.Context, r control.AddRequest) ([]control.Base, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.record("add %d %s %s", r.Count, r.Set, r.Spec.Version); err != nil {
		return nil, err
	}
	var added []control.Base
	for range r.Count {
		f.count[r.Set]++
		b := control.Base{HostName: fmt.Sprintf("%s-%s-%d", r.Group, r.Set, f.count[r.Set]), Set: r.Set,
			Index: f.count[r.Set], Version: r.Spec.Version, Running: true}
		b.Identity = "id-" + b.HostName
		f.bases[b.HostName] = b
		added = append(added, b)
		f.nodes(b, true)
	}
	return added, nil
}

func (f *fakeSandbox) RemoveBases(_ context.Context, r control.RemoveRequest) ([]control.Base, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range r.Bases {
		f.nodes(f.bases[name], false)
		delete(f.bases, name)
	}
	return nil, f.record("remove %s", strings.Join(r.Bases, " "))
}

func (f *fakeSandbox) RestartBase(_ context.Context, base string, r control.RestartRequest) (*control.Base, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.bases[base]
	if r.NewIdentity {
		b.Identity += "-again"
		f.bases[base] = b
		f.nodes(b, true)
	}
	return &b, f.record("restart %s %t", base, r.NewIdentity)
}

func (f *fakeSandbox) SetFault(_ context.Context, i fault.Injection) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, fault.Status{Injection: i})
	return i.ID, f.record("set %s %s %s on %v %d", i.Target, i.ID, i.Kind, i.Bases, i.Replica)
}

func (f *fakeSandbox) ClearFaults(_ context.Context, r control.FaultSelector) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record("clear %s %v of %v", r.Target, r.IDs, r.Bases)
}

func (f *fakeSandbox) Faults(context.Context, string) (control.Faults, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending > 0 { // all faults end after this number of polls
		f.ending--
		if f.ending == 0 {
			for i := range f.faults {
				f.faults[i].Ended = "over"
			}
		}
	}
	for what, n := range f.busy {
		f.writes.By[1][what] += n
		f.writes.Last = time.Now()
	}
	writes := f.writes
	if writes.By != nil {
		writes.By = map[int]map[string]int{1: maps.Clone(writes.By[1])}
	}
	return control.Faults{Faults: slices.Clone(f.faults), Writes: writes}, f.record("faults")
}

func (f *fakeSandbox) Act(_ context.Context, r control.ActRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record("%s %s for %s", r.Action, r.Component, r.Group)
}

func (f *fakeSandbox) Repair(_ context.Context, r control.RepairRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record("repair %s%s", r.Group, map[bool]string{true: " and its controllers"}[r.Controllers])
}

func (f *fakeSandbox) StartTraffic(_ context.Context, group string, s traffic.Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record("start %s %s %s %s for %v", group, s.Name, s.Namespace, s.Module, s.Duration)
}

func (f *fakeSandbox) Traffic(context.Context, string) ([]traffic.Summary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []traffic.Summary{f.end.Summary}, nil
}

func (f *fakeSandbox) StopTraffic(_ context.Context, _, name string) (*traffic.StreamResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.end
	end.Name = name
	return &end, f.record("stop %s", name)
}

// fixture is an Env with a fake sandbox and a fake API.
type fixture struct {
	*steps.Env
	t       *testing.T
	sandbox *fakeSandbox
	dynamic *dynamicfake.FakeDynamicClient
	typed   *typedfake.Clientset
	world   *observe.Recorder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		{Version: "v1", Kind: "Pod"}:                       meta.RESTScopeNamespace,
		{Version: "v1", Kind: "ConfigMap"}:                 meta.RESTScopeNamespace,
		{Version: "v1", Kind: "Node"}:                      meta.RESTScopeRoot,
		{Group: "apps", Version: "v1", Kind: "Deployment"}: meta.RESTScopeNamespace,
	} {
		mapper.Add(kind, scope)
	}
	r := &fixture{t: t, dynamic: dynamicfake.NewSimpleDynamicClient(scheme.Scheme),
		typed: typedfake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc", Namespace: run}})}
	check.Gapless(r.dynamic)
	r.sandbox = &fakeSandbox{bases: map[string]control.Base{}, count: map[string]int{}, nodes: r.node}
	r.world = observe.New(observe.Options{Client: r.dynamic, Namespace: run, Group: run})
	var err error
	r.Env, err = steps.New(steps.Options{
		Sandbox: r.sandbox, Kube: kube.New(r.typed, r.dynamic, mapper), Recorder: r.world,
		Static: expr.Static{Vars: map[string]any{"module": "stock"}, Outputs: []string{"said"}},
		Vars:   map[string]any{"module": "stock"},
		Run:    expr.Run{Env: "dev"}, Namespace: run, Group: run, Dir: t.TempDir(), Kubeconfig: "/kubeconfig",
		Seed: 7, TrafficFor: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.world.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// node creates or deletes the Node of a base.
func (r *fixture) node(b control.Base, there bool) {
	name := "vnode." + b.Identity
	if !there {
		if err := r.dynamic.Tracker().Delete(observe.Nodes, "", name); err != nil {
			r.t.Error(err)
		}
		return
	}
	r.create(observe.Nodes, `{apiVersion: v1, kind: Node, metadata: {name: `+name+
		`, annotations: {base.koupleless.io/identity: `+b.Identity+`}, labels: {base.koupleless.io/cluster-name: `+run+
		`, base.koupleless.io/host-name: `+b.HostName+`}}, status: {conditions: [{type: Ready, status: "True"}]}}`)
}

func (r *fixture) create(resource schema.GroupVersionResource, text string) {
	r.t.Helper()
	o := apitest.Object(r.t, text)
	if err := r.dynamic.Tracker().Create(resource, o, o.GetNamespace()); err != nil {
		r.t.Error(err)
	}
}

func (r *fixture) update(resource schema.GroupVersionResource, text string) {
	r.t.Helper()
	o := apitest.Object(r.t, text)
	if err := r.dynamic.Tracker().Update(resource, o, o.GetNamespace()); err != nil {
		r.t.Error(err)
	}
}

// action decodes an action from YAML.
func action(t *testing.T, text string) *v1alpha1.Action {
	t.Helper()
	s := &v1alpha1.Step{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return &s.Action
}

var errLate = errors.New("timed out")

// do executes an action that is given as YAML. The action times out after limit.
func (r *fixture) do(text string, limit time.Duration) (string, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), limit, errLate)
	defer cancel()
	return Exec(ctx, r.Env, action(r.t, text))
}

// mustPass executes an action. It fails the test unless the action passes and its message contains all values.
func (r *fixture) mustPass(text string, values ...string) {
	r.t.Helper()
	got, err := r.do(text, waitTimeout)
	if err != nil {
		r.t.Fatalf("%s: error %v", text, err)
	}
	wantError(r.t, errors.New(got), values...)
}

// mustFail executes an action. It fails the test unless the action fails before its timeout and the error contains
// all values. It returns the details of the failure.
func (r *fixture) mustFail(text string, values ...string) []steps.Detail {
	r.t.Helper()
	return r.fails(text, waitTimeout, false, values)
}

// mustTimeOut executes an action. It fails the test unless the action fails because of its timeout.
func (r *fixture) mustTimeOut(text string, values ...string) []steps.Detail {
	r.t.Helper()
	return r.fails(text, time.Second, true, values)
}

func (r *fixture) fails(text string, limit time.Duration, late bool, values []string) []steps.Detail {
	r.t.Helper()
	_, err := r.do(text, limit)
	if err == nil || errors.Is(err, errLate) != late {
		r.t.Fatalf("%s: error %v, want timeout: %t", text, err, late)
	}
	wantError(r.t, err, values...)
	var f *steps.Failure
	if errors.As(err, &f) {
		return f.Details
	}
	return nil
}

// untitled ignores the titles of details in comparisons.
var untitled = cmpopts.IgnoreFields(steps.Detail{}, "Title")

func wantError(t *testing.T, err error, values ...string) {
	t.Helper()
	for _, v := range values {
		if err == nil || !strings.Contains(err.Error(), v) {
			t.Fatalf("error %v does not contain %q", err, v)
		}
	}
}
