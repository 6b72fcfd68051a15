package vpod

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/unsupported"
)

// TestInterruptedDeletionIsRepeated interrupts the deletion of a Pod. The API server deletes a Pod in two steps: it
// sets a grace period of 0, and then removes the Pod. If the client stops after the first step, the next controller
// must delete the Pod again.
func TestInterruptedDeletionIsRepeated(t *testing.T) {
	runTest(t, "", Options{Drain: -1}, func(t *testing.T, w *fixture) {
		w.create("p", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.wantSummary("p", "Running Ready")
		w.StopServing("a", "vnode.a")
		pod := w.pod("p").DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
		w.update(pod)
		w.advance(time.Second)
		w.sendHeartbeat()
		w.Serve("a", "vnode.a", "")
		w.advance(5 * time.Second)
		w.wantSummary("p", "gone")
		wantEqual(t, "modules", map[string]string{}, w.base.states())
	})
}

// TestPodIsNotDeletedTwice checks that the controller does not delete a Pod a second time when it receives the event
// that the API server sends before it removes a Pod that was deleted without a grace period.
func TestPodIsNotDeletedTwice(t *testing.T) {
	runTest(t, "", Options{}, func(t *testing.T, w *fixture) {
		w.create("p", container("biz1", "1"))
		w.advance(2 * time.Second)
		before := len(writes(w))
		pod := w.pod("p").DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
		w.update(pod)
		w.advance(time.Minute)
		wantEqual(t, "writes", []string{}, writes(w)[before:])
		w.forceDelete("p")
		w.advance(10 * time.Second)
		wantEqual(t, "modules", map[string]string{}, w.base.states())
	})
}

// TestReadinessFollowsTheModuleList checks that a module list updates the Pod status immediately, even while a
// command is in progress.
func TestReadinessFollowsTheModuleList(t *testing.T) {
	runTest(t, "module uninstalled by another client, and installs not answered", Options{},
		func(_ *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.wantSummary("p1", "Running Ready")
			w.base.change(func(b *fakeBase) { b.modules, b.ignore = nil, arklet.CommandInstallBiz })
			w.base.sendList()
			w.advance(100 * time.Millisecond)
			w.wantSummary("p1", "Running ContainerCreating")
			w.advance(20 * time.Second)
			w.wantSummary("p1", "Running ContainerCreating")
		})
	runTest(t, "only version deactivated, and installs slow", Options{},
		func(_ *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) {
				b.delay = 30 * time.Second
				b.set(0, arklet.StateDeactivated,
					"STARTED")
			})
			w.base.sendList()
			w.advance(100 * time.Millisecond)
			w.wantSummary("p1", "Running BizNotActivated") // it is being uninstalled before the reinstall
			w.advance(61 * time.Second)
			w.wantSummary("p1", "Running Ready")
		})
	runTest(t, "install of another module on the same base not answered", Options{Workers: 1},
		func(_ *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) { b.ignore = arklet.CommandInstallBiz })
			w.create("p2", container("biz2", "1"))
			w.advance(2 * time.Second)
			w.base.change(func(b *fakeBase) { b.modules = nil })
			w.base.sendList()
			w.advance(100 * time.Millisecond)
			w.wantSummary("p1", "Running ContainerCreating")
		})
	runTest(t, "status writes rejected for a while", Options{}, func(_ *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.base.change(func(b *fakeBase) { b.modules, b.ignore = nil, arklet.CommandInstallBiz })
		w.refuseStatusWrites(true)
		w.base.sendList()
		w.advance(2 * time.Minute)
		w.wantSummary("p1", "Running Ready")
		w.refuseStatusWrites(false)
		w.advance(maxPublishDelay)
		w.wantSummary("p1", "Running ContainerCreating")
	})
}

// TestReadinessIsCorrectedAfterForeignWrite checks that the controller sets a Pod Ready again after the node
// lifecycle controller has marked it Not Ready, as the kubelet does.
func TestReadinessIsCorrectedAfterForeignWrite(t *testing.T) {
	runTest(t, "", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Minute)
		w.wantSummary("p1", "Running Ready")
		p := w.pod("p1")
		ready := podstatus.Condition(&p.Status, corev1.PodReady)
		ready.Status, ready.Reason = corev1.ConditionFalse, "NodeNotReady" // as the node lifecycle controller does
		// includes the next write; the controller may respond immediately
		before := w.statusWrites() + 1
		if _, err := w.api.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		w.wantSummary("p1", "Running Ready")
		w.advance(time.Minute)
		if n := w.statusWrites() - before; n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
	})
}

// TestDeletionDuringStatusWrite deletes a Pod while the controller writes its status as Ready. The module of the Pod
// must be drained nevertheless.
func TestDeletionDuringStatusWrite(t *testing.T) {
	runTest(t, "", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(time.Minute)
		deleted := false
		w.api.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			pod := a.(clienttesting.UpdateAction).GetObject().(*corev1.Pod)
			if deleted || !podstatus.IsReady(&pod.Status) {
				return false, nil, nil
			}
			deleted = true
			pods := corev1.SchemeGroupVersion.WithResource("pods")
			stored, err := w.api.Tracker().Get(pods, pod.Namespace, pod.Name)
			if err != nil {
				return true, nil, err
			}
			terminating := nextVersion(stored)
			terminating.DeletionTimestamp, terminating.DeletionGracePeriodSeconds = ptr.To(
				metav1.NewTime(time.Now().Add(30*time.Second))), ptr.To(int64(30))
			if err := w.api.Tracker().Update(pods, terminating, terminating.Namespace); err != nil {
				return true, nil, err
			}
			for seen := false; !seen; goruntime.Gosched() { // until the controller has received the event
				w.store.withReadLock(func() { seen = w.store.byUID[pod.UID].deleting })
			}
			return false, nil, nil
		})
		p := w.pod("p1")
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].Status = corev1.ConditionFalse
		}
		if _, err := w.api.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.advance(api.Drain - 100*time.Millisecond)
		if !deleted {
			t.Fatal("the Pod was not written Ready")
		}
		wantEqual(t, "modules during the drain", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.advance(time.Second)
		wantEqual(t, "modules after the drain", map[string]string{}, w.base.states())
	})
}

// TestPodIsRecreatedWithTheSameName checks that a Pod that a StatefulSet recreates under the same name becomes Ready,
// and that the base then has exactly the requested version. The Pod is recreated immediately or later, possibly while
// a command is in progress.
func TestPodIsRecreatedWithTheSameName(t *testing.T) {
	for _, key := range []string{"mqtt", "http"} {
		for _, gap := range []time.Duration{0, 2 * time.Second} {
			for _, version := range []string{"1", "2"} {
				for name, under := range map[string]struct{ before, after time.Duration }{
					"no command in progress": {10 * time.Second, 0},
					"install in progress":    {500 * time.Millisecond, 0},
					"uninstall in progress":  {10 * time.Second, 3 * time.Second},
				} {
					runTest(t, fmt.Sprintf("%s, recreated after %s, version %s, %s", key, gap, version, name),
						Options{},
						func(t *testing.T, w *fixture) {
							if key == "http" {
								w.overHTTP()
							}
							w.base.change(func(b *fakeBase) { b.delay = 3 * time.Second })
							w.create("p1", container("biz1", "1"))
							w.advance(under.before)
							// deleted with a grace period first, so that the module is drained and is being uninstalled
							if under.after > 0 {
								w.delete("p1")
								w.advance(under.after)
							}
							w.forceDelete("p1")
							w.advance(gap)
							w.create("p1", container("biz1", version))
							w.advance(30 * time.Second)
							w.wantSummary("p1", "Running Ready")
							wantEqual(t, "modules", map[string]string{"biz1:" + version: "activated"}, w.base.states())
						})
				}
			}
		}
	}
}

// TestNewPodNeedsANewModuleList checks that a new Pod becomes Ready only after the base has sent a module list that
// is newer than the Pod and contains the module. An older list is not sufficient, because the base may have restarted
// since then.
func TestNewPodNeedsANewModuleList(t *testing.T) {
	runTest(t, "module lost, and not reported yet", Options{}, func(_ *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.delay = 3 * time.Second })
		w.create("p1", container("biz1", "1"))
		w.advance(10 * time.Second)
		w.base.change(func(b *fakeBase) { b.modules = nil })
		w.create("p2", container("biz1", "1"))
		w.advance(time.Second)
		w.wantSummary("p1", "Running ContainerCreating")
		w.wantSummary("p2", "Pending ContainerCreating")
		w.advance(5 * time.Second)
		w.wantSummary("p2", "Running Ready")
	})
	runTest(t, "base does not send its module list", Options{}, func(_ *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(10 * time.Second)
		w.base.change(func(b *fakeBase) { b.modules, b.ignore = nil, arklet.CommandQueryAllBiz })
		w.create("p2", container("biz1", "1"))
		w.advance(30 * time.Second)
		w.wantSummary("p1", "Running Ready")
		w.wantSummary("p2", "") // no status was written
		w.base.change(func(b *fakeBase) { b.ignore = "" })
		w.advance(time.Minute)
		w.wantSummary("p2", "Running Ready")
	})
	runTest(t, "install of another version not answered", Options{}, func(_ *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(10 * time.Second)
		w.base.change(func(b *fakeBase) { b.ignore = arklet.CommandInstallBiz })
		w.create("p2", container("biz1", "2"))
		w.advance(time.Second)
		w.create("p3", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.wantSummary("p3", "Running Ready")
	})
	runTest(t, "two modules in a Pod", Options{}, func(_ *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"), container("biz2", "1"))
		w.advance(10 * time.Second)
		w.create("p2", container("biz1", "1"), container("biz2", "1"))
		w.advance(time.Second)
		w.wantSummary("p2", "Running Ready")
	})
}

func (w *fixture) forceDelete(name string) {
	w.t.Helper()
	if err := w.api.CoreV1().Pods("default").Delete(w.t.Context(), name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		w.t.Fatal(err)
	}
}

// containerWithJar returns a container of biz1 with the given image file.
func containerWithJar(version, file string) corev1.Container {
	c := container("biz1", version)
	c.Image = "file:///m/" + file + ".jar"
	return c
}

// setImage changes only the image of a Pod, because Kubernetes does not allow changes of other container fields.
func (w *fixture) setImage(name, file string) {
	w.t.Helper()
	p := w.pod(name)
	p.Spec.Containers[0].Image = "file:///m/" + file + ".jar"
	w.update(p)
}

// currentCondition returns the status and the reason of the Pod condition api.ConditionCurrent, and the image ID.
func (w *fixture) currentCondition(name string) string {
	p := w.pod(name)
	c := podstatus.Condition(&p.Status, api.ConditionCurrent)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, p.Status.ContainerStatuses[0].ImageID)
}

// TestImageChangeWithoutVersionChange checks that a changed image of a Pod replaces the jar of its module (Module
// Controller V2 document 5.1), even if the version stays the same.
func TestImageChangeWithoutVersionChange(t *testing.T) {
	runTest(t, "changed in place: drained, uninstalled, installed again", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", containerWithJar("1", "first"))
		w.advance(time.Second)
		wantEqual(t, "condition", "True Installed file:///m/first.jar", w.currentCondition("p1"))
		w.base.takeCommands()
		w.setImage("p1", "second")
		w.advance(time.Second)
		w.wantSummary("p1", "Running ReplacingSameVersion")
		wantEqual(t, "modules during the drain", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.advance(api.Drain)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "commands", []string{"uninstallBiz biz1:1", "installBiz biz1:1"}, w.base.takeCommands())
		wantEqual(t, "jar", "file:///m/second.jar", w.base.urls["biz1:1"])
		wantEqual(t, "uninstalled jars", []string{"file:///m/first.jar"}, w.base.uninstalledURLs)
		wantEqual(t, "condition", "True ReplacedInPlace file:///m/second.jar", w.currentCondition("p1"))
		if e := w.nextEvent(); !strings.Contains(e, "SameVersionReplaced") {
			t.Errorf("unexpected Event %q", e)
		}
	})
	runTest(t, "new Pod of a Deployment: the old Pod serves until the base gets the permit", Options{},
		func(t *testing.T, w *fixture) {
			w.create("old", containerWithJar("1", "first"))
			w.advance(time.Second)
			w.create("new", containerWithJar("1", "second"))
			w.advance(500 * time.Millisecond)
			w.wantSummary("new", "Pending ReplacingSameVersion")
			w.advance(5 * time.Second)
			w.wantSummary("old", "Running BizDeactivate")
			w.wantSummary("new", "Running Ready")
			// the time of this write is not deterministic
			order := slices.DeleteFunc(w.readiness(), func(s string) bool { return s == "new=NotReady" })
			wantEqual(t, "order", []string{"old=Ready", "old=NotReady", "new=Ready"}, order)
			w.delete("old")
			w.advance(10 * time.Second)
			w.wantSummary("old", "gone")
			wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
		})
	runTest(t, "same image: no command, and the condition shows it", Options{}, func(t *testing.T, w *fixture) {
		w.create("old", containerWithJar("1", "first"))
		w.advance(time.Second)
		w.base.takeCommands()
		w.create("new", containerWithJar("1", "first"))
		w.advance(time.Second)
		w.wantSummary("new", "Running Ready")
		wantEqual(t, "condition", "True Unchanged file:///m/first.jar", w.currentCondition("new"))
		wantEqual(t, "commands", []string(nil), w.base.takeCommands())
	})
	runTest(t, "changed while no controller served the base", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", containerWithJar("1", "first"))
		w.advance(time.Second)
		w.StopServing("a", "vnode.a")
		w.setImage("p1", "second")
		w.advance(time.Second)
		w.Serve("a", "vnode.a", "")
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "jar", "file:///m/second.jar", w.base.urls["biz1:1"])
	})
	runTest(t, "takeover without a change: no command", Options{},
		func(t *testing.T, w *fixture) {
			w.create("p1", containerWithJar("1", "first"))
			w.advance(time.Second)
			w.base.takeCommands()
			w.StopServing("a", "vnode.a")
			w.Serve("a", "vnode.a", "")
			w.advance(5 * time.Second)
			wantEqual(t, "commands", []string(nil), w.base.takeCommands())
			wantEqual(t, "condition", "True Installed file:///m/first.jar", w.currentCondition("p1"))
		})
	runTest(t, "new jar fails: the jar of the older Pod is restored, and the next attempt is delayed", Options{},
		func(t *testing.T, w *fixture) {
			w.create("old", containerWithJar("1", "first"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(m arklet.Module) *arklet.Answer {
					if strings.Contains(m.URL, "second") {
						return &arklet.Answer{Code: "FAILED", Message: "boom"}
					}
					return nil
				}
			})
			w.create("new", containerWithJar("1", "second"))
			w.advance(10 * time.Second)
			w.wantSummary("old", "Running Ready")
			w.wantSummary("new", "Pending InstallModuleFailed")
			w.base.takeCommands()
			w.advance(4 * time.Minute)
			wantEqual(t, "commands", []string(nil), w.base.takeCommands())
		})
	runTest(t, "with KeepSameVersion: no command", Options{KeepSameVersion: true}, func(t *testing.T, w *fixture) {
		w.create("p1", containerWithJar("1", "first"))
		w.advance(time.Second)
		w.base.takeCommands()
		w.setImage("p1", "second")
		w.advance(10 * time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "commands", []string(nil), w.base.takeCommands())
	})
}

// TestImageChangesDuringInstalls changes the image faster than the base can install the jars. In the end, the base
// must have the last jar.
func TestImageChangesDuringInstalls(t *testing.T) {
	runTest(t, "several changes during one install", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.delay = 2 * time.Second })
		w.create("p1", containerWithJar("1", "v0"))
		for i := range 6 {
			w.advance(time.Second)
			w.setImage("p1", fmt.Sprintf("v%d", i+1))
		}
		w.advance(time.Minute)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "jar", "file:///m/v6.jar", w.base.urls["biz1:1"])
		if len(w.store.replacePermits) > 0 {
			t.Error("the replace permit was not released")
		}
	})
	runTest(t, "base refuses because another install is in progress", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", containerWithJar("1", "v0"))
		w.advance(time.Second)
		busy := true
		w.base.change(func(b *fakeBase) {
			b.installAnswer = func(m arklet.Module) *arklet.Answer {
				if busy {
					busy = false
					// the other install ends in the meantime
					b.install(arklet.Module{Name: m.Name, Version: m.Version, URL: "file:///m/other.jar"})
					return &arklet.Answer{Code: "FAILED",
						Message: "FAILED:biz1:1 installBiz conflict, exist unfinished command(installBiz) for this biz"}
				}
				return nil
			}
		})
		w.setImage("p1", "v1")
		w.advance(time.Minute)
		if len(w.store.replacePermits) > 0 {
			t.Error("the replace permit was not released")
		}
	})
}

// TestReplacePermitIsReleasedWithoutAnAnswer checks that the replace permit is released if the jar was installed but
// the answer of the base was lost.
func TestReplacePermitIsReleasedWithoutAnAnswer(t *testing.T) {
	runTest(t, "connection lost", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", containerWithJar("1", "v0"))
		w.advance(time.Second)
		w.base.change(func(b *fakeBase) { b.ignore = arklet.CommandInstallBiz })
		w.setImage("p1", "v1")
		w.advance(10 * time.Second)
		w.base.change(func(b *fakeBase) {
			b.ignore = ""
			b.install(arklet.Module{Name: "biz1", Version: "1", URL: "file:///m/v1.jar"})
		})
		w.requests.FailPending("a", "the connection was lost")
		synctest.Wait()
		w.base.answer("a", arklet.Request{Command: arklet.CommandQueryAllBiz}) // before the next attempt
		w.advance(time.Minute)
		w.wantSummary("p1", "Running Ready")
		if len(w.store.replacePermits) > 0 {
			t.Error("the replace permit was not released")
		}
	})
}

// TestReplacePermitIsReleasedWhenPodsChange checks that the replace permit is released even if, during the
// replacement, a Pod from another namespace is bound to the base or the replaced Pod is force-deleted.
func TestReplacePermitIsReleasedWhenPodsChange(t *testing.T) {
	for name, then := range map[string]func(w *fixture){
		"Pod of another namespace added": func(w *fixture) {
			p := w.pod("p1")
			p.ResourceVersion, p.Namespace, p.UID, p.Status = "", "another", "uid-another", corev1.PodStatus{}
			if _, err := w.api.CoreV1().Pods("another").Create(w.t.Context(), p, metav1.CreateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		},
		"Pod force-deleted": func(w *fixture) {
			w.forceDelete("p1")
		},
	} {
		runTest(t, name, Options{}, func(t *testing.T, w *fixture) {
			w.create("p1", containerWithJar("1", "v0"))
			w.advance(time.Second)
			w.setImage("p1", "v1")
			w.advance(time.Second)
			w.wantSummary("p1", "Running ReplacingSameVersion")
			if w.store.replacePermits["default/biz1"].identity != "a" {
				t.Fatal("the base does not have the permit")
			}
			then(w)
			w.advance(time.Minute)
			if len(w.store.replacePermits) > 0 {
				t.Errorf("permits remain: %v", w.store.replacePermits)
			}
		})
	}
}

func TestReplacePermitIsExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(func(*corev1.Pod) bool { return false })
		a, b, other := slotKey{"a", "biz1"}, slotKey{"b", "biz1"}, slotKey{"b", "biz2"}
		for _, key := range []slotKey{a, b, other} {
			s.ensureSlot(key)
		}
		acquire := func(when string, key slotKey, served, want bool) {
			t.Helper()
			if got := s.acquireReplacePermit(key, "default/"+key.module, served, replaceTimeout); got != want {
				t.Errorf("%s: acquired is %t, want %t", when, got, want)
			}
		}
		acquire("while no other base serves", a, false, false)
		acquire("when another base serves", a, true, true)
		acquire("a second time", a, true, true)
		acquire("while another base has the permit", b, true, false)
		acquire("for another module", other, true, true)
		s.releaseReplacePermit(a)
		acquire("after the release", b, true, true)
		s.releaseReplacePermit(b)
		acquire("while no other base serves, again", a, false, false)
		time.Sleep(replaceTimeout - 1)
		acquire("just before the timeout", a, false, false)
		time.Sleep(time.Nanosecond)
		acquire("after the timeout", a, false, true)
	})
}

func TestModulesAreUninstalledAfterTheirPodsAreGone(t *testing.T) {
	runTest(t, "Pod force-deleted while the base was unreachable", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(27 * time.Second)
		w.registry.Sweep()
		w.forceDelete("p1")
		w.advance(10 * time.Second)
		w.sendHeartbeat()
		w.base.sendList()
		w.advance(5 * time.Second)
		wantEqual(t, "modules", map[string]string{}, w.base.states())
		wantEqual(t, "install record", "", w.InstallRecord("a"))
	})
	runTest(t, "Pod force-deleted while no controller served the base", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "static"}) })
		w.create("p1", container("biz1", "1"))
		w.advance(5 * time.Second)
		installRecord := w.InstallRecord("a")
		wantEqual(t, "install record", `[{"n":"biz1","v":"1","u":"file:///m/biz1-1.jar"}]`, installRecord)
		w.StopServing("a", "vnode.a")
		w.forceDelete("p1")
		w.advance(time.Second)
		w.Serve("a", "vnode.a", installRecord)
		w.advance(5 * time.Second)
		wantEqual(t, "modules", map[string]string{"biz1:static": "deactivated"}, w.base.states())
	})
	runTest(t, "late install of an earlier controller", Options{}, func(t *testing.T, w *fixture) {
		w.StopServing("a", "vnode.a")
		w.Serve("a", "vnode.a", `[{"n":"biz1","v":"1","u":"file:///m/biz1-1.jar"}]`)
		w.base.sendList()
		w.advance(5 * time.Second)
		w.base.change(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) })
		w.base.sendList()
		w.advance(5 * time.Second)
		wantEqual(t, "modules", map[string]string{}, w.base.states())
		wantEqual(t, "install record", "", w.InstallRecord("a"))
	})
	runTest(t, "late install that timed out", Options{InstallTimeout: 30 * time.Second},
		func(t *testing.T, w *fixture) {
			w.create("warm", container("other", "1"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) { b.ignore = arklet.CommandInstallBiz })
			w.create("p1", container("biz1", "1"))
			w.advance(35 * time.Second)
			w.delete("p1")
			w.advance(35 * time.Second)
			w.wantSummary("p1", "gone")
			w.base.change(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) })
			w.base.sendList()
			w.advance(5 * time.Second)
			wantEqual(t, "modules", map[string]string{"other:1": "activated"}, w.base.states())
		})
	runTest(t, "Pod requests the version while its uninstall waits for the command limit", Options{Workers: 1},
		func(_ *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(2 * time.Second)
			w.base.change(func(b *fakeBase) { b.delay = time.Minute })
			w.create("other", container("biz2", "1"))
			w.delete("p1")
			w.advance(5 * time.Second)
			w.create("p2", container("biz1", "1"))
			w.advance(2 * time.Second)
			w.wantSummary("p2", "Running Ready")
		})
	for version, commands := range map[string][]string{"1": nil, "2": {"installBiz biz1:2", "uninstallBiz biz1:1"},
		"": {"uninstallBiz biz1:1"}} {
		runTest(t, "Pod requests version "+strconv.Quote(version)+" after an uninstall was lost and"+
			" before it is resent", Options{}, func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"))
			w.advance(2 * time.Second)
			w.base.change(func(b *fakeBase) { b.listsEndCommands, b.ignore = true, arklet.CommandUninstallBiz })
			w.delete("p1")
			w.advance(4 * time.Second)
			wantEqual(t, "commands", []string{"installBiz biz1:1", "uninstallBiz biz1:1"}, w.base.takeCommands())
			w.base.change(func(b *fakeBase) { b.ignore = "" })
			if version != "" { // otherwise there is no new Pod
				w.create("p2", container("biz1", version))
			}
			w.advance(15 * time.Second)
			wantEqual(t, "commands", commands, w.base.takeCommands())
			w.wantSummary("p1", "gone")
			if version != "" {
				w.wantSummary("p2", "Running Ready")
			}
		})
	}
	runTest(t, "Pod requests another version while an install is not answered", Options{},
		func(t *testing.T, w *fixture) {
			w.create("warm", container("other", "1"))
			w.advance(time.Second)
			w.base.change(func(b *fakeBase) { b.ignore = arklet.CommandInstallBiz })
			w.create("p1", container("biz1", "1"))
			w.advance(5 * time.Second)
			w.base.change(func(b *fakeBase) { b.ignore = "" })
			w.forceDelete("p1")
			w.create("p2", container("biz1", "2"))
			w.advance(2 * time.Second)
			w.wantSummary("p2", "Running Ready")
			w.base.change(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) }) // late
			w.base.sendList()
			w.advance(5 * time.Second)
			wantEqual(t, "modules", map[string]string{"biz1:2": "activated", "other:1": "activated"}, w.base.states())
		})
	runTest(t, "baseline that no Pod requests", Options{}, func(t *testing.T, w *fixture) {
		w.ExpectBaseline("a", []arklet.Module{{Name: "biz1", Version: "1", URL: "file:///m/biz1-1.jar"}})
		w.base.change(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) })
		w.base.sendList()
		w.advance(time.Minute)
		wantEqual(t, "modules before the release", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.create("p1", container("biz1", "2")) // a release since the baseline was computed
		w.advance(10 * time.Second)
		wantEqual(t, "modules", map[string]string{"biz1:2": "activated"}, w.base.states())
	})
	runTest(t, "intermediate releases are skipped, and leave no modules", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.mode, b.delay = activateMulti, 3*time.Second })
		for i := range 5 {
			name, version := fmt.Sprintf("p%d", i), fmt.Sprintf("%d", i)
			w.create(name, container("biz1", version))
			if i > 0 {
				w.forceDelete(fmt.Sprintf("p%d", i-1))
			}
			w.advance(time.Second)
		}
		w.advance(time.Minute)
		w.wantSummary("p4", "Running Ready")
		wantEqual(t, "modules", map[string]string{"biz1:4": "activated"}, w.base.states())
	})
}

func TestInstallRetries(t *testing.T) {
	fails := func(b *fakeBase) {
		b.installAnswer = func(arklet.Module) *arklet.Answer { return &arklet.Answer{Code: "FAILED", Message: "boom"} }
	}
	failInstall := func(w *fixture) {
		w.base.change(fails)
		w.create("p1", container("biz1", "1"))
		w.advance(time.Minute)
		w.wantSummary("p1", "Pending RetryTimesExceeded")
		w.base.change(func(b *fakeBase) { b.installAnswer = nil })
	}
	runTest(t, "continue indefinitely", Options{}, func(t *testing.T, w *fixture) {
		failInstall(w)
		m := w.pod("p1").Status.ContainerStatuses[0].State.Waiting.Message
		if next, _, _ := api.CutNextAttempt(m); next.Before(time.Now()) || next.After(time.Now().Add(maxRetryDelay)) {
			t.Errorf("the message does not contain the time of the next attempt: %q", m)
		}
		w.advance(maxRetryDelay)
		w.wantSummary("p1", "Running Ready")
	})
	runTest(t, "immediately after the annotation has changed", Options{}, func(_ *testing.T, w *fixture) {
		failInstall(w)
		p := w.pod("p1")
		p.Annotations = map[string]string{labels.Retry: "now"}
		w.update(p)
		w.advance(time.Second)
		w.wantSummary("p1", "Running Ready")
	})
	runTest(t, "immediately after the base has restarted", Options{}, func(_ *testing.T, w *fixture) {
		failInstall(w)
		w.setRunTime(10 * time.Minute)
		w.setRunTime(time.Second)
		w.advance(time.Second)
		w.wantSummary("p1", "Running Ready")
	})
	runTest(t, "not if the base has installed the module since", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.ignore = arklet.CommandInstallBiz })
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.requests.FailPending("a", "the base has restarted")
		w.base.change(func(b *fakeBase) { // the base installs its baseline, and the controller does not know it
			b.ignore = ""
			b.modules = []arklet.Biz{{Name: "biz1", Version: "1", State: arklet.StateResolved}}
		})
		w.advance(time.Second)
		w.base.change(func(b *fakeBase) { b.set(0, arklet.StateActivated, "STARTED") })
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
	runTest(t, "when more metaspace is free, if the failure was due to metaspace", Options{},
		func(t *testing.T, w *fixture) {
			w.setMetaspaceUsed(200 << 20)
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(arklet.Module) *arklet.Answer {
					return &arklet.Answer{Code: "FAILED", Message: "java.lang.OutOfMemoryError: Metaspace",
						DataMessage: "java.lang.OutOfMemoryError: Metaspace"}
				}
			})
			w.create("p1", container("biz1", "1"))
			w.advance(time.Minute)
			w.base.change(func(b *fakeBase) { b.installAnswer = nil })
			w.base.takeCommands()
			w.setMetaspaceUsed(210 << 20) // less metaspace is free
			w.advance(time.Second)
			wantEqual(t, "commands", []string(nil), w.base.takeCommands())
			w.setMetaspaceUsed(100 << 20)
			w.advance(time.Second)
			w.wantSummary("p1", "Running Ready")
		})
}

func TestPodWithFinalizer(t *testing.T) {
	runTest(t, "terminates as with the kubelet", Options{Drain: -1}, func(t *testing.T, w *fixture) {
		p := w.create("p1", container("biz1", "1"))
		p.Finalizers = []string{"example.com/held"}
		w.update(p)
		w.advance(time.Second)
		w.delete("p1")
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Succeeded")
		c := w.pod("p1").Status.ContainerStatuses[0]
		if c.State.Terminated == nil || c.Ready {
			t.Errorf("container is not terminated: %+v", c)
		}
		wantEqual(t, "modules", map[string]string{}, w.base.states())
		if w.PodCount() != 0 {
			t.Errorf("%d Pods remain, want 0", w.PodCount())
		}
	})
}

// TestRequestedMemory checks that RequestedMemory computes the memory of Pods by the rules of the scheduler.
func TestRequestedMemory(t *testing.T) {
	memory := func(mi int64) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(mi<<20, resource.BinarySI)}}
	}
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   int64
	}{
		"containers":          {func(*corev1.Pod) {}, 60},
		"Pod-level resources": {func(p *corev1.Pod) { p.Spec.Resources = ptr.To(memory(100)) }, 100},
		"overhead":            {func(p *corev1.Pod) { p.Spec.Overhead = memory(5).Requests }, 65},
		"init container": {
			func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Resources: memory(70)}} }, 70},
		"native sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: memory(7), RestartPolicy: always}}
		}, 67},
		"Failed Pod":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, 0},
		"Succeeded Pod": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, 0},
		"Pod that is not a module": {func(p *corev1.Pod) {
			p.Labels, p.Status.Phase = nil, corev1.PodPending
		}, 60},
	} {
		runTest(t, name, Options{}, func(t *testing.T, w *fixture) {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p1", Namespace: "default", UID: "1",
					Labels: map[string]string{labels.Component: labels.Module}},
				// a Node that is not served
				Spec: corev1.PodSpec{NodeName: "vnode.b", Containers: []corev1.Container{container("biz1", "1")}},
			}
			p.Spec.Containers[0].Resources = memory(60)
			tt.change(p)
			w.add(p)
			w.advance(time.Second)
			wantEqual(t, "MiB", tt.want, w.RequestedMemory("vnode.b")>>20)
		})
	}
}

// TestUnmanagedPod checks that a Pod that is on a base but lacks the module label is reported, and that the Pod can
// be deleted.
func TestUnmanagedPod(t *testing.T) {
	runTest(t, "bound to a base", Options{}, func(t *testing.T, w *fixture) {
		stray := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "stray", Namespace: "default", UID: "stray"},
			Spec:       corev1.PodSpec{NodeName: "vnode.a", Containers: []corev1.Container{container("biz1", "1")}},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
		w.add(stray)
		w.advance(time.Second)
		if e := w.nextEvent(); !strings.Contains(e, "NotAModule") || !strings.Contains(e, labels.Component) {
			t.Errorf("unexpected Event %q", e)
		}
		live := w.pod("stray")
		wantEqual(t, "status", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "biz1", Image: live.Spec.Containers[0].Image,
			State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "NotAModule", Message: notAModule(stray)}},
		}}}, live.Status)
		w.StopServing("a", "vnode.a")
		w.Serve("a", "vnode.a", "")
		wantEqual(t, "second Event", "no event", w.nextEvent())
		w.delete("stray")
		w.advance(time.Second)
		w.wantSummary("stray", "gone")
	})
}

// TestKubectlDebugIsRefused simulates kubectl debug, which adds a container to the Pod and waits until the container
// is running or terminated. The controller must report the container as terminated. The module must stay Ready.
func TestKubectlDebugIsRefused(t *testing.T) {
	runTest(t, "container added", Options{}, func(t *testing.T, w *fixture) {
		w.create("p1", container("biz1", "1"))
		w.advance(5 * time.Second)
		pod := w.pod("p1")
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "busybox"}}}
		w.update(nextVersion(pod))
		at := metav1.NewTime(time.Now())
		w.advance(5 * time.Second)
		pod = w.pod("p1")
		wantEqual(t, "status", []corev1.ContainerStatus{{Name: "debugger", Image: "busybox",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: api.ReasonUnsupported, Message: unsupported.Names["ephemeralContainers"],
				StartedAt: at, FinishedAt: at,
			}}}}, pod.Status.EphemeralContainerStatuses)
		wantEqual(t, "ready", true, podstatus.IsReady(&pod.Status))
	})
}

// TestInstallRecordIsSavedBeforeTheInstall checks that an install is in the saved install record before the install
// command is sent. Otherwise, if the controller stops and the Pod is deleted, no controller would uninstall the
// module.
func TestInstallRecordIsSavedBeforeTheInstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *fixture
		var kept, sent []string
		w = newFixture(t, Options{SaveInstallRecord: func(ctx context.Context, identity string) {
			kept, sent = append(kept, w.InstallRecord(identity)), append(sent, w.base.takeCommands()...)
			<-ctx.Done() // the API server is unavailable: the install continues nevertheless
		}})
		w.create("p1", container("biz1", "1"))
		w.advance(5 * time.Second)
		wantEqual(t, "install record before the install", []string{`[{"n":"biz1","v":"1","u":"file:///m/biz1-1.jar"}]`},
			kept)
		wantEqual(t, "commands before the record is saved", []string(nil), sent)
		wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
}
