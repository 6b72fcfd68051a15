package vpod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// TestAcceptDelayUnderLoad checks that the controller waits longer before it writes a status that only shows an
// install in progress, if other status writes are queued.
func TestAcceptDelayUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{TimeScale: 1, Logger: slog.New(slog.DiscardHandler)}
		p := &Provider{opts: opts,
			publishers: newQueue(opts, 1, time.Second, func(ctx context.Context, _ slotKey) (time.Duration, error) {
				<-ctx.Done()
				return 0, nil
			})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.publishers.Run(ctx)
		p.publishers.Add(slotKey{module: "a"})
		synctest.Wait()
		wantEqual(t, "delay while one worker is busy", acceptDelay, p.currentAcceptDelay())
		p.publishers.Add(slotKey{module: "b"}) // the dispatcher takes it from the queue
		p.publishers.Add(slotKey{module: "c"})
		synctest.Wait()
		wantEqual(t, "delay while others wait", busyAcceptDelay, p.currentAcceptDelay())
	})
}

// TestOutdatedActionIsNotExecuted deletes a Pod while its module slot waits for the command limit. The Pod must be
// removed immediately, and its module must not be installed.
func TestOutdatedActionIsNotExecuted(t *testing.T) {
	runTest(t, "", Options{Workers: 1}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.delay = time.Minute })
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.create("p2", container("biz2", "1"))
		w.advance(2 * time.Second)
		if got := w.Depth(); got != 2 {
			t.Errorf("depth %d, want 2", got)
		}
		w.delete("p2")
		w.advance(time.Second)
		w.wantSummary("p2", "gone")
		w.advance(2 * time.Minute)
		wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
}

// injectAPIFaults makes a share of the API requests fail, with varying errors. One in five of them is executed, but
// its response is lost. The returned counter counts the injected faults.
func injectAPIFaults(w *fixture, share float64) *atomic.Int64 {
	var n atomic.Int64
	random := rand.New(rand.NewPCG(1, 2)) // the fake API server handles one request at a time
	busy := false
	w.api.PrependReactor("*", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if busy || !slices.Contains([]string{"update", "patch", "delete", "get"}, a.GetVerb()) ||
			random.Float64() >= share {
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
		busy = true // the request is executed, and its response is lost
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

// TestOverloadedAPIServer runs the controller with an API server that rejects one request in ten or loses its
// response. Every Pod must reach the expected state nevertheless. Afterwards, no work and no Pods may remain in
// memory.
func TestOverloadedAPIServer(t *testing.T) {
	runTest(t, "", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *fixture) {
		w.advance(time.Minute)
		refusals := injectAPIFaults(w, 0.1)
		const pods = 80
		of := func(i int) corev1.Container {
			c := container(fmt.Sprintf("biz%d", i), "1")
			if i%20 == 7 {
				c.Image = "nginx:latest" // invalid
			}
			return c
		}
		stored := func(name string) *corev1.Pod { // without faults
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
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("u", i), Namespace: "default",
					UID: types.UID(fmt.Sprint("u", i)), Labels: map[string]string{labels.Component: labels.Module}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{of(1)},
					Tolerations: []corev1.Toleration{
						{Key: labels.TaintVirtualNode, Operator: corev1.TolerationOpExists}}},
			}
			w.add(pod)
		}
		w.advance(time.Minute)
		for i := range pods {
			want := "Running Ready"
			if i%20 == 7 {
				want = "Pending DecodeURLFailed"
			}
			name := fmt.Sprint("p", i)
			if got := podSummary(stored(name)); got != want {
				t.Errorf("status of pod %s: %q, want %q", name, got, want)
			}
		}
		for i := range pods / 2 {
			if pod := stored(fmt.Sprint("u", i)); len(pod.Spec.Tolerations) != 2 {
				t.Errorf("pod %s does not tolerate its environment", pod.Name)
			}
		}
		for i := range pods {
			for w.api.CoreV1().Pods("default").Delete(t.Context(), fmt.Sprint("p", i), metav1.DeleteOptions{}) != nil {
			}
		}
		w.advance(25 * time.Second) // before the end of the grace period
		for i := range pods {
			if pod := stored(fmt.Sprint("p", i)); pod != nil {
				t.Errorf("pod %s still exists: %q, deleted at %s", pod.Name, podSummary(pod), pod.DeletionTimestamp)
			}
		}
		wantEqual(t, "modules", map[string]string{}, w.base.states())
		if refusals.Load() < 20 {
			t.Fatalf("%d requests failed, want at least 20", refusals.Load())
		}
		w.advance(10 * time.Minute)
		if n := w.operators.Pending() + w.publishers.Pending() + w.podWrites.Pending() + len(w.store.byUID); n > 0 {
			t.Errorf("%d workers and Pods remain", n)
		}
	})
}
