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

// While other writes wait, a Pod is not written for nothing but that its module is being installed.
func TestAcceptedLaterUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{TimeScale: 1, Logger: slog.New(slog.DiscardHandler)}
		p := &Provider{opts: opts,
			publishers: newQueue(opts, 1, time.Second, func(ctx context.Context, _ workerKey) (time.Duration, error) {
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

// Every Pod ends as it should although the API server refuses one request in ten, or never answers
// it; afterwards all is as it was.
func TestAnOverloadedAPIServer(t *testing.T) {
	in(t, "", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *world) {
		w.pass(time.Minute)
		refusals := disturbed(w, 0.1)
		const pods = 80
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
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("u", i), Namespace: "default",
					UID: types.UID(fmt.Sprint("u", i)), Labels: map[string]string{labels.Component: labels.Module}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{of(1)},
					Tolerations: []corev1.Toleration{
						{Key: labels.TaintVirtualNode, Operator: corev1.TolerationOpExists}}},
			}
			w.add(pod)
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
		if n := w.operators.Depth() + w.publishers.Depth() + w.chores.Depth() + len(w.store.byUID); n > 0 {
			t.Errorf("%d workers and Pods are left", n)
		}
	})
}
