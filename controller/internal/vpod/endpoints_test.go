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

// endpoint creates or updates the EndpointSlice of a Pod.
func (w *fixture) endpoint(pod *corev1.Pod, c discoveryv1.EndpointConditions) {
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

// uninstalledAfter waits until a module is uninstalled, and returns the time until the uninstall.
func (w *fixture) uninstalledAfter(identity string) time.Duration {
	w.t.Helper()
	for began := time.Now(); ; w.advance(10 * time.Millisecond) {
		if _, exists := w.base.states()[identity]; !exists {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			w.t.Fatalf("%s was not uninstalled within a minute", identity)
		}
	}
}

// newServingFixture returns a fixture with a Ready Pod, and a Service that sends requests to the Pod.
func newServingFixture(t *testing.T) (*fixture, *corev1.Pod) {
	t.Helper()
	w := newFixture(t, Options{})
	pod := w.create("one", container("biz1", "1.0.0"))
	w.advance(3 * time.Second)
	w.endpoint(pod, ready)
	return w, pod
}

var ready = discoveryv1.EndpointConditions{Ready: ptr.To(true)}

// TestDrainFollowsEndpoints checks that the module of a deleted Pod stays installed while a Service still sends
// requests to the Pod, because Kubernetes may update endpoints late.
func TestDrainFollowsEndpoints(t *testing.T) {
	t.Parallel()
	notReady := discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
	for _, c := range []struct {
		name           string
		after          time.Duration // delay before the endpoints change; 0 means never
		to             discoveryv1.EndpointConditions
		atLeast, below time.Duration
	}{
		{"endpoints change immediately", time.Millisecond, notReady, 2 * time.Second, 2200 * time.Millisecond},
		{"endpoints change late", 6 * time.Second, notReady, 7 * time.Second, 8200 * time.Millisecond},
		{"endpoints never change: until just before the end of the grace period", 0, notReady, 25 * time.Second,
			25200 * time.Millisecond},
		{
			"Service with publishNotReadyAddresses", time.Millisecond,
			discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(true)},
			2 * time.Second, 2200 * time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, pod := newServingFixture(t)
				w.delete("one")
				if c.after > 0 {
					time.AfterFunc(c.after, func() { w.endpoint(pod, c.to) })
				}
				if stays := w.uninstalledAfter("biz1:1.0.0"); stays < c.atLeast || stays > c.below {
					t.Errorf("uninstalled after %s, want %s to %s", stays, c.atLeast, c.below)
				}
				w.advance(time.Minute)
				w.endpoints.mu.Lock()
				defer w.endpoints.mu.Unlock()
				if n := len(w.endpoints.namespaces); n != 0 {
					t.Errorf("%d namespaces are in memory, want none", n)
				}
			})
		})
	}
}

// TestReplacementFollowsEndpoints checks that the jar of a version is replaced only when no Service sends requests to
// the Pods of the version any more: neither to a Pod that is changed in place, nor to an older Pod if a newer Pod
// requests the other jar.
func TestReplacementFollowsEndpoints(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*fixture){
		"changed in place": func(w *fixture) {
			live := w.pod("one")
			live.Spec.Containers[0].Image = "file:///m/other.jar"
			live.ResourceVersion = "100"
			w.update(live)
		},
		"newer Pod": func(w *fixture) {
			other := container("biz1", "1.0.0")
			other.Image = "file:///m/other.jar"
			w.create("two", other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, pod := newServingFixture(t)
				replace(w)
				time.AfterFunc(10*time.Second,
					func() { w.endpoint(pod, discoveryv1.EndpointConditions{Ready: ptr.To(false)}) })
				if stays := w.uninstalledAfter("biz1:1.0.0"); stays < 11*time.Second || stays > 13*time.Second {
					t.Errorf("the old jar was uninstalled after %s, want 11 s to 13 s", stays)
				}
			})
		})
	}
}

// TestEndpointsAreListedOncePerNamespace checks that one list of EndpointSlices serves all Pods of a namespace.
// Without permission to list EndpointSlices, the drain must have a fixed duration.
func TestEndpointsAreListedOncePerNamespace(t *testing.T) {
	t.Parallel()
	for _, forbidden := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			w := newFixture(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
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
			w.advance(3 * time.Second)
			for _, name := range []string{"biz1", "biz2", "biz3", "biz4"} {
				w.delete(name)
			}
			if stays := w.uninstalledAfter("biz4:1.0.0"); stays < 2*time.Second || stays > 2300*time.Millisecond {
				t.Errorf("forbidden %t: uninstalled after %s, want 2 s", forbidden, stays)
			}
			w.advance(10 * time.Second)
			if lists < 1 || lists > 2 {
				t.Errorf("forbidden %t: %d lists for 4 Pods, want 1 or 2", forbidden, lists)
			}
			if warnings := strings.Count(log.String(), "MODULE_DRAIN"); (warnings == 1) != forbidden || warnings > 1 {
				t.Errorf("forbidden %t: %d warnings", forbidden, warnings)
			}
		})
	}
}
