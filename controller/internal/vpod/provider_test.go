package vpod

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// in runs a test in a bubble with a time of its own.
func in(t *testing.T, name string, opts Options, f func(t *testing.T, w *world)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, opts)) })
	})
}

func wantDiff(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestInstallAndUninstall(t *testing.T) {
	in(t, "a Pod becomes a module, with one write", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
		if n := w.statusWrites(); n != 1 {
			t.Errorf("%d writes of status, want 1", n)
		}
		p := w.pod("p1")
		if got := p.Status.PodIP; got != "198.18.0.1" {
			t.Errorf("podIP %q, want the base's", got)
		}
		if got := p.Status.ContainerStatuses[0].ContainerID; got != "arklet://198.18.0.1:biz1:1" {
			t.Errorf("containerID %q", got)
		}

		w.delete("p1")
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready") // drained first
		wantDiff(t, "modules while draining", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.pass(2 * time.Second)
		w.wantShow("p1", "gone")
		wantDiff(t, "modules", map[string]string{}, w.base.states())
		if w.PodCount() != 0 || w.operators.Depth() != 0 {
			t.Errorf("%d Pods and %d workers are left", w.PodCount(), w.operators.Depth())
		}
	})
	in(t, "a slow install shows that the Pod is accepted", Options{}, func(_ *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.delay = 10 * time.Second })
		w.create("p1", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wantShow("p1", "Pending ContainerCreating")
		w.pass(10 * time.Second)
		w.wantShow("p1", "Running Ready")
	})
	in(t, "several containers are several modules", Options{}, func(_ *testing.T, w *world) {
		w.base.with(func(b *fakeBase) {
			b.fail = func(m arklet.Module) *arklet.Answer {
				if m.Name == "biz2" {
					return &arklet.Answer{Code: "FAILED", Message: "java.io.FileNotFoundException: /m/biz2.jar"}
				}
				return nil
			}
		})
		w.create("p1", container("biz1", "1"), container("biz2", "1"))
		w.pass(time.Second)
		w.wantShow("p1", "Pending InstallModuleFailed")
		w.base.with(func(b *fakeBase) { b.fail = nil })
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		w.delete("p1")
		w.pass(5 * time.Second)
		w.wantShow("p1", "gone")
	})
	in(t, "what is installed already is taken as it is", Options{}, func(t *testing.T, w *world) {
		w.base.install(arklet.Module{Name: "biz1", Version: "1"})
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
		// A base that was never asked before is asked first.
		wantDiff(t, "commands", []string(nil), w.base.takeCommands())
	})
	in(t, "a module that is gone already is uninstalled", Options{}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.modules = nil })
		w.delete("p1")
		w.pass(5 * time.Second)
		w.wantShow("p1", "gone")
	})
	var outcomes []string
	note := func(o CommandResult) {
		outcomes = append(outcomes, string(o.Request.Command)+" "+o.Answer.DataCode+string(o.Code))
	}
	in(t, "what the base refuses because it is done already is no failure", Options{Drain: -1, CommandFinished: note},
		func(t *testing.T, w *world) {
			w.create("warm", container("other", "1")) // so that the base's list is known
			w.pass(time.Second)
			w.base.install(arklet.Module{Name: "biz1", Version: "1"})
			w.create("p1", container("biz1", "1"))
			w.pass(time.Second)
			w.wantShow("p1", "Running Ready")
			w.base.with(func(b *fakeBase) { b.modules = nil })
			w.delete("p1")
			w.pass(5 * time.Second)
			w.wantShow("p1", "gone")
			wantDiff(t, "answers and codes",
				[]string{"installBiz SUCCESS", "installBiz REPEAT_BIZ", "uninstallBiz NOT_FOUND_BIZ"}, outcomes[:3])
		})
	in(t, "modules of others are left alone", Options{}, func(t *testing.T, w *world) {
		w.base.install(arklet.Module{Name: "biz1", Version: "0"})
		w.base.install(arklet.Module{Name: "other", Version: "1"})
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.delete("p1")
		w.pass(5 * time.Second)
		wantDiff(t, "modules", map[string]string{"biz1:0": "deactivated", "other:1": "activated"}, w.base.states())
	})
	in(t, "two Pods with one module both get a status, and the last one takes it along", Options{},
		func(t *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.create("p2", container("biz1", "1"))
			w.pass(time.Second)
			w.wantShow("p1", "Running Ready")
			w.wantShow("p2", "Running Ready")
			wantDiff(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
			w.delete("p1")
			w.pass(5 * time.Second)
			w.wantShow("p1", "gone")
			w.wantShow("p2", "Running Ready")
			w.delete("p2")
			w.pass(5 * time.Second)
			wantDiff(t, "modules", map[string]string{}, w.base.states())
		})
}

func TestDeletion(t *testing.T) {
	in(t, "a Pod stays until its module is uninstalled", Options{Drain: -1}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.delay = 10 * time.Second })
		w.delete("p1")
		w.pass(9 * time.Second)
		w.wantShow("p1", "Running Ready")
		w.pass(2 * time.Second)
		w.wantShow("p1", "gone")
	})
	in(t, "or until its grace period is over; the uninstall goes on", Options{Drain: -1}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.mute = true })
		w.delete("p1")
		w.pass(29 * time.Second)
		w.wantShow("p1", "Running Ready")
		w.pass(2 * time.Second)
		w.wantShow("p1", "gone")
		w.base.with(func(b *fakeBase) { b.mute = false })
		w.pass(3 * time.Minute)
		wantDiff(t, "modules", map[string]string{}, w.base.states())
		if w.PodCount() != 0 {
			t.Errorf("%d Pods are left", w.PodCount())
		}
	})
	in(t, "a stop handler that throws is told of, and does not keep the Pod", Options{Drain: -1},
		func(t *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(time.Second)
			w.base.with(func(b *fakeBase) { b.stopFails = true })
			w.delete("p1")
			w.pass(time.Second)
			w.wantShow("p1", "gone")
			if e := w.nextEvent(); !strings.Contains(e, "Arklet.UninstallBizFailed") {
				t.Errorf("event %q", e)
			}
		})
	in(t, "a failed uninstall is tried again and told of", Options{Drain: -1}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.mute = true })
		w.delete("p1")
		w.pass(70 * time.Second)
		if e := w.nextEvent(); !strings.Contains(e, "UninstallBizTimedOut") {
			t.Errorf("event %q", e)
		}
	})
}

func (w *world) nextEvent() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return "no event"
	}
}

// Logs, Events and status messages do not contain the credentials of a jar URL.
func TestCredentialsOfJarURLsAreMasked(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	in(t, "installed, replaced, failed, refused, uninstalled", Options{Logger: logger}, func(t *testing.T, w *world) {
		jar := func(path string) arklet.Module {
			return arklet.Module{Name: "biz1", Version: "1", URL: "https://u:hunter2@h/" + path + "?Signature=hunter3"}
		}
		pod := func(m arklet.Module) corev1.Container {
			c := container(m.Name, m.Version)
			c.Image = m.URL
			return c
		}
		update := func(m arklet.Module) {
			p := w.pod("p1")
			p.Spec.Containers[0] = pod(m)
			w.update(p)
			w.pass(time.Minute)
			status := w.pod("p1").Status
			for _, c := range status.ContainerStatuses {
				log.WriteString(c.State.String() + c.LastTerminationState.String())
			}
			fmt.Fprintln(&log, status.Conditions)
		}
		w.create("p1", pod(jar("a.jar")))
		w.pass(time.Second)
		update(jar("b.jar"))
		w.base.with(func(b *fakeBase) {
			b.fail = func(m arklet.Module) *arklet.Answer {
				return &arklet.Answer{Code: "FAILED", Message: arklet.Text("cannot read " + m.URL)}
			}
		})
		update(jar("c.jar"))
		update(jar("%zz"))
		w.delete("p1")
		w.pass(time.Minute)
		for e := w.nextEvent(); e != "no event"; e = w.nextEvent() {
			log.WriteString(e + "\n")
		}
		for _, secret := range []string{"hunter2", "hunter3"} {
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, secret) {
					t.Error(line)
				}
			}
		}
		if n := strings.Count(log.String(), "https://***@h/"); n < 4 {
			t.Errorf("%d jars are shown; want those of all steps:\n%s", n, log.String())
		}
	})
}

func TestFailures(t *testing.T) {
	in(t, "a Pod that names no version", Options{}, func(t *testing.T, w *world) {
		c := container("biz1", "1")
		c.Env = nil
		w.create("p1", c)
		w.pass(2 * time.Second)
		w.wantShow("p1", "Pending InvalidParameter")
		if e := w.nextEvent(); !strings.Contains(e, "OtherUpstream.InvalidParameter") {
			t.Errorf("event %q", e)
		}
		w.pass(5 * time.Minute)
		if e := w.nextEvent(); e != "no event" {
			t.Errorf("it is told of again: %q", e)
		}
		w.delete("p1")
		w.pass(5 * time.Second)
		w.wantShow("p1", "gone")
	})
	in(t, "a code that arklet and the controller share is said once", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) {
			b.fail = func(arklet.Module) *arklet.Answer {
				return &arklet.Answer{Code: "FAILED", Message: "java.io.IOException: No space left on device"}
			}
		})
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.wantShow("p1", "Pending DiskFull")
		if e := w.nextEvent(); strings.Count(e, "User.DiskFull") != 1 {
			t.Errorf("event %q", e)
		}
	})
	in(t, "a broken module is uninstalled and tried again", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) {
			b.modules = []arklet.Biz{
				{Name: "biz1", Version: "1", State: arklet.StateBroken}}
		})
		w.create("p1", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string{"uninstallBiz biz1:1", "installBiz biz1:1"}, w.base.takeCommands())
	})
	in(t, "no answer within the deadline", Options{InstallTimeout: 30 * time.Second}, func(t *testing.T, w *world) {
		w.create("warm", container("other", "1")) // so that the base's list is known
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.mute = true })
		w.create("p1", container("biz1", "1"))
		w.pass(31 * time.Second)
		w.wantShow("p1", "Pending InstallModuleTimedOut")
		w.base.with(func(b *fakeBase) { b.mute = false })
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		_ = t
	})
	in(t, "failures of versions that no Pod wants any more are dropped", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) {
			b.fail = func(arklet.Module) *arklet.Answer { return &arklet.Answer{Code: "FAILED", Message: "boom"} }
		})
		w.create("p1", container("biz1", "1"))
		for i := range 5 {
			w.pass(time.Second)
			pod := w.pod("p1")
			pod.Spec.Containers[0] = container("biz1", fmt.Sprint("2.", i))
			w.update(pod)
		}
		w.pass(time.Second)
		w.store.read(func() {
			if n := len(w.store.lane(workerKey{"a", "biz1"}).memory.Failed); n != 1 {
				t.Errorf("%d failures; want that of the requested version", n)
			}
		})
	})
	in(t, "a base that lost its modules gets them again", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.base.takeCommands()
		w.base.lose()
		w.pass(2 * time.Second)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
}

func TestASilentBase(t *testing.T) {
	in(t, "its Pods turn Not Ready at once, and Ready when it is back", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.pass(26 * time.Second)
		w.registry.Sweep()
		w.pass(time.Millisecond)
		w.wantShow("p1", "Running")
		ready := podstatus.Condition(&w.pod("p1").Status, corev1.PodReady)
		if ready.Reason != "BaseInstanceNotReady" ||
			!strings.Contains(ready.Message, "ModuleController.BaseInstanceNotReady") {
			t.Errorf("condition %s: %s", ready.Reason, ready.Message)
		}
		w.hear()
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
	})
	in(t, "its Pods go with its Node", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		if err := w.DeletePods(t.Context(), "a", "vnode.a"); err != nil {
			t.Fatal(err)
		}
		w.wantShow("p1", "gone")
	})
}

func TestOwnership(t *testing.T) {
	in(t, "a base that another controller took keeps its modules, and they are taken up again", Options{},
		func(t *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(time.Second)
			w.base.takeCommands()
			w.StopServing("a", "vnode.a")
			w.create("p2", container("biz2", "1"))
			w.pass(5 * time.Second)
			wantDiff(t, "commands while another serves it", []string(nil), w.base.takeCommands())
			w.delete("p1") // meanwhile
			w.Serve("a", "vnode.a", "")
			w.pass(5 * time.Second)
			w.wantShow("p1", "gone")
			w.wantShow("p2", "Running Ready")
			wantDiff(t, "modules", map[string]string{"biz2:1": "activated"}, w.base.states())
		})
	in(t, "a base that comes in mid-handover is looked at with all its Pods in view", Options{},
		func(t *testing.T, w *world) {
			w.create("old", container("biz1", "1"))
			w.pass(time.Second)
			w.StopServing("a", "vnode.a")
			w.create("new", container("biz1", "2"))
			w.pass(time.Second)
			w.Serve("a", "vnode.a", "")
			wantDiff(t, "Pods that the worker sees first", 2, w.PodCount()) // nothing has been handed over yet
			w.pass(5 * time.Second)
			w.wantShow("old", "Running BizDeactivate")
			w.wantShow("new", "Running Ready")
		})
}

func TestTolerations(t *testing.T) {
	in(t, "", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *world) {
		virtual := corev1.Toleration{Key: "schedule.koupleless.io/virtual-node", Operator: "Equal", Value: "True",
			Effect: "NoExecute"}
		dev := corev1.Toleration{Key: "schedule.koupleless.io/node-env", Operator: "Equal", Value: "dev",
			Effect: "NoExecute"}
		test := corev1.Toleration{Key: "schedule.koupleless.io/node-env", Operator: "Equal", Value: "test",
			Effect: "NoExecute"}
		all := corev1.Toleration{Operator: "Exists"}
		unreachable := func(seconds *int64) corev1.Toleration {
			return corev1.Toleration{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute",
				TolerationSeconds: seconds}
		}
		limited, chosen, unlimited := unreachable(ptr.To[int64](300)), unreachable(ptr.To[int64](60)), unreachable(nil)
		type list = []corev1.Toleration
		for name, c := range map[string]struct {
			node       string
			have, want list
		}{
			"sample":                   {"", list{virtual}, list{virtual, dev}},
			"other-environment":        {"", list{virtual, test}, list{virtual, test}},
			"everything":               {"", list{all}, list{all}},
			"not-for-a-base":           {"", nil, nil},
			"scheduled":                {"vnode.b", list{virtual}, list{virtual}},
			"limit-of-admission":       {"vnode.a", list{virtual, test, limited}, list{virtual, test, unlimited}},
			"waits-for-a-node":         {"", list{virtual, test, limited}, list{virtual, test, limited}},
			"base-of-another":          {"vnode.b", list{virtual, test, limited}, list{virtual, test, limited}},
			"limit-chosen-by-the-user": {"vnode.a", list{virtual, test, chosen}, list{virtual, test, chosen}},
		} {
			w.add(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name),
					Labels: map[string]string{labels.OlderComponent: labels.Module}},
				Spec: corev1.PodSpec{NodeName: c.node, Tolerations: c.have,
					Containers: []corev1.Container{container(name, "1")}},
			})
			w.pass(time.Second)
			wantDiff(t, name, c.want, w.pod(name).Spec.Tolerations)
		}
	})
}
