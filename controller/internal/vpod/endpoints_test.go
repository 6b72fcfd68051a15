package vpod

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// endpoint writes the EndpointSlice of a Pod.
func (w *world) endpoint(pod *corev1.Pod, c discoveryv1.EndpointConditions) {
	w.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Endpoints:  []discoveryv1.Endpoint{{TargetRef: &corev1.ObjectReference{UID: pod.UID}, Conditions: c}},
	}
	slices := w.api.DiscoveryV1().EndpointSlices(pod.Namespace)
	_, err := slices.Update(w.t.Context(), slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = slices.Create(w.t.Context(), slice, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// goesAfter is how long a module stays after now.
func (w *world) goesAfter(identity string) time.Duration {
	w.t.Helper()
	for began := time.Now(); ; w.pass(10 * time.Millisecond) {
		if _, there := w.base.states()[identity]; !there {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			w.t.Fatalf("%s stays", identity)
		}
	}
}

// serving is a world with a Pod that is Ready, and that a Service sends requests to.
func serving(t *testing.T) (*world, *corev1.Pod) {
	t.Helper()
	w := newWorld(t, Options{})
	pod := w.create("one", container("biz1", "1.0.0"))
	w.pass(3 * time.Second)
	w.endpoint(pod, ready)
	return w, pod
}

var ready = discoveryv1.EndpointConditions{Ready: ptr.To(true)}

// The module of a deleted Pod stays while a Service sends it requests: the controller that follows Pods
// may be slow, or away.
func TestDrainFollowsEndpoints(t *testing.T) {
	t.Parallel()
	notReady := discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
	for _, c := range []struct {
		name           string
		after          time.Duration // the endpoints change; 0 = never
		to             discoveryv1.EndpointConditions
		atLeast, below time.Duration
	}{
		{"at once", time.Millisecond, notReady, 2 * time.Second, 2200 * time.Millisecond},
		{"late", 6 * time.Second, notReady, 7 * time.Second, 8200 * time.Millisecond},
		{"never, until just before the grace period ends", 0, notReady, 25 * time.Second, 25200 * time.Millisecond},
		{
			"of a Service that publishes what is not ready", time.Millisecond,
			discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(true)},
			2 * time.Second, 2200 * time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, pod := serving(t)
				w.delete("one")
				if c.after > 0 {
					time.AfterFunc(c.after, func() { w.endpoint(pod, c.to) })
				}
				if stays := w.goesAfter("biz1:1.0.0"); stays < c.atLeast || stays > c.below {
					t.Errorf("it stays for %s, want %s to %s", stays, c.atLeast, c.below)
				}
				w.pass(time.Minute)
				w.endpoints.mu.Lock()
				defer w.endpoints.mu.Unlock()
				if n := len(w.endpoints.looks); n != 0 {
					t.Errorf("%d namespaces are remembered", n)
				}
			})
		})
	}
}

// A jar is replaced by another one of its version when no requests come any more, too: to the Pod that is changed
// in place, or to the older one beside that which asks for the other jar.
func TestReplacementFollowsEndpoints(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*world){
		"in place": func(w *world) {
			live := w.pod("one")
			live.Spec.Containers[0].Image = "file:///m/other.jar"
			live.ResourceVersion = "100"
			w.update(live)
		},
		"another Pod": func(w *world) {
			other := container("biz1", "1.0.0")
			other.Image = "file:///m/other.jar"
			w.create("two", other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, pod := serving(t)
				replace(w)
				time.AfterFunc(10*time.Second,
					func() { w.endpoint(pod, discoveryv1.EndpointConditions{Ready: ptr.To(false)}) })
				if stays := w.goesAfter("biz1:1.0.0"); stays < 11*time.Second || stays > 13*time.Second {
					t.Errorf("the old jar stays for %s, want 11 s to 13 s", stays)
				}
			})
		})
	}
}

// One LIST serves all that wait for it, and where it is forbidden the drain has its fixed time.
func TestEndpointsAreListedOnce(t *testing.T) {
	t.Parallel()
	for _, forbidden := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			w := newWorld(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			lists := 0
			w.api.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
				lists++
				if forbidden {
					return true, nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", nil)
				}
				return false, nil, nil
			})
			for _, name := range []string{"biz1", "biz2", "biz3", "biz4"} {
				w.create(name, container(name, "1.0.0"))
			}
			w.pass(3 * time.Second)
			for _, name := range []string{"biz1", "biz2", "biz3", "biz4"} {
				w.delete(name)
			}
			if stays := w.goesAfter("biz4:1.0.0"); stays < 2*time.Second || stays > 2300*time.Millisecond {
				t.Errorf("forbidden %t: it stays for %s, want 2 s", forbidden, stays)
			}
			w.pass(10 * time.Second)
			if lists < 1 || lists > 2 {
				t.Errorf("forbidden %t: %d LISTs for four Pods", forbidden, lists)
			}
			if told := strings.Count(log.String(), "MODULE_DRAIN"); (told == 1) != forbidden || told > 1 {
				t.Errorf("forbidden %t: told %d times", forbidden, told)
			}
		})
	}
}
