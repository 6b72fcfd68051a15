package watch_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

var start = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// source is a daemon that tells its events, then waits for more or ends.
type source struct {
	events []timeline.Event
	more   chan timeline.Event // closed = the daemon ends
	asked  control.WatchRequest
}

func (s *source) Watch(ctx context.Context, r control.WatchRequest, sink func(timeline.Event)) error {
	s.asked = r
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
			Labels: map[string]string{"virtual-kubelet.koupleless.io/component": "module", "module-controller.koupleless.io/component": "module"}},
		Spec: corev1.PodSpec{NodeName: "vnode.id-1", Containers: []corev1.Container{{Name: "stock", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "2"}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: ready, Reason: "Installing"}}},
	}
}

// Pods come after the bases that they run on are known, and once although they
// bear both labels.
func TestFollowJoinsPodsWithTheirBases(t *testing.T) {
	s := &source{more: make(chan timeline.Event), events: []timeline.Event{
		{Kind: timeline.Base, Time: at(0), Base: "base-1", Identity: "id-1", State: "up"},
		{Kind: timeline.Synced, Time: at(1)},
	}}
	api := fake.NewClientset(modulePod("1", corev1.ConditionFalse),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "run-1", Name: "no-module"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "stock-b", UID: "v", Labels: map[string]string{"virtual-kubelet.koupleless.io/component": "module"}}})
	watching := make(chan struct{}, 8)
	api.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, apiwatch.Interface, error) {
		all, err := api.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		selector := action.(clienttesting.WatchAction).GetWatchRestrictions().Labels // which the stand-in does not heed
		watching <- struct{}{}
		return true, apiwatch.Filter(all, func(e apiwatch.Event) (apiwatch.Event, bool) {
			return e, selector.Matches(labels.Set(e.Object.(*corev1.Pod).Labels))
		}), nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	changed := make(chan error, 1)
	go func() {
		for range 2 { // one for each label: what changes before, the stand-in would lose
			<-watching
		}
		_, err := api.CoreV1().Pods("run-1").Update(ctx, modulePod("2", corev1.ConditionTrue), metav1.UpdateOptions{})
		changed <- err
	}()
	var got []timeline.Event
	end := errors.New("enough")
	err := watch.Follow(ctx, watch.Options{Source: s, API: api, Group: "run-1", Clock: clocktesting.NewFakePassiveClock(at(9))}, func(e timeline.Event) error {
		got = append(got, e)
		switch {
		case e.Pod == nil:
			return nil
		case e.Pod.Gone:
			return end
		case e.Pod.Ready:
			return api.CoreV1().Pods("run-1").Delete(ctx, "stock-a", metav1.DeleteOptions{})
		}
		return nil
	})
	if !errors.Is(err, end) {
		t.Errorf("Follow returned %v", err)
	}
	if err := <-changed; err != nil {
		t.Error(err)
	}
	pod := func(writes int, change func(*timeline.PodState)) timeline.Event {
		p := &timeline.PodState{Name: "stock-a", UID: "u", Node: "vnode.id-1", Phase: "Running", Modules: []timeline.ModuleRef{{Name: "stock", Version: "2"}},
			Labels: modulePod("", "").Labels, Writes: writes}
		change(p)
		return timeline.Event{Kind: timeline.Pod, Time: at(9), Base: "base-1", Pod: p}
	}
	want := append(s.events, pod(1, func(p *timeline.PodState) { p.Reason = "Installing" }),
		pod(2, func(p *timeline.PodState) { p.Ready = true }), pod(2, func(p *timeline.PodState) { p.Ready, p.Gone = true, true }))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(control.WatchRequest{Group: "run-1"}, s.asked); diff != "" {
		t.Errorf("asked the daemon (-want +got):\n%s", diff)
	}
}

func TestFollowEnds(t *testing.T) {
	gone := &source{more: make(chan timeline.Event)}
	close(gone.more)
	if err := watch.Follow(t.Context(), watch.Options{Source: gone}, func(timeline.Event) error { return nil }); !errors.Is(err, watch.ErrEnded) {
		t.Errorf("when the sandbox ends, Follow returns %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := watch.Follow(ctx, watch.Options{Source: &source{}}, func(timeline.Event) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("when its context ends, Follow returns %v", err)
	}
}

var events = []timeline.Event{
	{Kind: timeline.Component, Time: at(0), Name: "broker", State: "running"},
	{Kind: timeline.Base, Time: at(1), Base: "base-1", Identity: "id-1", State: "up"},
	{Kind: timeline.Base, Time: at(1), Base: "base-1", Identity: "id-1", State: "ready"},
	{Kind: timeline.Base, Time: at(1), Base: "base-1", Identity: "id-1", State: "connected"},
	{Kind: timeline.Base, Time: at(2), Base: "base-2", Identity: "id-2", State: "up"},
	{Kind: timeline.Module, Time: at(2), Base: "base-1", Module: "stock", Version: "1", State: "ACTIVATED"},
	{Kind: timeline.Pod, Time: at(2), Base: "base-1", Pod: &timeline.PodState{Name: "stock-a", UID: "a", Node: "vnode.id-1", Phase: "Running", Ready: true, Modules: []timeline.ModuleRef{{Name: "stock", Version: "1"}}}},
	{Kind: timeline.Synced, Time: at(3)},
	{Kind: timeline.Fault, Time: at(1000), Base: "base-2", Name: "fault-1", State: "set", Message: "silent"},
	{Kind: timeline.Module, Time: at(2000), Base: "base-1", Module: "stock", Version: "2", State: "RESOLVED"},
	{Kind: timeline.Pod, Time: at(2000), Base: "base-1", Pod: &timeline.PodState{Name: "stock-b", UID: "b", Node: "vnode.id-1", Phase: "Running", Reason: "Installing", Modules: []timeline.ModuleRef{{Name: "stock", Version: "2"}}}},
	{Kind: timeline.Command, Time: at(3000), Base: "base-1", Name: "installBiz", Module: "stock", Version: "2", Elapsed: time.Second},
	{Kind: timeline.Module, Time: at(3000), Base: "base-1", Module: "stock", Version: "2", State: "ACTIVATED", From: "RESOLVED"},
	{Kind: timeline.Module, Time: at(3000), Base: "base-1", Module: "stock", Version: "1", State: "DEACTIVATED", From: "ACTIVATED"},
	{Kind: timeline.Request, Time: at(3500), Base: "base-1", Name: "traffic", State: "notFound", Route: "kube-proxy", Message: "404\x1b[2J"},
	{Kind: timeline.Command, Time: at(3600), Base: "base-1", Name: "health"},
	{Kind: timeline.Command, Time: at(4000), Base: "base-1", Name: "uninstallBiz", Module: "stock", Version: "1", Code: "User.Hang", Message: "stop handler"},
	{Kind: timeline.Module, Time: at(4100), Base: "base-1", Module: "stock", Version: "1", From: "DEACTIVATED"},
	{Kind: timeline.Pod, Time: at(4200), Base: "base-1", Pod: &timeline.PodState{Name: "stock-a", UID: "a", Phase: "Running", Deleting: true, Gone: true, Modules: []timeline.ModuleRef{{Name: "stock", Version: "1"}}}},
	{Kind: timeline.Component, Time: at(5000), Name: "broker", State: "exited", Message: "signal: killed"},
	{Kind: timeline.Base, Time: at(5100), Base: "base-1", Identity: "id-1", State: "disconnected"},
	{Kind: timeline.Base, Time: at(5200), Base: "base-2", Identity: "id-2", State: "down"},
}

func TestPlain(t *testing.T) {
	var out bytes.Buffer
	for _, e := range events[5:] {
		if err := watch.Plain(&out)(e); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.TrimPrefix(`
09:30:00.002  module     base-1                          stock:1 ACTIVATED
09:30:00.002  pod        base-1                          stock:1 Ready (stock-a)
09:30:00.003  synced                                     that is what there is; now what changes
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

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	sink := watch.JSON(&out)
	for _, e := range events {
		if err := sink(e); err != nil {
			t.Fatal(err)
		}
	}
	var got []timeline.Event
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var e timeline.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
