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

// lose has the base become another controller's, and checks that this one has stopped when Leave
// returns: no goroutine of a lane is left, nothing of the base is remembered, and for an hour there is
// neither a command nor a write.
func lose(t *testing.T, w *world) {
	t.Helper()
	w.Leave("a", "vnode.a")
	stopped(t, w)
}

func stopped(t *testing.T, w *world) {
	t.Helper()
	synctest.Wait() // no time passes
	if o, p := w.operators.Depth(), w.publishers.Depth(); o+p > 0 {
		t.Errorf("%d operators and %d publishers go on", o, p)
	}
	w.base.takeCommands()
	before := len(writes(w))
	w.pass(time.Hour)
	wantDiff(t, "commands afterwards", []string(nil), w.base.takeCommands())
	wantDiff(t, "writes afterwards", []string{}, writes(w)[before:])
	wantDiff(t, "lanes", []string(nil), w.store.names("a"))
	if n := w.operators.Depth() + w.publishers.Depth(); n > 0 {
		t.Errorf("%d workers and timers are left", n)
	}
}

// writes lists the writes that the API server was sent, those that it refused too, but for what the
// tests themselves do.
func writes(w *world) []string {
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

// refuses has the API server refuse writes as long as refused says so.
func refuses(w *world, verb string, refused func() bool) {
	w.api.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused(), nil, errors.New("the API server is overloaded")
	})
}

// Whatever is under way for a base ends at once when another controller has taken it.
func TestABaseIsLost(t *testing.T) {
	lost := func(name string, opts Options, f func(t *testing.T, w *world)) {
		for _, key := range []tunnel.Key{tunnel.MQTT, tunnel.HTTP} {
			in(t, name+" over "+string(key), opts, func(t *testing.T, w *world) {
				w.base.key = key
				w.requests.AddTunnel(w.base)
				f(t, w)
			})
		}
	}
	lost("during an install", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.delay = time.Minute })
		w.create("p1", container("biz1", "1"))
		w.pass(2 * time.Second)
		lose(t, w)
	})
	lost("while lanes wait for a slot", Options{Workers: 1}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.delay = time.Minute })
		for _, name := range []string{"biz1", "biz2", "biz3"} {
			w.create(name, container(name, "1"))
		}
		w.pass(2 * time.Second)
		lose(t, w)
	})
	lost("during a drain", Options{Drain: 10 * time.Second}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.delete("p1")
		w.pass(2 * time.Second)
		w.wantShow("p1", "Running Ready")
		lose(t, w)
	})
	lost("while an attempt is due", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) {
			b.fail = func(arklet.Module) *arklet.Answer { return &arklet.Answer{Code: "FAILED", Message: "boom"} }
		})
		w.create("p1", container("biz1", "1"))
		w.pass(5 * time.Second)
		lose(t, w)
	})
	lost("while a base gives no list", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.mute = true })
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		lose(t, w)
	})
	lost("while a write of status is tried again", Options{}, func(t *testing.T, w *world) {
		w.refuse(true)
		w.create("p1", container("biz1", "1"))
		w.pass(10 * time.Second)
		w.refuse(false)
		lose(t, w)
	})
	lost("while a delete is tried again", Options{Drain: -1}, func(t *testing.T, w *world) {
		var refused atomic.Bool
		refuses(w, "delete", refused.Load)
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.delete("p1")
		refused.Store(true)
		w.pass(10 * time.Second)
		lose(t, w)
	})
	lost("while the delete of a Pod without modules is tried again", Options{}, func(t *testing.T, w *world) {
		var refused atomic.Bool
		refuses(w, "delete", refused.Load)
		w.create("p1", corev1.Container{Name: "biz1", Image: "nginx:latest"})
		w.pass(2 * time.Second)
		w.delete("p1")
		refused.Store(true)
		w.pass(time.Second)
		lose(t, w)
	})
	lost("while a toleration is added", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *world) {
		refuses(w, "patch", func() bool { return true })
		pod := w.create("p1", container("biz1", "1"))
		pod.Spec.Tolerations = []corev1.Toleration{
			{Key: labels.TaintVirtualNode, Operator: corev1.TolerationOpExists},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))},
		}
		w.update(pod)
		w.pass(5 * time.Second)
		if !slices.Contains(writes(w), "patch pods p1") {
			t.Fatal("nothing is added")
		}
		lose(t, w)
	})
}

// Another controller may take a base at the very moment at which something is about to begin there.
func TestABaseIsLostInBetween(t *testing.T) {
	var w *world
	armed := false
	leave := func() {
		if armed {
			armed = false
			w.Leave("a", "vnode.a")
		}
	}
	in(t, "before an install is sent", Options{Keep: func(context.Context, string) { leave() }},
		func(t *testing.T, made *world) {
			w, armed = made, true
			w.create("p1", container("biz1", "1"))
			w.pass(time.Minute)
			wantDiff(t, "commands", []string(nil), w.base.takeCommands())
			stopped(t, w)
		})
	in(t, "before a probe begins", Options{Node: func(string) *corev1.Node { leave(); return nil }},
		func(t *testing.T, made *world) {
			w = made
			b := probed(w, true, false)
			w.wantShow("p1", "Running Ready")
			b.asked.Store(0)
			armed = true
			w.probeEvery(2) // another spec: the publisher sets it anew
			synctest.Wait()
			w.triggerAll("a")
			w.pass(time.Minute)
			asked := b.asked.Load()
			w.pass(time.Hour)
			if now := b.asked.Load(); armed || now != asked {
				t.Errorf("%d probes of a base that another controller serves", now-asked)
			}
			stopped(t, w)
		})
}

// A module that is replaced in place has the turn of its bases. It goes when the base does.
func TestATurnEndsWithItsBase(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"lost": func(w *world) { w.Leave("a", "vnode.a") },
		"gone": func(w *world) {
			if err := w.Remove(w.t.Context(), "a", "vnode.a"); err != nil {
				w.t.Error(err)
			}
		},
	} {
		in(t, name, Options{}, func(t *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(time.Second)
			anew := container("biz1", "1")
			anew.Image = "file:///m/another.jar"
			w.base.with(func(b *fakeBase) { b.delay = time.Hour })
			p := w.pod("p1")
			p.Spec.Containers = []corev1.Container{anew}
			w.update(p)
			w.pass(time.Minute)
			if len(w.store.turns) == 0 {
				t.Fatal("nothing is being replaced")
			}
			leave(w)
			synctest.Wait()
			if len(w.store.turns) > 0 {
				t.Errorf("turns remain: %v", w.store.turns)
			}
		})
	}
}

// Whoever serves the base next goes on at once.
func TestTheNextControllerGoesOn(t *testing.T) {
	in(t, "", Options{}, func(_ *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.delay = time.Minute })
		w.create("p1", container("biz1", "1"))
		w.pass(2 * time.Second)
		ledger := w.Ledger("a")
		w.Leave("a", "vnode.a")
		w.base.with(func(b *fakeBase) { b.delay = 100 * time.Millisecond })
		w.Serve("a", "vnode.a", ledger)
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
	})
}
