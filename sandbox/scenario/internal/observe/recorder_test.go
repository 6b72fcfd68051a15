package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/apitest"
)

const group = "run-x"

// newTestRecorder returns a Recorder with a fixed clock, and its table of Pods. No watch fills the table; the test
// does.
func newTestRecorder(t *testing.T) (*Recorder, *table) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{
			Pods: "PodList", Nodes: "NodeList", EndpointSlices: "EndpointSliceList",
		})
	check.Gapless(client)
	w := New(Options{Client: client, Namespace: group, Group: group, Now: func() time.Time { return at }})
	return w, w.table(Subject{Resource: Pods, Namespace: group}) // no reflector fills it, because Start is not running
}

func pod(t *testing.T, version, uid, node, ready string) *unstructured.Unstructured {
	t.Helper()
	return apitest.Object(t, `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: run-x, uid: `+uid+`, resourceVersion: "`+version+`"}
spec: {nodeName: "`+node+`", containers: [{name: stock, env: [{name: BIZ_VERSION, value: 1.0.0}]}]}
status: {phase: Running, conditions: [{type: Ready, status: "`+ready+`"}]}`)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// podEvents formats the recorded Pod events.
func podEvents(w *Recorder) []string {
	var all []string
	for _, e := range w.Events() {
		if e.Pod != nil {
			text := e.String()
			for range e.Pod.Writes {
				text += "."
			}
			all = append(all, text)
		}
	}
	return all
}

func TestPodsAreRecorded(t *testing.T) {
	w, pods := newTestRecorder(t)
	w.AddBases(control.Base{HostName: group + "-base-1", Set: "base", Index: 1, Identity: "id-1", Version: "1.0.0"})
	must(t, pods.Replace([]any{pod(t, "1", "a", "", "False")}, "5"))
	must(t, pods.Add(pod(t, "6", "a", "vnode.id-1", "False")))
	must(t, pods.Update(pod(t, "7", "a", "vnode.id-1", "True")))
	must(t, pods.Replace([]any{pod(t, "7", "a", "vnode.id-1", "True")}, "9")) // already known: no event
	// another Pod: the deletion of a was not observed
	must(t, pods.Update(pod(t, "10", "b", "vnode.id-1", "True")))
	must(t, pods.Delete(pod(t, "11", "b", "vnode.id-1", "True")))
	must(t, pods.Delete(pod(t, "11", "b", "vnode.id-1", "True")))
	want := []string{
		"pod: stock:1.0.0 Running (p).", "pod base-1: stock:1.0.0 Running (p)..",
		"pod base-1: stock:1.0.0 Ready (p)...",
		"pod base-1: stock:1.0.0 gone (p)...", "pod base-1: stock:1.0.0 Ready (p).",
		"pod base-1: stock:1.0.0 gone (p).",
	}
	if diff := cmp.Diff(want, podEvents(w)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.Read(func(v Snapshot) {
		found, ever := v.Objects(pods.subject, "p", nil)
		if len(found) != 0 || !ever {
			t.Errorf("got %d Pods, ever %t; want 0, true", len(found), ever)
		}
		if _, ever := v.Objects(pods.subject, "q", nil); ever {
			t.Error("Pod q has existed, want never")
		}
	})
}

// TestListAfterInterruptedWatch checks that the changes in the list after an interrupted watch are recorded in an
// order in which no two Pods on a base are Ready at the same time.
func TestListAfterInterruptedWatch(t *testing.T) {
	w, pods := newTestRecorder(t)
	named := func(name, version, ready string) *unstructured.Unstructured {
		p := pod(t, version, name, "", ready)
		p.SetName(name)
		return p
	}
	must(t, pods.Replace([]any{named("old", "1", "True"), named("older", "2", "True")}, "2"))
	must(t, pods.Add(named("new", "3", "False")))
	must(t, pods.Replace([]any{named("new", "5", "True"), named("newer", "4", "True"), named("old", "6", "False")},
		"7"))
	want := []string{
		"pod: stock:1.0.0 Ready (old).", "pod: stock:1.0.0 Ready (older).", "pod: stock:1.0.0 Running (new).",
		"pod: stock:1.0.0 gone (older).", "pod: stock:1.0.0 Running (old)..", "pod: stock:1.0.0 Ready (newer).",
		"pod: stock:1.0.0 Ready (new)..",
	}
	if diff := cmp.Diff(want, podEvents(w)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestBases(t *testing.T) {
	w, _ := newTestRecorder(t)
	note := func(e events.Event) { w.AddEvent(e) }
	note(events.Event{Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: events.BaseUp}})
	w.AddBases(control.Base{HostName: group + "-base-1", Set: "base", Index: 1, Identity: "id-1", Version: "1.0.0"})
	note(events.Event{Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: events.BaseConnected}})
	note(events.Event{Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: events.BaseReady}})
	note(events.Event{Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "2"}, State: "RESOLVED"}})
	note(events.Event{Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "2"}, State: "ACTIVATED"}})
	note(events.Event{Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "1"}, State: "ACTIVATED"}})
	note(events.Event{Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "1"}}})
	note(events.Event{Health: &events.HealthEvent{Base: "base-1", Health: "UP", Readiness: "OUT_OF_SERVICE",
		Metaspace: events.Metaspace{Used: 1, Committed: 2, Max: 3}}})
	up := map[string]any{"base-1": map[string]any{
		"set": "base", "index": int64(1), "identity": "id-1", "version": "1.0.0", "running": true, "connected": true,
		"ready":   true,
		"modules": []any{map[string]any{"name": "stock", "version": "2", "state": "ACTIVATED"}},
		"health":  "UP", "readiness": "OUT_OF_SERVICE",
		"metaspace": map[string]any{"used": int64(1), "committed": int64(2), "max": int64(3)},
	}}
	look := func(want any) {
		t.Helper()
		w.Read(func(v Snapshot) {
			if diff := cmp.Diff(want, v.Data([]string{"bases"})["bases"]); diff != "" {
				t.Errorf("bases (-want +got):\n%s", diff)
			}
		})
	}
	look(up)
	note(events.Event{Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: events.BaseDown}})
	down := up["base-1"].(map[string]any)
	down["running"], down["connected"], down["ready"], down["modules"] = false, false, false, []any{}
	down["health"], down["readiness"] = "", ""
	down["metaspace"] = map[string]any{"used": int64(0), "committed": int64(0), "max": int64(0)}
	look(up)
	w.RemoveBases("base-1")
	note(events.Event{Base: &events.BaseEvent{Base: "base-1", Change: events.BaseDown}}) // a late event
	look(map[string]any{})
	note(events.Event{Base: &events.BaseEvent{Base: "base-1", Change: events.BaseReady}})
	note(events.Event{Base: &events.BaseEvent{Base: "base-1", Change: events.BaseRemoved}})
	look(map[string]any{})
}

func TestLostRequestsAreCountedImmediately(t *testing.T) {
	w, _ := newTestRecorder(t)
	w.SetTraffic([]traffic.Summary{
		{Name: "s", Sent: 10, Results: map[traffic.Result]int{traffic.OK: 9, traffic.NotFound: 1}, Lost: 1}})
	lost := events.Event{Request: &events.RequestEvent{Stream: "s", Result: traffic.NotFound}}
	w.AddEvent(lost)
	w.AddEvent(lost)
	w.Read(func(v Snapshot) {
		s := v.Data([]string{"traffic"})["traffic"].(map[string]any)["s"].(map[string]any)
		if s["sent"] != int64(10) || s["lost"] != int64(2) || s["notFound"] != int64(2) || s["ok"] != int64(9) {
			t.Errorf("traffic is %v", s)
		}
	})
}

func TestWatchersGetEveryChange(t *testing.T) {
	w, pods := newTestRecorder(t)
	var heard []string
	stop := w.Watch(func(c Update) { heard = append(heard, c.Topic+": "+c.Description) })
	must(t, pods.Add(pod(t, "1", "a", "", "False")))
	w.AddEvent(events.Event{Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "2"}, State: "ACTIVATED"}})
	w.AddEvent(events.Event{Step: &events.StepEvent{Name: "one"}}) // does not change the state
	must(t, pods.Update(pod(t, "2", "a", "", "True")))
	stop()
	must(t, pods.Update(pod(t, "3", "a", "", "True")))
	want := []string{": initial state", "pods: pod: stock:1.0.0 Running (p)", "bases: module base-1: stock:2 ACTIVATED",
		"pods: pod: stock:1.0.0 Ready (p)"}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

func TestSwitchIsOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newTestRecorder(t)
		at := time.Now()
		module := func(version string, state events.ModuleState, message string, after time.Duration) {
			w.AddEvent(events.Event{Time: at.Add(after),
				Module: &events.ModuleEvent{Base: "base-1",
					ModuleRef: events.ModuleRef{Name: "stock", Version: version}, State: state, Message: message}})
		}
		w.AddEvent(events.Event{Time: at, Base: &events.BaseEvent{Base: "base-1", Change: events.BaseReady}})
		module("1", "ACTIVATED", "", 0)
		module("2", "RESOLVED", "", 0)
		var seen []string
		stop := w.Watch(func(c Update) {
			b := c.State().Bases.Get("base-1")
			var states []string
			for _, version := range []string{"1", "2"} {
				state := ""
				if m := b.Module(events.ModuleRef{Name: "stock", Version: version}); m != nil {
					state = string(m.State)
				}
				states = append(states, state)
			}
			seen = append(seen, strings.Join(states, " "))
		})
		module("1", "DEACTIVATED", "switch to new biz stock:2", time.Second)
		module("2", "ACTIVATED", "switch from old biz: stock:1", time.Second)
		module("2", "DEACTIVATED", "", 2*time.Second) // the start of an uninstall
		module("2", "STOPPED", "", 3*time.Second)
		module("1", "ACTIVATED", "", 4*time.Second)
		module("1", "DEACTIVATED", "switch to new version stock:3", 5*time.Second) // without a second event
		<-time.After(2 * switchTimeout)
		stop()
		want := []string{"ACTIVATED RESOLVED", "DEACTIVATED ACTIVATED", "DEACTIVATED DEACTIVATED", "DEACTIVATED ",
			"ACTIVATED ", "DEACTIVATED "}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("states at changes (-want +got):\n%s", diff)
		}
		if n := len(w.Events()); n != 9 {
			t.Errorf("%d events, want 9", n)
		}
	})
}

func TestWaitUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pods := newTestRecorder(t)
		there := func(v Snapshot) (bool, error) {
			found, _ := v.Objects(pods.subject, "p", nil)
			return len(found) > 0, nil
		}
		errLate := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errLate)
		defer cancel()
		if err := w.WaitUntil(ctx, there); !errors.Is(err, errLate) {
			t.Errorf("without a Pod: %v, want the cause of the context", err)
		}
		done := make(chan error, 1)
		go func() { done <- w.WaitUntil(t.Context(), there) }()
		synctest.Wait()
		must(t, pods.Add(pod(t, "1", "a", "", "False")))
		must(t, <-done)
	})
}

func TestWaitForVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pods := newTestRecorder(t)
		must(t, pods.Replace([]any{pod(t, "3", "a", "", "False")}, "4"))
		must(t, w.WaitForVersion(t.Context(), pods.subject, pod(t, "3", "a", "", "False")))
		done := make(chan error, 1)
		go func() { done <- w.WaitForVersion(t.Context(), pods.subject, pod(t, "7", "a", "", "True")) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("WaitForVersion returned before the event: %v", err)
		default:
		}
		must(t, pods.Update(pod(t, "8", "a", "", "True"))) // a later version
		must(t, <-done)
		must(t, w.WaitForVersion(t.Context(), Subject{Resource: Nodes}, pod(t, "99", "a", "", "True"))) // not watched
	})
}

// catchingUp starts CatchUp in a goroutine. It fails the test if CatchUp returns before the event of the object
// missing has arrived. The returned channel receives the result of CatchUp.
func catchingUp(t *testing.T, w *Recorder, pods *table, missing string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- w.CatchUp(t.Context(), pods.subject) }()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("CatchUp returned before the event of %s: %v", missing, err)
	default:
	}
	return done
}

func TestCatchUpWaitsForListedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pods := newTestRecorder(t)
		must(t, pods.Replace([]any{pod(t, "3", "a", "", "False")}, "4"))
		// The API already has another Pod with this name.
		must(t, w.o.Client.(*fake.FakeDynamicClient).Tracker().Create(Pods, pod(t, "7", "b", "vnode.id-1", "True"),
			group))
		done := catchingUp(t, w, pods, "the Pod")
		must(t, pods.Update(pod(t, "7", "b", "vnode.id-1", "True")))
		must(t, <-done)
		must(t, w.CatchUp(t.Context(), pods.subject)) // no changes
	})
}

// TestCatchUpReadsAllPages checks that CatchUp lists 10,000 Pods in pages, and that each list request has its own
// timeout.
func TestCatchUpReadsAllPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pods := newTestRecorder(t)
		first, second := pod(t, "3", "a", "", "False"), pod(t, "4", "b", "", "False")
		must(t, pods.Replace([]any{first}, "3"))
		w.o.Client.(*fake.FakeDynamicClient).PrependReactor("list", "pods",
			func(a k8stesting.Action) (bool, runtime.Object, error) {
				list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*second}}
				list.SetResourceVersion("4")
				if o := a.(k8stesting.ListActionImpl).ListOptions; o.Continue == "" {
					if o.Limit == 0 {
						t.Error("the list has no limit")
					}
					list.Items[0] = *first
					list.SetContinue("more")
				}
				return true, list, nil
			})
		done := catchingUp(t, w, pods, "the Pod of the second page")
		must(t, pods.Add(second))
		must(t, <-done)
	})
}

func TestCatchUpWaitsForDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pods := newTestRecorder(t)
		must(t, pods.Replace([]any{pod(t, "3", "a", "", "True")}, "4"))
		w.o.Client.(*fake.FakeDynamicClient).PrependReactor("list", "pods",
			func(k8stesting.Action) (bool, runtime.Object, error) {
				list := &unstructured.UnstructuredList{}
				list.SetResourceVersion("9")
				return true, list, nil
			})
		done := catchingUp(t, w, pods, "the end of the Pod")
		must(t, pods.Delete(pod(t, "8", "a", "", "True")))
		must(t, <-done)
		must(t, pods.Add(pod(t, "10", "b", "", "True"))) // created after the list
		must(t, w.CatchUp(t.Context(), pods.subject))
	})
}

func TestFollow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w, _ := newTestRecorder(t)
	nodes := NodesOf(group)
	node := apitest.Object(t, `{apiVersion: v1, kind: Node, metadata: {name: vnode.id-1, labels: {base.koupleless.io/cluster-name: run-x, base.koupleless.io/host-name: run-x-base-1}}, status: {conditions: [{type: Ready, status: "True"}]}}`)
	must(t, w.o.Client.(*fake.FakeDynamicClient).Tracker().Create(Nodes, node, ""))
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	must(t, w.Follow(ctx, nodes))
	slice := apitest.Object(t,
		`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s-1, namespace: run-x, labels: {kubernetes.io/service-name: s}}, endpoints: [{addresses: [198.18.0.1], nodeName: vnode.id-1, targetRef: {name: p}, conditions: {ready: false, serving: true, terminating: true}}]}`)
	must(t, w.Follow(ctx, Subject{Resource: EndpointSlices, Namespace: group}))
	must(t, w.o.Client.(*fake.FakeDynamicClient).Tracker().Create(EndpointSlices, slice, group))
	must(t, w.WaitUntil(ctx, func(v Snapshot) (bool, error) {
		found, _ := v.Objects(Subject{Resource: EndpointSlices, Namespace: group}, "s-1", nil)
		return len(found) == 1, nil
	}))
	want := []events.Event{
		{Time: w.o.Now(), Node: &events.NodeEvent{Name: "vnode.id-1", Base: "base-1", State: "Ready"}},
		{Time: w.o.Now(), Endpoints: &events.EndpointsEvent{Service: "s", Endpoints: []events.Endpoint{
			{IP: "198.18.0.1", Pod: "p", Base: "base-1", Serving: true, Terminating: true}}}},
	}
	if diff := cmp.Diff(want, w.Events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	cancel()
	must(t, <-done)
}
