package moduleview

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// fakePods is an in-memory cache of the module Pods of a cluster.
type fakePods struct {
	mu      sync.Mutex
	pods    map[types.NamespacedName]*corev1.Pod
	changed func(*corev1.Pod)
}

func (f *fakePods) Observe(changed func(*corev1.Pod)) error { f.changed = changed; return nil }
func (f *fakePods) HasSynced() bool                         { return true }

func (f *fakePods) Get(name types.NamespacedName) (*corev1.Pod, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod, ok := f.pods[name]
	return pod, ok
}

func (f *fakePods) PodsOnNode(nodeName string) (on []*corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pod := range f.pods {
		if pod.Spec.NodeName == nodeName {
			on = append(on, pod)
		}
	}
	return on
}

func (f *fakePods) set(pod *corev1.Pod) {
	f.mu.Lock()
	f.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
	f.mu.Unlock()
	f.changed(pod)
}

// fixture is a Syncer with a fake API server, running in a synctest bubble.
type fixture struct {
	t      *testing.T
	client *fake.FakeDynamicClient
	pods   *fakePods
	syncer *Syncer
	log    bytes.Buffer
}

func runTest(t *testing.T, change func(*Options, *fake.FakeDynamicClient), test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, pods: &fakePods{pods: map[types.NamespacedName]*corev1.Pod{}}}
		w.client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{Resource: "ModuleList"})
		separateStatus(w.client)
		nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		if err := nodes.Add(node()); err != nil {
			t.Fatal(err)
		}
		o := Options{
			Client: w.client, Pods: w.pods, Nodes: corelisters.NewNodeLister(nodes),
			Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
			Owns:   func(string) bool { return true }, Records: func(string, string, string) []Record { return nil },
		}
		if change != nil {
			change(&o, w.client)
		}
		w.syncer = New(o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.syncer.Start(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
}

// separateStatus makes the fake API server treat the status as a real one does: create requests remove it, and update
// requests do not change it.
func separateStatus(client *fake.FakeDynamicClient) {
	tracker := client.Tracker()
	client.PrependReactor("create", "modules", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
		delete(object.Object, "status")
		return true, object, tracker.Create(Resource, object, object.GetNamespace())
	})
	client.PrependReactor("update", "modules", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() == "status" {
			return false, nil, nil
		}
		object := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
		before, err := tracker.Get(Resource, object.GetNamespace(), object.GetName())
		if err != nil {
			return true, nil, err
		}
		object.Object["status"] = before.(*unstructured.Unstructured).Object["status"]
		return true, object, tracker.Update(Resource, object, object.GetNamespace())
	})
}

func (w *fixture) advance() {
	<-time.After(2 * time.Second)
	synctest.Wait()
}

// wantWrites compares the writes since the previous call with the expected ones.
func (w *fixture) wantWrites(when string, want ...string) {
	w.t.Helper()
	var got []string
	for _, action := range w.client.Actions() {
		switch action := action.(type) {
		case clienttesting.CreateActionImpl:
			got = append(got, "create "+action.Object.(metav1.Object).GetName())
		case clienttesting.UpdateActionImpl:
			got = append(got, strings.TrimSuffix(
				"update "+action.Object.(metav1.Object).GetName()+" "+action.Subresource, " "))
		case clienttesting.ListActionImpl, clienttesting.WatchActionImpl:
		default:
			got = append(got, fmt.Sprintf("%T", action))
		}
	}
	w.client.ClearActions()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("writes %s (-want +got):\n%s", when, diff)
	}
}

func (w *fixture) module(name string) *Module {
	w.t.Helper()
	u, err := w.client.Tracker().Get(Resource, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := toModule(u)
	if err != nil {
		w.t.Fatal(err)
	}
	return m.(*Module)
}

var ready = corev1.ContainerStatus{Name: "biz1", Ready: true,
	State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}

// TestReadyModuleIsWrittenImmediately checks that the Module objects of a rollout are up to date when the rollout is
// complete.
func TestReadyModuleIsWrittenImmediately(t *testing.T) {
	runTest(t, nil, func(w *fixture) {
		w.advance() // the caches are synced
		w.pods.set(modulePod(waitingStatus("BizResolved", "")))
		synctest.Wait()
		w.wantWrites("immediately, during the install")
		w.pods.set(modulePod(ready))
		synctest.Wait()
		w.wantWrites("immediately, when the module is Ready", "create p.biz1", "update p.biz1 status")
		if got := w.module("p.biz1").Status.Status; got != Available {
			t.Errorf("state %s, want %s", got, Available)
		}
		w.advance()
		w.wantWrites("later")
		for range 20 {
			w.pods.set(modulePod(ready))
		}
		synctest.Wait()
		w.wantWrites("without a change")
	})
}

func TestModuleFollowsPod(t *testing.T) {
	var records []Record
	withRecords := func(o *Options, _ *fake.FakeDynamicClient) {
		o.Records = func(nodeName, module, version string) []Record {
			if nodeName+" "+module+" "+version != "vnode.1 biz1 1.0.0" {
				return nil
			}
			return records
		}
	}
	runTest(t, withRecords, func(w *fixture) {
		w.pods.set(modulePod())
		w.advance()
		w.wantWrites("for a new Pod", "create p.biz1", "update p.biz1 status")

		for range 20 {
			w.pods.set(modulePod(waitingStatus("BizResolved", "")))
		}
		w.advance()
		w.wantWrites("during the install", "update p.biz1", "update p.biz1 status")

		records = []Record{{State: "ACTIVATED", Reason: "STARTED",
			ChangeTime: &metav1.Time{Time: time.Now().Add(123 * time.Millisecond)}}}
		w.pods.set(modulePod(ready))
		w.advance()
		w.wantWrites("when the module is Ready", "update p.biz1 status")
		pod := modulePod(ready)
		want := desiredModule(pod, pod.Spec.Containers[0], node())
		want.Status.Records = toTheSecond(records)
		if diff := cmp.Diff(want, w.module("p.biz1")); diff != "" {
			t.Errorf("Module (-want +got):\n%s", diff)
		}

		heartbeat := modulePod(ready)
		heartbeat.Annotations = map[string]string{"n": "1"}
		w.pods.set(heartbeat)
		w.syncer.Resync("vnode.1")
		w.advance()
		w.wantWrites("when no shown field has changed")
	})
}

func TestForeignChangesAreReverted(t *testing.T) {
	runTest(t, nil, func(w *fixture) {
		w.pods.set(modulePod(ready))
		w.advance()
		w.wantWrites("for a new Pod", "create p.biz1", "update p.biz1 status")
		modules := w.client.Resource(Resource).Namespace("default")

		u, err := modules.Get(t.Context(), "p.biz1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		u.SetLabels(map[string]string{"foreign": "yes", labels.ModuleName: "other"})
		if _, err := modules.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.client.ClearActions()
		w.advance()
		w.wantWrites("after a change by another client", "update p.biz1")
		got := w.module("p.biz1").Labels
		if got["foreign"] != "yes" || got[labels.ModuleName] != "biz1" {
			t.Errorf("labels are %v", got)
		}

		if err := modules.Delete(t.Context(), "p.biz1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.client.ClearActions()
		w.advance()
		w.wantWrites("after a deletion by another client", "create p.biz1", "update p.biz1 status")

		again := modulePod(ready) // a StatefulSet recreates a Pod with the same name
		again.UID = "u2"
		w.pods.set(again)
		w.advance()
		w.wantWrites("for a recreated Pod with the same name", "update p.biz1")
		if got := w.module("p.biz1").OwnerReferences[0].UID; got != "u2" {
			t.Errorf("owner is %q", got)
		}
	})
}

func TestOnlyOwnedNodesAreWritten(t *testing.T) {
	var mu sync.Mutex
	owned := map[string]bool{"vnode.1": true}
	only := func(o *Options, _ *fake.FakeDynamicClient) {
		o.Owns = func(nodeName string) bool {
			mu.Lock()
			defer mu.Unlock()
			return owned[nodeName]
		}
	}
	runTest(t, only, func(w *fixture) {
		w.pods.set(modulePod(ready))
		elsewhere := modulePod(ready)
		elsewhere.Name, elsewhere.Spec.NodeName = "q", "vnode.2"
		w.pods.set(elsewhere)
		w.advance()
		w.wantWrites("before the takeover", "create p.biz1", "update p.biz1 status")

		mu.Lock()
		owned["vnode.2"] = true
		mu.Unlock()
		w.syncer.Resync("vnode.2")
		w.advance()
		w.wantWrites("after the takeover of a Node", "create q.biz1", "update q.biz1 status")
	})
}

func TestFailedWritesAreRetried(t *testing.T) {
	var failures int
	flaky := func(_ *Options, client *fake.FakeDynamicClient) {
		client.PrependReactor("create", "modules", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures++ // there is only one worker
			return failures < 3, nil, apierrors.NewServiceUnavailable("down")
		})
	}
	runTest(t, flaky, func(w *fixture) {
		w.pods.set(modulePod(ready))
		<-time.After(10 * time.Second)
		synctest.Wait()
		w.wantWrites("with retries", "create p.biz1", "create p.biz1", "create p.biz1", "update p.biz1 status")
	})
}

func TestMissingDefinitionIsLoggedOnce(t *testing.T) {
	absent := func(_ *Options, client *fake.FakeDynamicClient) {
		client.PrependReactor("list", "modules", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(Resource.GroupResource(), "")
		})
	}
	runTest(t, absent, func(w *fixture) {
		<-time.After(time.Minute)
		synctest.Wait()
		if got := strings.Count(w.log.String(), "apply controller/deploy/crd.yaml"); got != 1 {
			t.Errorf("%d warnings, want 1:\n%s", got, w.log.String())
		}
	})
}

// TestDefinitionMatchesModule checks that the schema in the CustomResourceDefinition has the same fields as the type
// Module.
func TestDefinitionMatchesModule(t *testing.T) {
	objects, err := deploy.Objects()
	if err != nil {
		t.Fatal(err)
	}
	version := objects[0].Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	root := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)

	var full Module
	text := []byte(`{"spec":{"module":{"name":"n","version":"v","url":"u"}},"status":{"status":"s","reason":"r","message":"m","code":"c",
		"podName":"p","nodeName":"n","baseIP":"i","baseName":"b","records":[{"state":"s","reason":"r","message":"m","changeTime":"2026-01-01T00:00:00Z"}]}}`)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&full); err != nil {
		t.Fatal(err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&full)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"spec", "status"} {
		got := paths(part, fields[part])
		want := schemaPaths(part, root["properties"].(map[string]any)[part].(map[string]any))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %s (-definition +type):\n%s", part, diff)
		}
	}
	if got := version["name"]; got != Resource.Version {
		t.Errorf("the definition has version %v, want %s", got, Resource.Version)
	}
}

func paths(at string, value any) (out []string) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			out = append(out, paths(at+"."+key, value[key])...)
		}
	case []any:
		return paths(at+"[]", value[0])
	default:
		return []string{at}
	}
	return out
}

func schemaPaths(at string, schema map[string]any) (out []string) {
	switch schema["type"] {
	case "object":
		properties := schema["properties"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			out = append(out, schemaPaths(at+"."+key, properties[key].(map[string]any))...)
		}
		return out
	case "array":
		return schemaPaths(at+"[]", schema["items"].(map[string]any))
	}
	return []string{at}
}
