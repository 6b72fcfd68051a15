package watch_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/watch"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

var start = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// source is a fake daemon. It reports the field events, and then every event that it receives from more.
type source struct {
	events  []events.Event
	more    chan events.Event // closing it simulates that the daemon stops
	request control.WatchRequest
}

func (s *source) Watch(ctx context.Context, r control.WatchRequest, sink func(events.Event)) error {
	s.request = r
	for _, e := range s.events {
		sink(e)
	}
	for {
		select {
		case e, ok := <-s.more:
			if !ok {
				return nil
			}
			sink(e)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func modulePod(version string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "run-1", Name: "stock-a", UID: "u", ResourceVersion: version,
			Labels: map[string]string{"virtual-kubelet.koupleless.io/component": "module",
				"module-controller.koupleless.io/component": "module"}},
		Spec: corev1.PodSpec{NodeName: "vnode.id-1",
			Containers: []corev1.Container{{Name: "stock", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "2"}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: ready, Reason: "Installing"}}},
	}
}

// TestFollowReportsPodsAfterBases checks that Follow reports Pods after the existing bases, and that it reports a Pod
// with both labels only once.
func TestFollowReportsPodsAfterBases(t *testing.T) {
	s := &source{more: make(chan events.Event), events: []events.Event{
		{Time: at(0), Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "up"}},
		{Time: at(1), Synced: true},
	}}
	api := fake.NewClientset(modulePod("1", corev1.ConditionFalse),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "run-1", Name: "no-module"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "stock-b", UID: "v",
			Labels: map[string]string{"virtual-kubelet.koupleless.io/component": "module"}}})
	watching := make(chan struct{}, 8)
	api.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, apiwatch.Interface, error) {
		all, err := api.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		selector := action.(clienttesting.WatchAction).GetWatchRestrictions().Labels // the fake client ignores them
		watching <- struct{}{}
		return true, apiwatch.Filter(all, func(e apiwatch.Event) (apiwatch.Event, bool) {
			return e, selector.Matches(labels.Set(e.Object.(*corev1.Pod).Labels))
		}), nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changed := make(chan error, 1)
	go func() {
		for range 2 { // one for each label; the fake client loses changes before the watch
			<-watching
		}
		_, err := api.CoreV1().Pods("run-1").Update(ctx, modulePod("2", corev1.ConditionTrue), metav1.UpdateOptions{})
		changed <- err
	}()
	var got []events.Event
	errStop := errors.New("stop")
	err := watch.Follow(ctx, watch.Options{Source: s, API: api, Group: "run-1",
		Clock: clocktesting.NewFakePassiveClock(at(9))}, func(e events.Event) error {
		got = append(got, e)
		switch {
		case e.Pod == nil:
			return nil
		case e.Pod.Gone:
			return errStop
		case e.Pod.Ready:
			return api.CoreV1().Pods("run-1").Delete(ctx, "stock-a", metav1.DeleteOptions{})
		}
		return nil
	})
	if !errors.Is(err, errStop) {
		t.Errorf("Follow returned %v", err)
	}
	if err := <-changed; err != nil {
		t.Error(err)
	}
	pod := func(writes int, change func(*events.PodState)) events.Event {
		p := &events.PodState{Name: "stock-a", UID: "u", Node: "vnode.id-1", Phase: "Running",
			Modules: []events.ModuleRef{{Name: "stock", Version: "2"}},
			Labels:  modulePod("", "").Labels, Writes: writes}
		change(p)
		return events.Event{Time: at(9), Pod: &events.PodEvent{Base: "base-1", PodState: *p}}
	}
	want := append(s.events, pod(1, func(p *events.PodState) { p.Reason = "Installing" }),
		pod(2, func(p *events.PodState) { p.Ready = true }),
		pod(2, func(p *events.PodState) { p.Ready, p.Gone = true, true }))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(control.WatchRequest{Group: "run-1"}, s.request); diff != "" {
		t.Errorf("request to the daemon (-want +got):\n%s", diff)
	}
}

func TestFollowReturnsWhenSandboxOrContextEnds(t *testing.T) {
	stopped := &source{more: make(chan events.Event)}
	close(stopped.more)
	if err := watch.Follow(t.Context(), watch.Options{Source: stopped},
		func(events.Event) error { return nil }); !errors.Is(err, watch.ErrEnded) {
		t.Errorf("after the sandbox stopped, Follow returned %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := watch.Follow(ctx, watch.Options{Source: &source{}},
		func(events.Event) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended, Follow returned %v", err)
	}
}

var rolloutEvents = []events.Event{
	{Time: at(0), Component: &events.ComponentEvent{Name: "broker", State: "running"}},
	{Time: at(1), Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "up"}},
	{Time: at(1), Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "ready"}},
	{Time: at(1), Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "connected"}},
	{Time: at(2), Base: &events.BaseEvent{Base: "base-2", Identity: "id-2", Change: "up"}},
	{Time: at(2), Module: &events.ModuleEvent{Base: "base-1", ModuleRef: events.ModuleRef{Name: "stock", Version: "1"},
		State: "ACTIVATED"}},
	{Time: at(2), Pod: &events.PodEvent{Base: "base-1",
		PodState: events.PodState{Name: "stock-a", UID: "a", Node: "vnode.id-1", Phase: "Running", Ready: true,
			Modules: []events.ModuleRef{{Name: "stock", Version: "1"}}}}},
	{Time: at(3), Synced: true},
	{Time: at(1000), Fault: &events.FaultEvent{Base: "base-2", ID: "fault-1", Change: "set", Message: "silent"}},
	{Time: at(2000), Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "2"}, State: "RESOLVED"}},
	{Time: at(2000), Pod: &events.PodEvent{Base: "base-1",
		PodState: events.PodState{Name: "stock-b", UID: "b", Node: "vnode.id-1", Phase: "Running", Reason: "Installing",
			Modules: []events.ModuleRef{{Name: "stock", Version: "2"}}}}},
	{Time: at(3000), Command: &events.CommandEvent{Base: "base-1", Name: "installBiz",
		Module: events.ModuleRef{Name: "stock", Version: "2"}, Elapsed: time.Second}},
	{Time: at(3000), Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "2"}, From: "RESOLVED", State: "ACTIVATED"}},
	{Time: at(3000), Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "1"}, From: "ACTIVATED", State: "DEACTIVATED"}},
	{Time: at(3500), Request: &events.RequestEvent{Stream: "traffic", Base: "base-1", Result: "notFound",
		Route: "kube-proxy", Message: "404\x1b[2J"}},
	{Time: at(3600), Command: &events.CommandEvent{Base: "base-1", Name: "health"}},
	{Time: at(4000), Command: &events.CommandEvent{Base: "base-1", Name: "uninstallBiz",
		Module: events.ModuleRef{Name: "stock", Version: "1"}, Code: "User.Hang", Message: "stop handler"}},
	{Time: at(4100), Module: &events.ModuleEvent{Base: "base-1",
		ModuleRef: events.ModuleRef{Name: "stock", Version: "1"}, From: "DEACTIVATED"}},
	{Time: at(4200), Pod: &events.PodEvent{Base: "base-1",
		PodState: events.PodState{Name: "stock-a", UID: "a", Phase: "Running", Deleting: true, Gone: true,
			Modules: []events.ModuleRef{{Name: "stock", Version: "1"}}}}},
	{Time: at(5000), Component: &events.ComponentEvent{Name: "broker", State: "exited", Message: "signal: killed"}},
	{Time: at(5100), Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "disconnected"}},
	{Time: at(5200), Base: &events.BaseEvent{Base: "base-2", Identity: "id-2", Change: "down"}},
}

func TestPlain(t *testing.T) {
	var out bytes.Buffer
	for _, e := range rolloutEvents[5:] {
		if err := watch.Plain(&out)(e); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.TrimPrefix(`
09:30:00.002  module     base-1                          stock:1 ACTIVATED
09:30:00.002  pod        base-1                          stock:1 Ready (stock-a)
09:30:00.003  synced                                     the current state is complete; changes follow
09:30:01.000  fault      base-2                          fault-1 set: silent
09:30:02.000  module     base-1                          stock:2 RESOLVED
09:30:02.000  pod        base-1                          stock:2 Running, Installing (stock-b)
09:30:03.000  command    base-1                          installBiz stock:2 ok after 1s
09:30:03.000  module     base-1                          stock:2 RESOLVED → ACTIVATED
09:30:03.000  module     base-1                          stock:1 ACTIVATED → DEACTIVATED
09:30:03.500  request    traffic                         lost: notFound base-1 through kube-proxy: 404\x1b[2J
09:30:04.000  command    base-1                          uninstallBiz stock:1 User.Hang after 0s: stop handler
09:30:04.100  module     base-1                          stock:1 DEACTIVATED → gone
09:30:04.200  pod        base-1                          stock:1 gone (stock-a)
09:30:05.000  component  broker                          exited: signal: killed
09:30:05.100  base       base-1                          disconnected
09:30:05.200  base       base-2                          down
`, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
