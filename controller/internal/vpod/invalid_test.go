package vpod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// TestInvalidModules checks that a module that cannot be installed neither delays the deletion of its Pod nor causes
// an uninstall of other versions.
func TestInvalidModules(t *testing.T) {
	noURL := func(name, version string) corev1.Container {
		c := container(name, version)
		c.Image = "nginx:latest"
		return c
	}
	update := func(w *fixture, c corev1.Container) {
		p := w.pod("p1")
		p.Spec.Containers = []corev1.Container{c}
		w.update(p)
		w.advance(5 * time.Second)
	}
	for name, before := range map[string]func(w *fixture){
		"its successor is being installed": func(w *fixture) {
			w.base.change(func(b *fakeBase) { b.delay = time.Minute })
			w.create("p2", container("biz1", "2"))
		},
		"its successor fails": func(w *fixture) {
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(arklet.Module) *arklet.Answer {
					return &arklet.Answer{Code: "FAILED",
						Message: "boom"}
				}
			})
			w.create("p2", container("biz1", "2"))
			w.advance(10 * time.Second)
		},
		"its base is unreachable": func(w *fixture) {
			w.advance(27 * time.Second)
			w.registry.Sweep()
		},
		"its base does not send its module list": func(w *fixture) {
			w.base.change(
				func(b *fakeBase) { b.ignoreAll = true })
		},
	} {
		runTest(t, "a Pod is deleted although "+name, Options{}, func(_ *testing.T, w *fixture) {
			w.create("p1", noURL("biz1", "1"))
			w.advance(2 * time.Second)
			w.wantSummary("p1", "Pending DecodeURLFailed")
			before(w)
			w.delete("p1")
			w.advance(time.Second)
			w.wantSummary("p1", "gone")
		})
	}
	runTest(t, "correcting the image in place uninstalls no version that was not installed for a Pod", Options{},
		func(t *testing.T, w *fixture) {
			w.base.install(arklet.Module{Name: "biz1", Version: "1"}) // by another client
			w.create("p1", noURL("biz1", "1"))
			w.advance(2 * time.Second)
			update(w, container("biz1", "2"))
			w.wantSummary("p1", "Running Ready")
			wantEqual(t, "modules", map[string]string{"biz1:1": "deactivated", "biz1:2": "activated"}, w.base.states())
		})
	runTest(t, "an image that becomes invalid in place keeps the module until the Pod is deleted", Options{},
		func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			update(w, noURL("biz1", "2"))
			w.wantSummary("p1", "Running DecodeURLFailed")
			wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
			w.delete("p1")
			w.advance(5 * time.Second)
			w.wantSummary("p1", "gone")
			wantEqual(t, "modules after the deletion", map[string]string{}, w.base.states())
		})
}

// TestFieldsWithoutEffect checks that a Pod with fields that have no effect on a module gets one Event. A controller
// that takes over the base must not repeat the Event.
func TestFieldsWithoutEffect(t *testing.T) {
	runTest(t, "reported by one controller only", Options{}, func(t *testing.T, w *fixture) {
		c := container("biz1", "1")
		c.StartupProbe = &corev1.Probe{}
		w.create("p1", c)
		w.advance(2 * time.Second)
		if e := w.nextEvent(); e != "Warning Unsupported startupProbe" {
			t.Errorf("got Event %q, want one for startupProbe", e)
		}
		w.StopServing("a", "vnode.a")
		w.Serve("a", "vnode.a", "")
		w.advance(2 * time.Second)
		if e := w.nextEvent(); e != "no event" {
			t.Errorf("unexpected Event %q when the Pod is served again", e)
		}
	})
}
