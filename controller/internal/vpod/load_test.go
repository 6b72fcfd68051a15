package vpod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// crowd is a base with many Pods that are Ready, of a provider that does nothing by itself.
type crowd struct {
	*Provider
	pods []*corev1.Pod
}

// crowded makes Pods of which each has a module of its own, or all have one and the same.
func crowded(tb testing.TB, pods int, same bool) crowd {
	tb.Helper()
	registry := base.NewRegistry(base.Options{})
	c := crowd{Provider: New(Options{
		Recorder: &record.FakeRecorder{}, Failure: func(*corev1.Pod, string, arklet.Module, error) {}, Asked: func(string, arklet.Request) {}, Answered: func(Outcome) {},
	}, fake.NewClientset(), registry, base.NewDialog(registry))}
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: time.Now()}
	if reason, err := registry.Heard(from, arklet.Heartbeat{Name: "base", Version: "1.0.0", IP: "198.18.0.1", Active: true}); reason != "" {
		tb.Fatal(reason, err)
	}
	var list []arklet.Biz
	for i := range pods {
		name := fmt.Sprintf("biz%03d", i)
		if same {
			name = "biz000"
		}
		if !same || i == 0 {
			list = append(list, arklet.Biz{Name: name, Version: "1", State: arklet.StateActivated, Latest: arklet.Record{At: from.At, State: arklet.StateActivated}})
		}
		c.pods = append(c.pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%03d", i), UID: types.UID(fmt.Sprintf("uid%03d", i)), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(from.At.Add(time.Duration(i) * time.Second))},
			Spec:       corev1.PodSpec{NodeName: "vnode.a", Containers: []corev1.Container{container(name, "1")}},
		})
	}
	registry.SetModules(from, list)
	c.Serve("a", "vnode.a", "")
	b, _ := registry.Get("a")
	for _, pod := range c.pods {
		c.addPods("a", pod)
		e, _ := c.store.get(pod.UID)
		for range 2 { // what it is once it has been written
			pod.Status = c.desiredStatus(e, b, pod.Status)
		}
	}
	registry.SetModules(from, list) // heard since the Pods came, so nobody has to ask
	return c
}

// look is what an event of a lane costs: its operator and its publisher look, and find nothing to do.
func (c crowd) look(tb testing.TB, name string) {
	tb.Helper()
	key := workerKey{"a", name}
	b, _ := c.registry.Get("a")
	if do, more := c.plan(key, b); do.Do != plan.NoAction || more {
		tb.Fatalf("there is something to do: %+v", do)
	}
	if _, err := c.publish(tb.Context(), key); err != nil {
		tb.Fatal(err)
	}
}

// bytes is how much memory f asks for.
func bytes(f func()) float64 {
	const times = 5
	var before, after goruntime.MemStats
	f() // what is made once
	goruntime.ReadMemStats(&before)
	for range times {
		f()
	}
	goruntime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / times
}

// An event of one module costs the same however many modules its base has.
func TestAnEventAmongManyModules(t *testing.T) {
	few, many := crowded(t, 50, false), crowded(t, 500, false)
	a, b := bytes(func() { few.look(t, "biz025") }), bytes(func() { many.look(t, "biz250") })
	if b > 1.2*a {
		t.Errorf("%.0f bytes among 500 modules, %.0f among 50", b, a)
	}
	if writes := len(few.writer.client.(*fake.Clientset).Actions()) + len(many.writer.client.(*fake.Clientset).Actions()); writes > 0 {
		t.Errorf("%d writes, though nothing has changed", writes)
	}
}

// One of hundreds of Pods of one module costs as much as one of a few: what its lane looks like is made
// once, and not for each of them.
func TestOneOfManyPodsOfAModule(t *testing.T) {
	few, many := crowded(t, 50, true), crowded(t, 500, true)
	a, b := bytes(func() { few.look(t, "biz000") })/50, bytes(func() { many.look(t, "biz000") })/500
	if b > 1.5*a {
		t.Errorf("%.0f bytes for each of 500 Pods, %.0f for each of 50", b, a)
	}
	lane := many.store.byBase["a"]["biz000"]
	order := lane.order.Load()
	shown := many.pods[7].DeepCopy()
	shown.ResourceVersion = "2"
	many.addPods("a", shown)
	if lane.order.Load() != order {
		t.Error("the Pods are put in order anew after an event that changes nothing of it")
	}
	for what, change := range map[string]func(){
		"a Pod comes": func() {
			another := shown.DeepCopy()
			another.UID = "another"
			many.addPods("a", another)
		},
		"one asks for another version": func() {
			shown = shown.DeepCopy()
			shown.Spec.Containers = []corev1.Container{container("biz000", "2")}
			many.addPods("a", shown)
		},
		"one gets another workload": func() {
			shown = shown.DeepCopy()
			shown.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ds", Controller: new(true)}}
			many.addPods("a", shown)
		},
		"one is deleted": func() { many.store.markDeleting(shown.UID) },
		"one is gone":    func() { e, _ := many.store.get("uid009"); many.store.remove(e) },
	} {
		many.store.views(workerKey{"a", "biz000"})
		if change(); lane.order.Load() != nil {
			t.Errorf("%s, and the order stays", what)
		}
	}
}

// What concerns the Pods of one workload, or of one ConfigMap, looks at no others.
func TestPodsAreFoundByWhatTheyHaveInCommon(t *testing.T) {
	asked := 0
	s := newStore(func(*corev1.Pod) bool { asked++; return false })
	for i := range 500 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Namespace: "ns",
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: fmt.Sprintf("ds%d", i/5), Controller: new(true)}},
		}}
		c := container("biz", "1")
		c.Env = []corev1.EnvVar{{Name: labels.VersionEnv, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("versions%d", i/5)}, Key: "biz",
		}}}}
		pod.Spec.Containers = []corev1.Container{c}
		s.put(pod, fmt.Sprint(i), modulesOf(pod, func(types.NamespacedName, string) (string, error) { return "1", nil }))
	}
	asked = 0
	if s.changed(daemonSet + "ns/ds7"); asked != 5 {
		t.Errorf("%d Pods were looked at, want the 5 of the workload", asked)
	}
	var names []string
	for _, pod := range s.refersTo(types.NamespacedName{Namespace: "ns", Name: "versions7"}) {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	wantDiff(t, "Pods of the ConfigMap", []string{"35", "36", "37", "38", "39"}, names)
	for i := range 500 {
		e, _ := s.get(types.UID(fmt.Sprint(i)))
		if i%2 == 0 {
			s.remove(e)
		} else {
			s.removeBase(fmt.Sprint(i))
		}
	}
	if n := len(s.byUID) + len(s.byBase) + len(s.byWorkload) + len(s.bySource); n > 0 {
		t.Errorf("%d things are remembered of Pods that are gone", n)
	}
}

// While other writes wait, a Pod is not written for nothing but that its module is being installed.
func TestAcceptedLaterUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{Speed: 1, Logger: slog.New(slog.DiscardHandler)}
		p := &Provider{opts: opts, publishers: newQueue(opts, 1, time.Second, func(ctx context.Context, _ workerKey) (time.Duration, error) {
			<-ctx.Done()
			return 0, nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.publishers.Run(ctx)
		p.publishers.Add(workerKey{module: "a"})
		synctest.Wait()
		wantDiff(t, "delay while one worker is busy", acceptAfter, p.acceptWithin())
		p.publishers.Add(workerKey{module: "b"}) // the dispatcher has it already
		p.publishers.Add(workerKey{module: "c"})
		synctest.Wait()
		wantDiff(t, "delay while others wait", acceptLater, p.acceptWithin())
	})
}

// A lane that waits for a slot has no goroutine; its turn comes, and goes on if it has no use for it.
func TestSlots(t *testing.T) {
	var called []string
	s := &slots{size: 2, byBase: map[string]*baseSlots{}, call: func(key workerKey) { called = append(called, key.module) }}
	take := func(module string, want bool) func() {
		t.Helper()
		release, ok := s.take(workerKey{"a", module})
		if ok != want {
			t.Fatalf("%s gets a slot: %t", module, ok)
		}
		return release
	}
	one, two := take("one", true), take("two", true)
	for _, module := range []string{"three", "four", "three", "five"} {
		take(module, false)
	}
	if got := s.waiting(); got != 3 {
		t.Errorf("%d wait, want 3", got)
	}
	if release, ok := s.take(workerKey{"b", "one"}); ok {
		release() // another base has its own
	} else {
		t.Error("another base has no slot")
	}
	one()
	wantDiff(t, "called", []string{"three"}, called)
	take("six", false)                   // the slot is that of three,
	s.decline(workerKey{"a", "three"})   // which has no use for it any more
	s.decline(workerKey{"a", "nothing"}) // of one that has asked for none
	wantDiff(t, "called", []string{"three", "four"}, called)
	four := take("four", true)
	two()
	five := take("five", true)
	five()
	six := take("six", true)
	four()
	six()
	if len(s.byBase) > 0 {
		t.Errorf("slots are left: %+v", s.byBase)
	}
}

// A Pod that is deleted while its lane waits for a slot goes at once, and nothing is installed for it.
func TestNothingIsDoneByAnOldPlan(t *testing.T) {
	in(t, "", Options{Workers: 1}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.delay = time.Minute })
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.create("p2", container("biz2", "1"))
		w.pass(2 * time.Second)
		if got := w.Depth(); got != 2 {
			t.Errorf("%d lanes have something to do, want 2", got)
		}
		w.delete("p2")
		w.pass(time.Second)
		w.wantShow("p2", "gone")
		w.pass(2 * time.Minute)
		wantDiff(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
}

// disturbed has the API server refuse a share of all writes, each of them for another reason, and lose
// as many answers. It returns how often.
func disturbed(w *world, share float64) *atomic.Int64 {
	var n atomic.Int64
	random := rand.New(rand.NewPCG(1, 2)) // the fake API has one write at a time
	busy := false
	w.api.PrependReactor("*", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if busy || !slices.Contains([]string{"update", "patch", "delete", "get"}, a.GetVerb()) || random.Float64() >= share {
			return false, nil, nil
		}
		pods := corev1.SchemeGroupVersion.WithResource("pods").GroupResource()
		n.Add(1)
		switch n.Load() % 5 {
		case 0:
			return true, nil, apierrors.NewConflict(pods, "", errors.New("the object has been modified"))
		case 1:
			return true, nil, apierrors.NewTooManyRequests("too many requests", 1)
		case 2:
			return true, nil, apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
		case 3:
			return true, nil, apierrors.NewTimeoutError("the request has timed out", 0)
		}
		busy = true // it is done, and its answer is lost
		defer func() { busy = false }()
		for _, r := range w.api.ReactionChain {
			if r.Handles(a) {
				if handled, _, err := r.React(a); handled || err != nil {
					break
				}
			}
		}
		return true, nil, errors.New("http2: client connection lost")
	})
	return &n
}

// goroutines counts those that run code of this package; those of the runtime and of its collector come
// and go as they like.
func goroutines() (n int) {
	stacks := make([]byte, 16<<20)
	for stack := range strings.SplitSeq(string(stacks[:goruntime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "/controller/internal/vpod.") {
			n++
		}
	}
	return n
}

// Every Pod ends as it should although the API server refuses one request in twenty, or never answers
// it; afterwards all is as it was.
func TestAnOverloadedAPIServer(t *testing.T) {
	in(t, "", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *world) {
		w.pass(time.Minute)
		before := goroutines()
		refusals := disturbed(w, 0.05)
		const pods = 200
		of := func(i int) corev1.Container {
			c := container(fmt.Sprintf("biz%d", i), "1")
			if i%20 == 7 {
				c.Image = "nginx:latest" // no module
			}
			return c
		}
		stored := func(name string) *corev1.Pod { // whatever is refused
			pod, err := w.api.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", name)
			if err != nil {
				return nil
			}
			return pod.(*corev1.Pod)
		}
		for i := range pods {
			w.create(fmt.Sprint("p", i), of(i))
		}
		for i := range pods / 2 {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("u", i), Namespace: "default", UID: types.UID(fmt.Sprint("u", i)), Labels: map[string]string{labels.Component: labels.Module}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{of(1)}, Tolerations: []corev1.Toleration{{Key: labels.TaintVirtualNode, Operator: corev1.TolerationOpExists}}},
			}
			if _, err := w.api.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Minute)
		for i := range pods {
			want := "Running Ready"
			if i%20 == 7 {
				want = "Pending DecodeURLFailed"
			}
			name := fmt.Sprint("p", i)
			if got := show(stored(name)); got != want {
				t.Errorf("pod %s is %q, want %q", name, got, want)
			}
		}
		for i := range pods / 2 {
			if pod := stored(fmt.Sprint("u", i)); len(pod.Spec.Tolerations) != 2 {
				t.Errorf("pod %s has no toleration for its environment", pod.Name)
			}
		}
		for i := range pods {
			for w.api.CoreV1().Pods("default").Delete(t.Context(), fmt.Sprint("p", i), metav1.DeleteOptions{}) != nil {
			}
		}
		w.pass(25 * time.Second) // before their grace period ends
		for i := range pods {
			if pod := stored(fmt.Sprint("p", i)); pod != nil {
				t.Errorf("pod %s stays: %q, deleted at %s", pod.Name, show(pod), pod.DeletionTimestamp)
			}
		}
		wantDiff(t, "modules", map[string]string{}, w.base.states())
		if refusals.Load() < 20 {
			t.Fatalf("%d requests were refused: that is no disturbance", refusals.Load())
		}
		w.pass(10 * time.Minute)
		if n := goroutines(); n != before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
		if n := w.operators.Depth() + w.publishers.Depth() + w.chores.Depth() + len(w.slots.byBase) + len(w.store.byUID) + len(w.informer.delivered); n > 0 {
			t.Errorf("%d workers, slots and Pods are remembered", n)
		}
	})
}

// BenchmarkLane is what an event of a module costs: among many modules of its base, and with many Pods.
func BenchmarkLane(b *testing.B) {
	for _, n := range []int{50, 500} {
		for what, same := range map[string]bool{"modules": false, "Pods": true} {
			b.Run(fmt.Sprintf("%s=%d", what, n), func(b *testing.B) {
				c := crowded(b, n, same)
				b.ReportAllocs()
				for b.Loop() {
					c.look(b, "biz000")
				}
			})
		}
	}
}
