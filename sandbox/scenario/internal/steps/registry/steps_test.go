package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	k8stesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/labels"
	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/apitest"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/kube"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

const (
	configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: run-x, labels: {app: x}}, data: {a: "1", b: "2"}}`
	ofMap     = `apiVersion: v1, kind: ConfigMap, name: c`
)

func (r *fixture) wantCalls(want ...string) {
	r.t.Helper()
	r.sandbox.mu.Lock()
	defer r.sandbox.mu.Unlock()
	if diff := cmp.Diff(want, r.sandbox.calls); diff != "" {
		r.t.Errorf("calls (-want +got):\n%s", diff)
	}
	r.sandbox.calls = nil
}

// TestExecutors checks that every action has an executor for its type.
func TestExecutors(t *testing.T) {
	actions := reflect.TypeFor[v1alpha1.Action]()
	for i := range actions.NumField() {
		f := actions.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Slice { // a group
			continue
		}
		if entry, known := executors[name]; !known || entry.of != f.Type {
			t.Errorf("executor for type %v of action %s, want %v", entry.of, name, f.Type)
		}
	}
}

func TestAssertResource(t *testing.T) {
	r := newFixture(t)
	r.mustTimeOut(`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}}`,
		"ConfigMap c never existed")
	r.create(configMaps, configMap)
	r.mustPass(`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "1"}}}`,
		"ConfigMap c ")
	r.mustPass(`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {labels: {app: x}}, data: {a: "1"}}}`,
		"app=x")
	details := r.mustTimeOut(`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "3", b: "2", d: "4"}}}`,
		"ConfigMap c: data.a: ", `"3"`, `"1"`, "1 more")
	want := []steps.Detail{
		{Text: "data.a: want \"3\", got \"1\"\ndata.d: want \"4\", but it is missing"},
		{Text: "apiVersion: v1\ndata:\n  a: \"1\"\n  b: \"2\"\nkind: ConfigMap\nmetadata:\n  labels:\n    app: x\n  " +
			"name: c\n  namespace: run-x\n"},
	}
	if diff := cmp.Diff(want, details, untitled); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	r.mustPass(`assert: {absent: true, resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "3"}}}`,
		"ConfigMap")
	r.mustTimeOut(`assert: {absent: true, resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "1"}}}`,
		"ConfigMap c exists and matches")
}

func TestAssertWaitsForMatch(t *testing.T) {
	r := newFixture(t)
	r.create(configMaps, configMap)
	r.mustPass(`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "1"}}}`,
		"ConfigMap c ")
	done := make(chan error, 1)
	go func() {
		_, err := r.do(`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "2"}}}`,
			waitTimeout)
		done <- err
	}()
	r.update(configMaps, strings.Replace(configMap, `a: "1"`, `a: "2"`, 1))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestAssertForWaitsForLateWatch checks that an assert with a for duration does not end before delayed watch events
// have arrived.
func TestAssertForWaitsForLateWatch(t *testing.T) {
	r := newFixture(t)
	late := watch.NewFake()
	r.dynamic.PrependWatchReactor("pods",
		func(k8stesting.Action) (bool, watch.Interface, error) { return true, late, nil })
	pod := func(version, phase string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: run-x, resourceVersion: "` + version +
			`"}, status: {phase: ` + phase + `}}`
	}
	lists := func() (n int) {
		for _, a := range r.dynamic.Actions() {
			if a.Matches("list", "pods") {
				n++
			}
		}
		return n
	}
	r.create(observe.Pods, pod("5", "Running"))
	r.mustPass(`assert: {cel: "pods.all(p, p.status.phase == 'Running')"}`)
	r.update(observe.Pods, pod("7", "Failed"))
	before, done := lists(), make(chan error, 1)
	go func() {
		_, err := r.do(`assert: {for: 50ms, cel: "pods.all(p, p.status.phase == 'Running')"}`, time.Second)
		done <- err
	}()
	for lists() == before { // until the step lists the objects
		select {
		case err := <-done:
			t.Fatalf("the step ended without a list: %v", err)
		default:
			runtime.Gosched()
		}
	}
	late.Modify(apitest.Object(t, pod("7", "Failed")))
	if err := <-done; !errors.Is(err, errLate) {
		t.Errorf("the assert passed before the late event: %v", err)
	}
}

func TestAssertCondition(t *testing.T) {
	r := newFixture(t)
	r.mustTimeOut(`assert: {cel: "pods.all(p, true)"}`, "empty: pods: ")
	details := r.mustTimeOut(`assert: {cel: "bases.exists(b, bases[b].ready)"}`)
	if diff := cmp.Diff([]steps.Detail{{Text: "bases: none"}}, details, untitled); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	r.world.AddEvent(events.Event{Base: &events.BaseEvent{Base: "base-1", Change: "ready"}})
	r.mustPass(`assert: {cel: "bases.exists(b, bases[b].ready)", for: 10ms}`, "10ms")
	r.mustTimeOut(`assert: {cel: "bases['base-2'].ready"}`, ": base-2")
}

func TestSleepEndsWhenConditionIsTrue(t *testing.T) {
	r := newFixture(t)
	r.world.AddEvent(events.Event{Base: &events.BaseEvent{Base: "base-1", Change: "ready"}})
	r.mustPass(`sleep: {for: 1h, orUntil: "bases['base-1'].ready", reason: because}`, "because")
	r.mustPass(`sleep: {for: 10ms, orUntil: "bases['base-2'].ready", reason: because}`, "10ms", "because; ")
	r.mustTimeOut(`sleep: {for: 1h, orUntil: "pods.size() > 0", reason: x}`)
}

func TestWait(t *testing.T) {
	r := newFixture(t)
	const d = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: run-x, generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: `
	r.mustTimeOut(`wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: d}}`,
		kube.Progress{Reason: kube.NotFound, Detail: "Deployment d"}.String())
	r.create(deployments, d+`0}}`)
	r.mustTimeOut(`wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: d}}`,
		kube.Progress{Reason: kube.NotAvailable, Want: 1}.String())
	r.update(deployments, d+`1}}`)
	r.mustPass(`wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: d}}`, "Deployment d",
		kube.Progress{Reason: kube.Complete, Kind: "Deployment", Want: 1}.String())
	r.mustTimeOut(`wait: {gone: {apiVersion: apps/v1, kind: Deployment, name: d}}`,
		"Deployment d: 1 not deleted yet, for example d")
	r.mustFail(`wait: {gone: {apiVersion: apps/v1, kind: Deployment, name: e}}`, "Deployment e")
	r.mustPass(`delete: {apiVersion: apps/v1, kind: Deployment, name: d}`, "Deployment d")
	r.mustPass(`wait: {gone: {apiVersion: apps/v1, kind: Deployment, name: d}}`, "Deployment d")
}

// TestWaitExplainsFailure checks that a failed wait contains the explanation of "koupsandbox why".
func TestWaitExplainsFailure(t *testing.T) {
	r := newFixture(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: run}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{labels.BaseName: "bsae"},
		Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	pod.Labels = map[string]string{labels.Component: labels.Module}
	base := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
		Labels: map[string]string{labels.Component: labels.Vnode, labels.BaseName: "base"}}}
	for _, err := range []error{r.typed.Tracker().Add(pod), r.typed.Tracker().Add(base)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.create(observe.Pods, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: `+run+`}}`)
	details := r.mustTimeOut(`wait: {ready: {apiVersion: v1, kind: Pod, name: p}}`,
		kube.Progress{Reason: kube.NoCondition, Kind: "Pod", Name: "p"}.String(), `"bsae"`, ": base")
	if len(details) != 2 || !strings.Contains(details[0].Text, labels.BaseName) {
		t.Errorf("details: %+v", details)
	}
}

func TestNothingMatched(t *testing.T) {
	r := newFixture(t)
	for text, want := range map[string]string{
		`patch: {` + ofMap + `, type: merge, patch: {data: {a: "2"}}}`:         "ConfigMap c",
		`delete: {` + ofMap + `}`:                                              "ConfigMap c",
		`scale: {apiVersion: apps/v1, kind: Deployment, name: c, replicas: 2}`: "Deployment c",
		`rollback: {apiVersion: apps/v1, kind: Deployment, name: c}`:           "Deployment c",
	} {
		r.mustFail(text, want)
	}
	r.mustFail(`delete: {apiVersion: v1, kind: ConfigMap, labels: {app: z}}`, "ConfigMap", "app=z")
	r.mustPass(`delete: {apiVersion: v1, kind: ConfigMap, labels: {app: z}, ignoreNotFound: true}`, "ConfigMap",
		"app=z")
}

func TestPatch(t *testing.T) {
	r := newFixture(t)
	r.create(configMaps, configMap)
	r.mustPass(`patch: {`+ofMap+`, type: merge, patch: {data: {a: "2"}}}`, "ConfigMap c")
	r.mustPass(`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "2", b: "2"}}}`,
		"ConfigMap c ")
	r.mustFail(`patch: {`+ofMap+`, type: merge, refused: denied, patch: {data: {a: "3"}}}`, `"denied"`)
}

func TestRelease(t *testing.T) {
	r := newFixture(t)
	r.create(deployments, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: run-x}, spec: {template: {metadata: {labels: {virtual-kubelet.koupleless.io/component: module}}, spec: {containers: [`+
		`{name: stock, image: "https://m.example/stock-1.0.0.jar", env: [{name: BIZ_VERSION, value: 1.0.0}]}]}}}, status: {replicas: 1, updatedReplicas: 1, availableReplicas: 1}}`)
	release := `release: {apiVersion: apps/v1, kind: Deployment, name: d, version: 2.0.0}`
	r.mustPass(release, "stock 2.0.0", "Deployment d")
	r.mustPass(`assert: {resource: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [`+
		`{image: "https://m.example/stock-2.0.0.jar", env: [{name: BIZ_VERSION, value: 2.0.0}]}]}}}}}`, "Deployment d ")
	r.mustFail(release, `Deployment d: module "stock" already has version 2.0.0`)
	if _, err := r.Releases(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "Deployment d") {
		t.Errorf("error %v", err)
	}
}

// TestApplyOutsideTheRun checks that an apply step rejects objects outside the scope of the run without writing them.
func TestApplyOutsideTheRun(t *testing.T) {
	r := newFixture(t)
	r.mustFail(`apply: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}}}`,
		"ConfigMap c ", "namespace default")
	r.mustFail(`apply: {resource: {apiVersion: v1, kind: Node, metadata: {name: shared}}}`, "Node shared ")
	for _, a := range r.dynamic.Actions() {
		if a.GetVerb() == "patch" {
			t.Errorf("%s of %s in %s", a.GetVerb(), a.GetResource().Resource, a.GetNamespace())
		}
	}
}

func TestBases(t *testing.T) {
	r := newFixture(t)
	two, none := 2, 0
	err := r.AddInitialBases(t.Context(),
		[]v1alpha1.BaseSet{{Name: "base", Count: &two, Version: "1.0.0"},
			{Name: "later", Count: &none, Version: "1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	r.wantCalls("add 2 base 1.0.0")
	r.mustPass(`base: {add: {name: base, count: 1, version: 1.0.0}}`, "base-3")
	r.mustPass(`base: {remove: [base-1]}`, "base-1")
	r.mustPass(`base: {restart: {bases: ["*"], newIdentity: true}}`, "base-2, base-3")
	r.mustPass(`base: {upgrade: {set: base, version: 2.0.0}}`, " 2 bases", "1.0.0", "2.0.0")
	r.wantCalls("add 1 base 1.0.0", "remove run-x-base-1", "restart run-x-base-2 true", "restart run-x-base-3 true",
		"add 1 base 2.0.0", "remove run-x-base-2", "add 1 base 2.0.0", "remove run-x-base-3")
	r.mustFail(`base: {upgrade: {set: base, version: 2.0.0}}`, "set base", "version 2.0.0")
	r.mustFail(`base: {remove: [base-1]}`, `"base-1"`, ": base-4, base-5")
	r.mustFail(`base: {remove: [later]}`, `"later"`)
	r.mustPass(`fault: {set: {target: base, bases: [base], fault: {kind: error, code: Arklet.UnknownError, count: 2}}}`,
		"error-1 (error) on base-4, base-5")
	r.mustPass(`fault: {clear: {bases: [base-5], ids: [x]}}`, " x")
	r.wantCalls("set base error-1 error on [run-x-base-4 run-x-base-5] 0", "clear  [x] of [run-x-base-5]")
}

func TestComponentsAreRepaired(t *testing.T) {
	r := newFixture(t)
	r.mustPass(`controller: {do: kill, replica: 2}`, "kill", "module-controller-2")
	r.mustPass(`broker: {do: pause}`, "pause", "broker")
	r.mustPass(`apiserver: {do: kill}`, "kill", "kube-apiserver")
	r.mustPass(`apiserver: {do: start}`, "start", "kube-apiserver")
	r.mustPass(`controllerManager: {do: pause}`, "pause", "kube-controller-manager")
	r.mustPass(`scheduler: {do: kill}`, "kill", "kube-scheduler")
	if err := errors.Join(r.Repair(t.Context()), r.Restore(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.wantCalls("kill module-controller-2 for run-x", "pause broker for run-x", "kill kube-apiserver for run-x",
		"start kube-apiserver for run-x",
		"pause kube-controller-manager for run-x", "kill kube-scheduler for run-x", "repair run-x",
		"repair run-x and its controllers")
}

// TestFaultsOnConnections checks that Repair clears the remaining faults of API and broker connections, and that
// faults that were never triggered fail the run.
func TestFaultsOnConnections(t *testing.T) {
	r := newFixture(t)
	two := 2
	if err := r.AddInitialBases(t.Context(), []v1alpha1.BaseSet{{Name: "base", Count: &two}}); err != nil {
		t.Fatal(err)
	}
	r.sandbox.calls = nil
	r.mustPass(`fault: {set: {target: api, replica: 2, fault: {id: late, kind: delay, delay: {min: 1s}}}}`,
		"late (delay) on api")
	r.mustPass(`fault: {set: {target: mqtt, bases: [base], fault: {id: held, kind: hold}}}`,
		"held (hold) on mqtt base-1, base-2")
	r.mustPass(`fault: {clear: {ids: [late]}}`, " late")
	if err := r.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wantCalls("set api late delay on [] 2", "set mqtt held hold on [run-x-base-1 run-x-base-2] 0",
		"clear  [late] of []", "clear api [] of []", "clear mqtt [] of []", "repair run-x")
	fired := func(target v1alpha1.FaultTarget, base, id string) events.Event {
		return events.Event{Fault: &events.FaultEvent{Target: target, Base: base, ID: id,
			Change: events.FaultTriggered}}
	}
	_, err := r.Faults([]events.Event{fired("mqtt", "", "late"), fired("mqtt", "base-2", "held")})
	wantError(t, err, "late (delay)", "target api", "mayNotFire: true")
	if _, err := r.Faults([]events.Event{fired("api", "", "late"), fired("mqtt", "base-2", "held")}); err != nil {
		t.Error(err)
	}
}

// TestAwait checks that await waits until the faults have ended. After a timeout, the error must list the remaining
// faults.
func TestAwait(t *testing.T) {
	r := newFixture(t)
	r.mustPass(`fault: {set: {target: mqtt, fault: {id: third, kind: note, skip: 2}}}`, "third (note) on mqtt")
	r.mustTimeOut(`fault: {await: {ids: [third]}}`, "third (triggered 0 times)")
	r.sandbox.ending = 3
	r.mustPass(`fault: {await: {ids: [third]}}`, ": third")
	if r.sandbox.ending != 0 {
		t.Errorf("await ended %d polls early", r.sandbox.ending)
	}
}

// TestFaultsThatAreNeverTriggered checks that a fault that was never triggered on any of its bases fails the run,
// unless it has mayNotFire. Faults of a state kind are never triggered, and must not fail the run.
func TestFaultsThatAreNeverTriggered(t *testing.T) {
	r := newFixture(t)
	two := 2
	err := r.AddInitialBases(t.Context(),
		[]v1alpha1.BaseSet{{Name: "base", Count: &two, Faults: []v1alpha1.Fault{{Kind: basefault.KindLatency}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.mustPass(`fault: {set: {target: base, bases: [base-1], fault: {id: mine, kind: hang}}}`, "mine (hang) on base-1")
	r.mustPass(`fault: {set: {target: base, bases: [base-1], fault: {id: perhaps, kind: deaf, mayNotFire: true}}}`,
		"perhaps (deaf) on base-1")
	r.mustPass(`fault: {set: {target: base, bases: [base-1], fault: {kind: webRefuse}}}`,
		"webRefuse-2 (webRefuse) on base-1")
	fired := func(base, id string) events.Event {
		return events.Event{Fault: &events.FaultEvent{Target: "base", Base: base, ID: id,
			Change: events.FaultTriggered}}
	}
	set := fired("base-1", "mine")
	set.Fault.Change = events.FaultSet
	_, err = r.Faults([]events.Event{fired("base-2", "latency-1"), fired("base-2", "mine"), set})
	wantError(t, err, "mine (hang)", "base-1", "mayNotFire: true")
	list, err := r.Faults([]events.Event{fired("base-2", "latency-1"), fired("base-1", "latency-1"),
		fired("base-1", "mine")})
	if err != nil {
		t.Errorf("unexpected error: %v", err)
	}
	var got []string
	for _, f := range list {
		got = append(got, fmt.Sprintf("%s %s %d %t", f.ID, f.Kind, f.Triggered, f.MayNotFire))
	}
	if d := cmp.Diff([]string{"latency-1 latency 2 false", "mine hang 1 false", "perhaps deaf 0 true"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestReleasesThatChangeNothing checks that a release that changes nothing on any base fails the run, unless it has
// mayChangeNothing. A write that does not change the Pod template must not be recorded as a release. Superseded
// releases must be ignored.
func TestReleasesThatChangeNothing(t *testing.T) {
	r := newFixture(t)
	patch := func(text, more string) string {
		return `patch: {apiVersion: apps/v1, kind: Deployment, name: d, type: merge, ` + more + `patch: ` + text + `}`
	}
	at := func(module string) events.Event {
		return events.Event{Time: time.Now(),
			Module: &events.ModuleEvent{Base: "base-1", ModuleRef: events.ModuleRef{Name: module, Version: "2"},
				State: events.ModuleResolved}}
	}
	want := func(wantTexts []string, nothing string, all ...events.Event) {
		t.Helper()
		var texts []string
		releases, err := r.Releases(t.Context(), all)
		for _, one := range releases {
			texts = append(texts, fmt.Sprintf("%s %d", one.Workload, one.Changes))
		}
		if diff := cmp.Diff(wantTexts, texts); diff != "" || (err != nil) != (nothing != "") {
			t.Errorf("releases (-want +got):\n%serror %v", diff, err)
		}
		if nothing != "" {
			wantError(t, err, nothing, ": stock;", "BIZ_VERSION", "mayChangeNothing: true")
		}
	}
	before := at("stock")
	r.create(deployments, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: run-x}, spec: {replicas: 1, template: {metadata: {labels: {virtual-kubelet.koupleless.io/component: module}}, spec: {containers: [{name: stock, image: one}]}}}, status: {replicas: 1, updatedReplicas: 1, availableReplicas: 1}}`)
	image := func(name string) string {
		return patch(`{spec: {template: {spec: {containers: [{name: stock, image: `+name+`}]}}}}`, "")
	}
	r.mustPass(image("one"), "Deployment d")
	r.mustPass(patch(`{spec: {replicas: 2}, status: {replicas: 2, updatedReplicas: 2, availableReplicas: 2}}`, ""),
		"Deployment d")
	want(nil, "")
	r.mustPass(image("two"), "Deployment d")
	want([]string{"Deployment d 0"}, "Deployment d", before, at("order"))
	first := at("stock")
	want([]string{"Deployment d 1"}, "", before, first)
	r.mustPass(patch(`{spec: {template: {metadata: {annotations: {a: b}}}}}`, "mayChangeNothing: true, "),
		"Deployment d")
	want([]string{"Deployment d 1", "Deployment d 0"}, "", before, first)
	hanging := patch(`{spec: {template: {spec: {containers: [{name: stock, image: three}]}}}, status: {updatedReplicas: 0}}`, "")
	r.mustPass(hanging, "Deployment d")
	want([]string{"Deployment d 1", "Deployment d 0"}, "", before, first) // the rollout is in progress
	r.mustPass(patch(`{spec: {template: {spec: {containers: [{name: stock, image: two}]}}}, status: {updatedReplicas: 2}}`,
		""), "Deployment d")
	// reverts the release: bases may still have the old version
	want([]string{"Deployment d 1", "Deployment d 0"}, "", before, first)
}

// TestQuiet checks that if a wait for quiet times out, the failure lists the most frequent writes since the start of
// the wait, without writes to Leases.
func TestQuiet(t *testing.T) {
	r := newFixture(t)
	r.sandbox.writes = apifault.Writes{By: map[int]map[string]int{1: {"update leases": 7, "patch pods/status": 3}},
		Last: time.Now()}
	r.mustPass(`wait: {quiet: 150ms}`, "150ms")
	r.sandbox.busy = map[string]int{"patch pods/status": 5, "create events": 1, "update leases": 9}
	r.mustTimeOut(`wait: {quiet: 150ms}`, ": patch pods/status ")
}

func TestTraffic(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := func(sent, lost int) traffic.StreamResult {
		e := traffic.StreamResult{Summary: traffic.Summary{Sent: sent, Lost: lost, Started: started,
			Results: map[traffic.Result]int{traffic.OK: sent - lost, traffic.NotFound: lost}}}
		for range lost {
			e.LostRequests = append(e.LostRequests,
				traffic.Record{Due: started.Add(1234 * time.Millisecond), Result: traffic.NotFound, Base: "base-1",
					Pod: "p", Error: "404"})
		}
		return e
	}
	short := end(10, 0)
	short.Note = "stopped by itself after 15m0s"
	tests := []struct {
		name, judge string
		end         traffic.StreamResult
		want        error
		values      []string
	}{
		{"nothing lost", "lost == 0", end(10, 0), nil, nil},
		{"lost", "lost == 0", end(10, 1), steps.ErrJudgeNotTrue,
			[]string{"stream s: lost == 0 ", ": 10 requests", "1 lost (notFound 1)"}},
		{"must lose", "notFound > 0", end(10, 1), nil, nil},
		{"nothing sent", "lost == 0", end(0, 0), steps.ErrNothingSent, []string{"stream s "}},
		{"not to the end", "lost == 0", short, steps.ErrStoppedEarly,
			[]string{"stream s stopped by itself after 15m0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newFixture(t)
			r.sandbox.end = tt.end
			r.mustPass(`traffic: {start: {name: s, service: svc, module: stock, rate: 50, judge: "`+tt.judge+`"}}`,
				"50 requests", "Service svc")
			r.mustFail(`traffic: {start: {name: s, service: svc, module: stock, rate: 50, judge: "`+tt.judge+`"}}`,
				`stream "s"`)
			r.mustFail(`traffic: {start: {name: wrong, service: scv, module: stock, rate: 50, judge: lost == 0}}`,
				"Service scv", " svc?")
			_, err := r.do(`traffic: {stop: {name: s}}`, waitTimeout)
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			wantError(t, err, tt.values...)
			r.mustFail(`traffic: {stop: {name: s}}`, `stream "s"`)
			r.mustFail(`traffic: {stop: {name: other}}`, `stream "other"`)
			if err := r.StopAll(t.Context()); err != nil {
				t.Errorf("stopping a stopped stream: %v", err)
			}
			r.wantCalls("start run-x s run-x stock for 1h0m0s", "stop s")
		})
	}
}

func TestStopAll(t *testing.T) {
	r := newFixture(t)
	r.sandbox.end = traffic.StreamResult{Summary: traffic.Summary{Sent: 3, Lost: 3}}
	r.mustPass(`traffic: {start: {name: a, via: bases, module: stock, judge: lost == 0}}`, "requests")
	r.mustPass(`traffic: {start: {name: b, via: bases, module: stock, judge: lost == 3}}`, "requests")
	wantError(t, r.StopAll(t.Context()), "stream a: lost == 0 ", ": 3 requests", "3 lost")
	streams := r.Streams()
	if len(streams) != 2 || streams[0].Failure == nil || streams[1].Failure != nil || streams[1].End == nil {
		t.Errorf("streams are %+v", streams)
	}
}

func TestScript(t *testing.T) {
	r := newFixture(t)
	r.mustPass(`script: {content: 'echo "$NAMESPACE $KUBECONFIG $X"', env: {X: z}, output: said}`,
		"run-x /kubeconfig z")
	if diff := cmp.Diff(any(map[string]any{"said": "run-x /kubeconfig z"}), r.Values()["outputs"]); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	details := r.mustFail(`script: {content: 'echo out; echo err >&2; exit 3'}`, "exit code 3")
	if diff := cmp.Diff([]steps.Detail{{Title: "Standard output", Text: "out\n"},
		{Title: "Standard error", Text: "err\n"}}, details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	r.mustPass(`script: {content: 'test -e there && echo yes || { touch there; exit 1; }', until: "exitCode == 0 && stdout.contains('yes')"}`, "yes")
}

// TestScriptUntilTimeout checks that if a script with an until condition times out, the failure describes the last
// complete attempt.
func TestScriptUntilTimeout(t *testing.T) {
	r := newFixture(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Exec(ctx, r.Env,
			action(t, `script: {content: '[ ! -e once ] || { touch twice; sleep 60; }; touch once; exit 1', until: "exitCode == 0"}`))
		ended <- err
	}()
	for deadline := time.After(waitTimeout); ; {
		if _, err := os.Stat(filepath.Join(r.Dir, "twice")); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the step ended before its timeout: %v", err)
		case <-deadline:
			t.Fatal("the script was not repeated")
		case <-time.After(time.Millisecond):
		}
	}
	cancel(errLate)
	err := <-ended
	wantError(t, err, ": exitCode == 0")
	if !errors.Is(err, errLate) {
		t.Errorf("error %v", err)
	}
}

// TestScriptEnvironment checks that a script gets its own environment variables, and those environment variables of
// the caller that contain no secrets.
func TestScriptEnvironment(t *testing.T) {
	for name, value := range map[string]string{"DB_PASSWORD": "p", "AWS_SECRET_ACCESS_KEY": "k",
		"KOUPSANDBOX_HOME": "h", "KUBECONFIG": "theirs", "LC_ALL": "C", "TZ": "UTC"} {
		t.Setenv(name, value)
	}
	r := newFixture(t)
	if _, err := r.do(`script: {content: 'env | cut -d= -f1 | sort | tr "\n" " "', env: {X: z}, output: said}`,
		time.Minute); err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(strings.Fields(r.Values()["outputs"].(map[string]any)["said"].(string)),
		func(name string) bool {
			// from the machine, or set by the shell
			return slices.Contains(
				[]string{"_", "HOME", "LANG", "LOGNAME", "OLDPWD", "SHELL", "SHLVL", "TMPDIR", "USER"}, name)
		})
	if diff := cmp.Diff([]string{"GROUP", "KUBECONFIG", "LC_ALL", "NAMESPACE", "PATH", "PWD", "TZ", "X"},
		got); diff != "" {
		t.Errorf("variables of a script (-want +got):\n%s", diff)
	}
}

func TestScriptIsKilledWithItsProcesses(t *testing.T) {
	r := newFixture(t)
	began := time.Now()
	_, err := r.do(`script: {content: 'sleep 60 & echo $! > pid; wait'}`, 2*time.Second)
	if !errors.Is(err, errLate) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the step took %s", took)
	}
	pid, err := os.ReadFile(filepath.Join(r.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(waitTimeout); ; {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") { // a zombie process has ended
			return
		}
		select { // the kernel may need time on a busy machine
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("a process of the script is still running: %s", state)
		}
	}
}

func TestExpand(t *testing.T) {
	r := newFixture(t)
	r.mustPass(`script: {content: "echo five", output: said}`, "five")
	got, err := r.Expand(map[string]any{"a": "x-${{ outputs.said }}", "b": int64(1)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"a": "x-five", "b": int64(1)}, got); diff != "" {
		t.Errorf("expanded (-want +got):\n%s", diff)
	}
}
