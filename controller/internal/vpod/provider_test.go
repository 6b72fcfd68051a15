package vpod

import (
	"errors"
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
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// runTest runs a subtest with a fixture in a synctest bubble, which has a fake clock.
func runTest(t *testing.T, name string, opts Options, f func(t *testing.T, w *fixture)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newFixture(t, opts)) })
	})
}

func wantEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestInstallAndUninstall(t *testing.T) {
	runTest(t, "one status write for an install", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
		if n := w.statusWrites(); n != 1 {
			t.Errorf("%d status writes, want 1", n)
		}
		p := w.pod("p1")
		if got := p.Status.PodIP; got != "198.18.0.1" {
			t.Errorf("podIP %q, want the IP address of the base", got)
		}
		if got := p.Status.ContainerStatuses[0].ContainerID; got != "arklet://198.18.0.1:biz1:1" {
			t.Errorf("containerID %q, want arklet://198.18.0.1:biz1:1", got)
		}

		w.delete("p1")
		w.advance(time.Second)
		w.wantSummary("p1", "Running Ready") // during the drain
		wantEqual(t, "modules during the drain", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.advance(2 * time.Second)
		w.wantSummary("p1", "gone")
		wantEqual(t, "modules", map[string]string{}, w.base.states())
		if w.PodCount() != 0 || w.operators.Pending() != 0 {
			t.Errorf("%d Pods and %d workers remain", w.PodCount(), w.operators.Pending())
		}
	})
	runTest(t, "the status shows that a slow install is in progress", Options{}, func(_ *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.delay = 10 * time.Second })
		w.create("p1", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.wantSummary("p1", "Pending ContainerCreating")
		w.advance(10 * time.Second)
		w.wantSummary("p1", "Running Ready")
	})
	runTest(t, "each container is a module", Options{}, func(_ *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) {
			b.installAnswer = func(m arklet.Module) *arklet.Answer {
				if m.Name == "biz2" {
					return &arklet.Answer{Code: "FAILED", Message: "java.io.FileNotFoundException: /m/biz2.jar"}
				}
				return nil
			}
		})
		w.create("p1", container("biz1", "1"), container("biz2", "1"))
		w.advance(time.Second)
		w.wantSummary("p1", "Pending InstallModuleFailed")
		w.base.change(func(b *fakeBase) { b.installAnswer = nil })
		w.advance(time.Minute)
		w.wantSummary("p1", "Running Ready")
		w.delete("p1")
		w.advance(5 * time.Second)
		w.wantSummary("p1", "gone")
	})
	runTest(t, "a module that is already installed is not installed again", Options{}, func(t *testing.T, w *fixture) {
		w.base.install(arklet.Module{Name: "biz1", Version: "1"})
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.wantSummary("p1", "Running Ready")
		// The controller requests the module list before it plans.
		wantEqual(t, "commands", []string(nil), w.base.takeCommands())
	})
	runTest(t, "a module that is no longer on the base counts as uninstalled", Options{},
		func(_ *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) { b.modules = nil })
			w.delete("p1")
			w.advance(5 * time.Second)
			w.wantSummary("p1", "gone")
		})
	var results []string
	record := func(o CommandResult) {
		results = append(results, string(o.Request.Command)+" "+o.Answer.DataCode+string(o.Code))
	}
	runTest(t, "a refused command that was already executed is not a failure",
		Options{Drain: -1, CommandFinished: record},
		func(t *testing.T, w *fixture) {
			w.create("warm", container("other", "1")) // so that the module list is known
			w.advance(time.Second)
			w.base.install(arklet.Module{Name: "biz1", Version: "1"})
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.wantSummary("p1", "Running Ready")
			w.base.change(func(b *fakeBase) { b.modules = nil })
			w.delete("p1")
			w.advance(5 * time.Second)
			w.wantSummary("p1", "gone")
			wantEqual(t, "answers and codes",
				[]string{"installBiz SUCCESS", "installBiz REPEAT_BIZ", "uninstallBiz NOT_FOUND_BIZ"}, results[:3])
		})
	runTest(t, "modules that no Pod requested stay", Options{}, func(t *testing.T, w *fixture) {
		w.base.install(arklet.Module{Name: "biz1", Version: "0"})
		w.base.install(arklet.Module{Name: "other", Version: "1"})
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.delete("p1")
		w.advance(5 * time.Second)
		wantEqual(t, "modules", map[string]string{"biz1:0": "deactivated", "other:1": "activated"}, w.base.states())
	})
	runTest(t, "two Pods with the same module: it is uninstalled with the last one", Options{},
		func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.create("p2", container("biz1", "1"))
			w.advance(time.Second)
			w.wantSummary("p1", "Running Ready")
			w.wantSummary("p2", "Running Ready")
			wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
			w.delete("p1")
			w.advance(5 * time.Second)
			w.wantSummary("p1", "gone")
			w.wantSummary("p2", "Running Ready")
			w.delete("p2")
			w.advance(5 * time.Second)
			wantEqual(t, "modules", map[string]string{}, w.base.states())
		})
}

func TestDeletion(t *testing.T) {
	runTest(t, "a Pod stays until its module is uninstalled", Options{Drain: -1}, func(_ *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.base.change(func(b *fakeBase) { b.delay = 10 * time.Second })
		w.delete("p1")
		w.advance(9 * time.Second)
		w.wantSummary("p1", "Running Ready")
		w.advance(2 * time.Second)
		w.wantSummary("p1", "gone")
	})
	runTest(t, "but not after its grace period; the uninstall continues", Options{Drain: -1},
		func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) { b.ignoreAll = true })
			w.delete("p1")
			w.advance(29 * time.Second)
			w.wantSummary("p1", "Running Ready")
			w.advance(2 * time.Second)
			w.wantSummary("p1", "gone")
			w.base.change(func(b *fakeBase) { b.ignoreAll = false })
			w.advance(3 * time.Minute)
			wantEqual(t, "modules", map[string]string{}, w.base.states())
			if w.PodCount() != 0 {
				t.Errorf("%d Pods remain, want 0", w.PodCount())
			}
		})
	runTest(t, "a failed stop handler is reported, and does not block the deletion", Options{Drain: -1},
		func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) { b.stopFails = true })
			w.delete("p1")
			w.advance(time.Second)
			w.wantSummary("p1", "gone")
			if e := w.nextEvent(); !strings.Contains(e, "Arklet.UninstallBizFailed") {
				t.Errorf("unexpected Event %q", e)
			}
		})
	runTest(t, "a failed uninstall is reported and retried", Options{Drain: -1}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.base.change(func(b *fakeBase) { b.ignoreAll = true })
		w.delete("p1")
		w.advance(70 * time.Second)
		if e := w.nextEvent(); !strings.Contains(e, "UninstallBizTimedOut") {
			t.Errorf("unexpected Event %q", e)
		}
	})
}

func (w *fixture) nextEvent() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return "no event"
	}
}

// TestCredentialsOfJarURLsAreMasked checks that logs, Events and status messages do not contain the credentials in a
// jar URL.
func TestCredentialsOfJarURLsAreMasked(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	runTest(t, "install, replacement, failure, invalid URL, uninstall", Options{Logger: logger},
		func(t *testing.T, w *fixture) {
			jar := func(path string) arklet.Module {
				return arklet.Module{Name: "biz1", Version: "1",
					URL: "https://u:hunter2@h/" + path + "?Signature=hunter3"}
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
				w.advance(time.Minute)
				status := w.pod("p1").Status
				for _, c := range status.ContainerStatuses {
					log.WriteString(c.State.String() + c.LastTerminationState.String())
				}
				fmt.Fprintln(&log, status.Conditions)
			}
			w.create("p1", pod(jar("a.jar")))
			w.advance(time.Second)
			update(jar("b.jar"))
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(m arklet.Module) *arklet.Answer {
					return &arklet.Answer{Code: "FAILED", Message: arklet.SanitizeText("cannot read " + m.URL)}
				}
			})
			update(jar("c.jar"))
			update(jar("%zz"))
			w.delete("p1")
			w.advance(time.Minute)
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
				t.Errorf("%d masked URLs, want at least 4:\n%s", n, log.String())
			}
		})
}

func TestFailures(t *testing.T) {
	runTest(t, "Pod without a version", Options{}, func(t *testing.T, w *fixture) {
		c := container("biz1", "1")
		c.Env = nil
		w.create("p1", c)
		w.advance(2 * time.Second)
		w.wantSummary("p1", "Pending InvalidParameter")
		if e := w.nextEvent(); !strings.Contains(e, "OtherUpstream.InvalidParameter") {
			t.Errorf("unexpected Event %q", e)
		}
		w.advance(5 * time.Minute)
		if e := w.nextEvent(); e != "no event" {
			t.Errorf("second Event: %q", e)
		}
		w.delete("p1")
		w.advance(5 * time.Second)
		w.wantSummary("p1", "gone")
	})
	runTest(t, "an error code that arklet and the controller share occurs once", Options{},
		func(t *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(arklet.Module) *arklet.Answer {
					return &arklet.Answer{Code: "FAILED", Message: "java.io.IOException: No space left on device"}
				}
			})
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.wantSummary("p1", "Pending DiskFull")
			if e := w.nextEvent(); strings.Count(e, "User.DiskFull") != 1 {
				t.Errorf("unexpected Event %q", e)
			}
		})
	for name, c := range map[string]struct {
		send   error // error of the tunnel; nil means that the base answers with answer
		answer arklet.Answer
		want   string
		code   string
	}{
		"the tunnel cannot send the command": {errors.New("connection reset by peer"), arklet.Answer{},
			"Pending NetworkError", "Arklet.NetworkError: "},
		"the base was removed": {base.ErrUnknownBase, arklet.Answer{}, "Pending BaseInstanceNotFound",
			"ModuleController.BaseInstanceNotFound: "},
		"the old version cannot be stopped": {nil,
			arklet.Answer{Code: "FAILED", ErrorCode: "Arklet.InstallBizTimedOut", Message: "stop"},
			"Pending InstallModuleFailed", "Arklet.InstallModuleFailed: Arklet.InstallBizTimedOut: "},
	} {
		runTest(t, "error code: "+name, Options{}, func(t *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) {
				b.sendError = c.send
				b.installAnswer = func(arklet.Module) *arklet.Answer { return &c.answer }
			})
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.wantSummary("p1", c.want)
			if e := w.nextEvent(); !strings.Contains(e, c.code) {
				t.Errorf("Event %q, want one with %q", e, c.code)
			}
			w.base.change(func(b *fakeBase) { b.sendError, b.installAnswer = nil, nil })
			w.advance(5 * time.Second)
			w.wantSummary("p1", "Running Ready")
		})
	}
	runTest(t, "a broken module is uninstalled and installed again", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) {
			b.modules = []arklet.Biz{
				{Name: "biz1", Version: "1", State: arklet.StateBroken}}
		})
		w.create("p1", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "commands", []string{"uninstallBiz biz1:1", "installBiz biz1:1"}, w.base.takeCommands())
	})
	runTest(t, "no answer before the timeout", Options{InstallTimeout: 30 * time.Second},
		func(_ *testing.T, w *fixture) {
			w.create("warm", container("other", "1")) // so that the module list is known
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) { b.ignoreAll = true })
			w.create("p1", container("biz1", "1"))
			w.advance(31 * time.Second)
			w.wantSummary("p1", "Pending InstallModuleTimedOut")
			w.base.change(func(b *fakeBase) { b.ignoreAll = false })
			w.advance(time.Minute)
			w.wantSummary("p1", "Running Ready")
		})
	runTest(t, "failures of versions that no Pod requests any more are removed", Options{},
		func(t *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(arklet.Module) *arklet.Answer {
					return &arklet.Answer{Code: "FAILED",
						Message: "boom"}
				}
			})
			w.create("p1", container("biz1", "1"))
			for i := range 5 {
				w.advance(time.Second)
				pod := w.pod("p1")
				pod.Spec.Containers[0] = container("biz1", fmt.Sprint("2.", i))
				w.update(pod)
			}
			w.advance(time.Second)
			w.store.withReadLock(func() {
				if n := len(w.store.slot(slotKey{"a", "biz1"}).memory.Failed); n != 1 {
					t.Errorf("%d failures, want 1, of the requested version", n)
				}
			})
		})
	runTest(t, "modules are installed again after a restart of the base", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.base.takeCommands()
		w.base.loseModules()
		w.advance(2 * time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
}

func TestUnreachableBase(t *testing.T) {
	runTest(t, "Pods turn Not Ready immediately, and Ready when the base is reachable again", Options{},
		func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.advance(26 * time.Second)
			w.registry.Sweep()
			w.advance(time.Millisecond)
			w.wantSummary("p1", "Running")
			ready := podstatus.Condition(&w.pod("p1").Status, corev1.PodReady)
			if ready.Reason != "BaseInstanceNotReady" ||
				!strings.Contains(ready.Message, "ModuleController.BaseInstanceNotReady") {
				t.Errorf("unexpected condition %s: %s", ready.Reason, ready.Message)
			}
			w.sendHeartbeat()
			w.advance(time.Second)
			w.wantSummary("p1", "Running Ready")
		})
	runTest(t, "Pods are Not Ready while the base is deactivated", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		report := func(state arklet.State) {
			w.registry.SetHealth(tunnel.Origin{Tunnel: w.base.key, Identity: "a"}, arklet.Health{State: state})
			w.advance(time.Second)
		}
		report(arklet.StateDeactivated)
		w.wantSummary("p1", "Running")
		ready := podstatus.Condition(&w.pod("p1").Status, corev1.PodReady)
		if !strings.Contains(ready.Message, "deactivated") {
			t.Errorf("unexpected condition %s: %s", ready.Reason, ready.Message)
		}
		report(arklet.StateActivated)
		w.wantSummary("p1", "Running Ready")
	})
	runTest(t, "Pods are deleted with the base", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		if err := w.DeletePods(t.Context(), "a", "vnode.a"); err != nil {
			t.Fatal(err)
		}
		w.wantSummary("p1", "gone")
	})
}

func TestServeAgain(t *testing.T) {
	runTest(t, "modules stay while another controller serves the base", Options{},
		func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.base.takeCommands()
			w.StopServing("a", "vnode.a")
			w.create("p2", container("biz2", "1"))
			w.advance(5 * time.Second)
			wantEqual(t, "commands while another controller serves the base", []string(nil), w.base.takeCommands())
			w.delete("p1")
			w.Serve("a", "vnode.a", "")
			w.advance(5 * time.Second)
			w.wantSummary("p1", "gone")
			w.wantSummary("p2", "Running Ready")
			wantEqual(t, "modules", map[string]string{"biz2:1": "activated"}, w.base.states())
		})
	runTest(t, "all Pods are added before the first action", Options{},
		func(t *testing.T, w *fixture) {
			w.create("old", container("biz1", "1"))
			w.advance(time.Second)
			w.StopServing("a", "vnode.a")
			w.create("new", container("biz1", "2"))
			w.advance(time.Second)
			w.Serve("a", "vnode.a", "")
			wantEqual(t, "Pods after Serve", 2, w.PodCount())
			w.advance(5 * time.Second)
			w.wantSummary("old", "Running BizDeactivate")
			w.wantSummary("new", "Running Ready")
		})
}

func TestTolerations(t *testing.T) {
	runTest(t, "", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *fixture) {
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
			w.advance(time.Second)
			wantEqual(t, name, c.want, w.pod(name).Spec.Tolerations)
		}
	})
}
