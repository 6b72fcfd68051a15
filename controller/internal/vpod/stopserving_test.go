package vpod

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// stopServingAndCheck stops serving the base, as after a takeover by another controller, and calls wantNoActivity.
func stopServingAndCheck(t *testing.T, w *fixture) {
	t.Helper()
	w.StopServing("a", "vnode.a")
	wantNoActivity(t, w)
}

// wantNoActivity checks that no worker and no module slot remains, and that the controller sends no command and no
// write for an hour.
func wantNoActivity(t *testing.T, w *fixture) {
	t.Helper()
	synctest.Wait() // without advancing the time
	if o, p := w.operators.Pending(), w.publishers.Pending(); o+p > 0 {
		t.Errorf("%d operators and %d publishers are still active", o, p)
	}
	w.base.takeCommands()
	before := len(writes(w))
	w.advance(time.Hour)
	wantEqual(t, "commands afterwards", []string(nil), w.base.takeCommands())
	wantEqual(t, "writes afterwards", []string{}, writes(w)[before:])
	wantEqual(t, "module slots", []string(nil), w.store.moduleNames("a"))
	if n := w.operators.Pending() + w.publishers.Pending(); n > 0 {
		t.Errorf("%d workers are active after an hour", n)
	}
}

// writes returns all write requests of the controller, including rejected writes. It excludes the requests of the
// tests.
func writes(w *fixture) []string {
	list := []string{}
	for _, a := range w.api.Actions() {
		name := ""
		switch a := a.(type) {
		case clienttesting.UpdateActionImpl:
			if a.GetSubresource() == "" {
				continue
			}
			name = a.GetObject().(metav1.Object).GetName()
		case clienttesting.PatchActionImpl:
			name = a.GetName()
		case clienttesting.DeleteActionImpl:
			if p := a.DeleteOptions.Preconditions; p == nil {
				continue
			}
			name = a.GetName()
		default:
			continue
		}
		list = append(list, a.GetVerb()+" "+a.GetResource().Resource+" "+name)
	}
	return list
}

// refuseVerb makes the API server reject requests with the given verb for Pods while refused returns true.
func refuseVerb(w *fixture, verb string, refused func() bool) {
	w.api.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused(), nil, errors.New("the API server is overloaded")
	})
}

// TestStopServingEndsAllWork checks that when another controller takes over a base, all work of this controller for
// the base stops immediately.
func TestStopServingEndsAllWork(t *testing.T) {
	lost := func(name string, opts Options, f func(t *testing.T, w *fixture)) {
		for _, key := range []tunnel.Key{tunnel.MQTT, tunnel.HTTP} {
			runTest(t, name+" over "+string(key), opts, func(t *testing.T, w *fixture) {
				w.base.key = key
				w.requests.AddTunnel(w.base)
				f(t, w)
			})
		}
	}
	lost("during an install", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.delay = time.Minute })
		w.create("p1", container("biz1", "1"))
		w.advance(2 * time.Second)
		stopServingAndCheck(t, w)
	})
	lost("while module slots wait for the command limit", Options{Workers: 1}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.delay = time.Minute })
		for _, name := range []string{"biz1", "biz2", "biz3"} {
			w.create(name, container(name, "1"))
		}
		w.advance(2 * time.Second)
		stopServingAndCheck(t, w)
	})
	lost("during a drain", Options{Drain: 10 * time.Second}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.delete("p1")
		w.advance(2 * time.Second)
		w.wantSummary("p1", "Running Ready")
		stopServingAndCheck(t, w)
	})
	lost("before the next attempt", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) {
			b.installAnswer = func(arklet.Module) *arklet.Answer {
				return &arklet.Answer{Code: "FAILED",
					Message: "boom"}
			}
		})
		w.create("p1", container("biz1", "1"))
		w.advance(5 * time.Second)
		stopServingAndCheck(t, w)
	})
	lost("while the base does not send its module list", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.ignoreAll = true })
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		stopServingAndCheck(t, w)
	})
	lost("while a status write is retried", Options{}, func(t *testing.T, w *fixture) {
		w.refuseStatusWrites(true)
		w.create("p1", container("biz1", "1"))
		w.advance(10 * time.Second)
		w.refuseStatusWrites(false)
		stopServingAndCheck(t, w)
	})
	lost("while a deletion is retried", Options{Drain: -1}, func(t *testing.T, w *fixture) {
		var refused atomic.Bool
		refuseVerb(w, "delete", refused.Load)
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.delete("p1")
		refused.Store(true)
		w.advance(10 * time.Second)
		stopServingAndCheck(t, w)
	})
	lost("while the deletion of a Pod without modules is retried", Options{}, func(t *testing.T, w *fixture) {
		var refused atomic.Bool
		refuseVerb(w, "delete", refused.Load)
		w.create("p1", corev1.Container{Name: "biz1", Image: "nginx:latest"})
		w.advance(2 * time.Second)
		w.delete("p1")
		refused.Store(true)
		w.advance(time.Second)
		stopServingAndCheck(t, w)
	})
	lost("while a toleration is added", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *fixture) {
		refuseVerb(w, "patch", func() bool { return true })
		pod := w.create("p1", container("biz1", "1"))
		pod.Spec.Tolerations = []corev1.Toleration{
			{Key: labels.TaintVirtualNode, Operator: corev1.TolerationOpExists},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))},
		}
		w.update(pod)
		w.advance(5 * time.Second)
		if !slices.Contains(writes(w), "patch pods p1") {
			t.Fatal("no patch was sent")
		}
		stopServingAndCheck(t, w)
	})
}

// TestStopServingBeforeWorkBegins stops serving a base just before the controller sends a command or starts a probe.
// The controller must then do neither.
func TestStopServingBeforeWorkBegins(t *testing.T) {
	var w *fixture
	armed := false
	leave := func() {
		if armed {
			armed = false
			w.StopServing("a", "vnode.a")
		}
	}
	runTest(t, "before an install is sent", Options{SaveInstallRecord: func(context.Context, string) { leave() }},
		func(t *testing.T, created *fixture) {
			w, armed = created, true
			w.create("p1", container("biz1", "1"))
			w.advance(time.Minute)
			wantEqual(t, "commands", []string(nil), w.base.takeCommands())
			wantNoActivity(t, w)
		})
	runTest(t, "before a probe begins", Options{Node: func(string) *corev1.Node { leave(); return nil }},
		func(t *testing.T, created *fixture) {
			w = created
			b := startProbes(w, true, false)
			w.wantSummary("p1", "Running Ready")
			b.requests.Store(0)
			armed = true
			w.setProbePeriod(2) // the spec changes, so the publisher calls Set again
			synctest.Wait()
			w.triggerAll("a")
			w.advance(time.Minute)
			before := b.requests.Load()
			w.advance(time.Hour)
			if now := b.requests.Load(); armed || now != before {
				t.Errorf("%d probes after the controller stopped serving the base, want none", now-before)
			}
			wantNoActivity(t, w)
		})
}

// TestReplacePermitIsReleasedWithTheBase checks that the replace permit of a base is released when the controller
// stops serving the base or the base is removed.
func TestReplacePermitIsReleasedWithTheBase(t *testing.T) {
	for name, leave := range map[string]func(w *fixture){
		"not served any more": func(w *fixture) { w.StopServing("a", "vnode.a") },
		"removed": func(w *fixture) {
			if err := w.DeletePods(w.t.Context(), "a", "vnode.a"); err != nil {
				w.t.Error(err)
			}
		},
	} {
		runTest(t, name, Options{}, func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			other := container("biz1", "1")
			other.Image = "file:///m/another.jar"
			w.base.change(func(b *fakeBase) { b.delay = time.Hour })
			p := w.pod("p1")
			p.Spec.Containers = []corev1.Container{other}
			w.update(p)
			w.advance(time.Minute)
			if len(w.store.replacePermits) == 0 {
				t.Fatal("the slot has no permit")
			}
			leave(w)
			synctest.Wait()
			if len(w.store.replacePermits) > 0 {
				t.Errorf("permits remain: %v", w.store.replacePermits)
			}
		})
	}
}

// TestNextControllerContinues checks that a controller that takes over a base during an install continues the install
// immediately.
func TestNextControllerContinues(t *testing.T) {
	runTest(t, "", Options{}, func(_ *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.delay = time.Minute })
		w.create("p1", container("biz1", "1"))
		w.advance(2 * time.Second)
		installRecord := w.InstallRecord("a")
		w.StopServing("a", "vnode.a")
		w.base.change(func(b *fakeBase) { b.delay = 100 * time.Millisecond })
		w.Serve("a", "vnode.a", installRecord)
		w.advance(time.Second)
		w.wantSummary("p1", "Running Ready")
	})
}
