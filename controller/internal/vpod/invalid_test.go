package vpod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// A module that can't be installed is nowhere: nobody waits for it, and nothing goes because of it.
func TestInvalidModules(t *testing.T) {
	noURL := func(name, version string) corev1.Container {
		c := container(name, version)
		c.Image = "nginx:latest"
		return c
	}
	update := func(w *world, c corev1.Container) {
		p := w.pod("p1")
		p.Spec.Containers = []corev1.Container{c}
		w.update(p)
		w.pass(5 * time.Second)
	}
	for name, before := range map[string]func(w *world){
		"its successor does not serve yet": func(w *world) {
			w.base.with(func(b *fakeBase) { b.delay = time.Minute })
			w.create("p2", container("biz1", "2"))
		},
		"its successor fails": func(w *world) {
			w.base.with(func(b *fakeBase) {
				b.fail = func(arklet.Module) *arklet.Answer { return &arklet.Answer{Code: "FAILED", Message: "boom"} }
			})
			w.create("p2", container("biz1", "2"))
			w.pass(10 * time.Second)
		},
		"its base is unreachable": func(w *world) {
			w.pass(27 * time.Second)
			w.registry.Sweep()
		},
		"its base sends no list": func(w *world) { w.base.with(func(b *fakeBase) { b.mute = true }) },
	} {
		in(t, "a deleted Pod goes although "+name, Options{}, func(_ *testing.T, w *world) {
			w.create("p1", noURL("biz1", "1"))
			w.pass(2 * time.Second)
			w.wantShow("p1", "Pending DecodeURLFailed")
			before(w)
			w.delete("p1")
			w.pass(time.Second)
			w.wantShow("p1", "gone")
		})
	}
	in(t, "an image put right in place takes away nothing that was never installed", Options{},
		func(t *testing.T, w *world) {
			w.base.install(arklet.Module{Name: "biz1", Version: "1"}) // by somebody else
			w.create("p1", noURL("biz1", "1"))
			w.pass(2 * time.Second)
			update(w, container("biz1", "2"))
			w.wantShow("p1", "Running Ready")
			wantDiff(t, "modules", map[string]string{"biz1:1": "deactivated", "biz1:2": "activated"}, w.base.states())
		})
	in(t, "an image that turns wrong in place leaves the module until the Pod is deleted", Options{},
		func(t *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(time.Second)
			update(w, noURL("biz1", "2"))
			w.wantShow("p1", "Running DecodeURLFailed")
			wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
			w.delete("p1")
			w.pass(5 * time.Second)
			w.wantShow("p1", "gone")
			wantDiff(t, "modules in the end", map[string]string{}, w.base.states())
		})
}

// A Pod with fields that have no effect on a module gets one Event. The next controller does not repeat it.
func TestFieldsWithoutEffect(t *testing.T) {
	in(t, "reported once", Options{}, func(t *testing.T, w *world) {
		c := container("biz1", "1")
		c.StartupProbe = &corev1.Probe{}
		w.create("p1", c)
		w.pass(2 * time.Second)
		if e := w.nextEvent(); e != "Warning Unsupported startupProbe" {
			t.Errorf("Event %q", e)
		}
		w.StopServing("a", "vnode.a")
		w.Serve("a", "vnode.a", "")
		w.pass(2 * time.Second)
		if e := w.nextEvent(); e != "no event" {
			t.Errorf("Event %q when the Pod is served again", e)
		}
	})
}
