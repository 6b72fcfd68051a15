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

// The API server notes that a Pod has no time left, and takes it out, one after the other. Whoever
// asked for it may die in between: the Pod stays until somebody asks again.
func TestADeletionThatStoppedHalfWay(t *testing.T) {
	in(t, "", Options{Drain: -1}, func(t *testing.T, w *world) {
		w.create("p", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wantShow("p", "Running Ready")
		w.Leave("a", "vnode.a")
		pod := w.pod("p").DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
		w.update(pod)
		w.pass(time.Second)
		w.hear()
		w.Serve("a", "vnode.a", "")
		w.pass(5 * time.Second)
		w.wantShow("p", "gone")
		wantDiff(t, "modules", map[string]string{}, w.base.states())
	})
}

// The API server sends an event before it removes a Pod that was deleted without a grace period.
func TestPodIsNotDeletedTwice(t *testing.T) {
	in(t, "", Options{}, func(t *testing.T, w *world) {
		w.create("p", container("biz1", "1"))
		w.pass(2 * time.Second)
		before := len(writes(w))
		pod := w.pod("p").DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
		w.update(pod)
		w.pass(time.Minute)
		wantDiff(t, "writes", []string{}, writes(w)[before:])
		w.forceDelete("p")
		w.pass(10 * time.Second)
		wantDiff(t, "modules", map[string]string{}, w.base.states())
	})
}

// What a list says reaches the Pod at once, whatever command is under way.
func TestReadyIsNeverOlderThanTheList(t *testing.T) {
	in(t, "uninstalled by somebody else while installs hang", Options{}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
		w.base.with(func(b *fakeBase) { b.modules, b.hang = nil, arklet.CommandInstallBiz })
		w.base.tell()
		w.pass(100 * time.Millisecond)
		w.wantShow("p1", "Running ContainerCreating")
		w.pass(20 * time.Second)
		w.wantShow("p1", "Running ContainerCreating")
	})
	in(t, "its only version deactivated, while the install that would activate it takes long", Options{},
		func(_ *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(time.Second)
			w.base.with(func(b *fakeBase) { b.delay = 30 * time.Second; b.set(0, arklet.StateDeactivated, "STARTED") })
			w.base.tell()
			w.pass(100 * time.Millisecond)
			w.wantShow("p1", "Running BizNotActivated") // it is uninstalled, to be installed again
			w.pass(61 * time.Second)
			w.wantShow("p1", "Running Ready")
		})
	in(t, "another module of the same base that hangs", Options{Workers: 1}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.hang = arklet.CommandInstallBiz })
		w.create("p2", container("biz2", "1"))
		w.pass(2 * time.Second)
		w.base.with(func(b *fakeBase) { b.modules = nil })
		w.base.tell()
		w.pass(100 * time.Millisecond)
		w.wantShow("p1", "Running ContainerCreating")
	})
	in(t, "the API server refuses the write for a while", Options{}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.modules, b.hang = nil, arklet.CommandInstallBiz })
		w.refuse(true)
		w.base.tell()
		w.pass(2 * time.Minute)
		w.wantShow("p1", "Running Ready")
		w.refuse(false)
		w.pass(publishAtMost)
		w.wantShow("p1", "Running ContainerCreating")
	})
}

// What the node lifecycle controller has written in error is taken back, as a kubelet does.
func TestSomebodyElseWritesAPodNotReady(t *testing.T) {
	in(t, "", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		p := w.pod("p1")
		ready := podstatus.Condition(&p.Status, corev1.PodReady)
		ready.Status, ready.Reason = corev1.ConditionFalse, "NodeNotReady" // as the node lifecycle controller does
		// this one; the controller's may follow at once
		before := w.statusWrites() + 1
		if _, err := w.api.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
		w.pass(time.Minute)
		if n := w.statusWrites() - before; n != 1 {
			t.Errorf("%d writes, want one", n)
		}
	})
}

// A Pod is deleted while it is being written Ready: its module stays for the time of the drain all the
// same.
func TestDeletedWhileItIsWritten(t *testing.T) {
	in(t, "", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(time.Minute)
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
			going := nextVersion(stored)
			going.DeletionTimestamp, going.DeletionGracePeriodSeconds = ptr.To(
				metav1.NewTime(time.Now().Add(30*time.Second))), ptr.To(int64(30))
			if err := w.api.Tracker().Update(pods, going, going.Namespace); err != nil {
				return true, nil, err
			}
			for going := false; !going; goruntime.Gosched() { // until the controller knows
				w.store.read(func() { going = w.store.byUID[pod.UID].deleting })
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
		w.pass(api.Drain - 100*time.Millisecond)
		if !deleted {
			t.Fatal("it was not written")
		}
		wantDiff(t, "modules while it is drained", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.pass(time.Second)
		wantDiff(t, "modules in the end", map[string]string{}, w.base.states())
	})
}

// A StatefulSet makes a Pod anew under its name, with any gap and whatever is under way.
func TestAPodMadeAnewUnderItsName(t *testing.T) {
	for _, key := range []string{"mqtt", "http"} {
		for _, gap := range []time.Duration{0, 2 * time.Second} {
			for _, version := range []string{"1", "2"} {
				for name, under := range map[string]struct{ before, after time.Duration }{
					"at rest":                {10 * time.Second, 0},
					"an install under way":   {500 * time.Millisecond, 0},
					"an uninstall under way": {10 * time.Second, 3 * time.Second},
				} {
					in(t, fmt.Sprintf("%s, gap %s, version %s, %s", key, gap, version, name), Options{},
						func(t *testing.T, w *world) {
							if key == "http" {
								w.overHTTP()
							}
							w.base.with(func(b *fakeBase) { b.delay = 3 * time.Second })
							w.create("p1", container("biz1", "1"))
							w.pass(under.before)
							if under.after > 0 { // deleted with grace first: it is drained, and being uninstalled
								w.delete("p1")
								w.pass(under.after)
							}
							w.forceDelete("p1")
							w.pass(gap)
							w.create("p1", container("biz1", version))
							w.pass(30 * time.Second)
							w.wantShow("p1", "Running Ready")
							wantDiff(t, "modules", map[string]string{"biz1:" + version: "activated"}, w.base.states())
						})
				}
			}
		}
	}
}

// A Pod that comes is Ready by what its base lists from then on: the base may have started again since it
// listed the module.
func TestAPodIsReadyByANewList(t *testing.T) {
	in(t, "a base that has lost the module, and nobody has heard of it", Options{}, func(_ *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.delay = 3 * time.Second })
		w.create("p1", container("biz1", "1"))
		w.pass(10 * time.Second)
		w.base.with(func(b *fakeBase) { b.modules = nil })
		w.create("p2", container("biz1", "1"))
		w.pass(time.Second)
		w.wantShow("p1", "Running ContainerCreating")
		w.wantShow("p2", "Pending ContainerCreating")
		w.pass(5 * time.Second)
		w.wantShow("p2", "Running Ready")
	})
	in(t, "a base that lists nothing", Options{}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(10 * time.Second)
		w.base.with(func(b *fakeBase) { b.modules, b.hang = nil, arklet.CommandQueryAllBiz })
		w.create("p2", container("biz1", "1"))
		w.pass(30 * time.Second)
		w.wantShow("p1", "Running Ready")
		w.wantShow("p2", "") // nothing is written
		w.base.with(func(b *fakeBase) { b.hang = "" })
		w.pass(time.Minute)
		w.wantShow("p2", "Running Ready")
	})
	in(t, "a lane whose install of another version hangs", Options{}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(10 * time.Second)
		w.base.with(func(b *fakeBase) { b.hang = arklet.CommandInstallBiz })
		w.create("p2", container("biz1", "2"))
		w.pass(time.Second)
		w.create("p3", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wantShow("p3", "Running Ready")
	})
	in(t, "two modules", Options{}, func(_ *testing.T, w *world) {
		w.create("p1", container("biz1", "1"), container("biz2", "1"))
		w.pass(10 * time.Second)
		w.create("p2", container("biz1", "1"), container("biz2", "1"))
		w.pass(time.Second)
		w.wantShow("p2", "Running Ready")
	})
}

func (w *world) forceDelete(name string) {
	w.t.Helper()
	if err := w.api.CoreV1().Pods("default").Delete(w.t.Context(), name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		w.t.Fatal(err)
	}
}

// jar is a container with a version from another place than usual.
func jar(version, file string) corev1.Container {
	c := container("biz1", version)
	c.Image = "file:///m/" + file + ".jar"
	return c
}

// setImage changes nothing but the image, which is all that Kubernetes permits.
func (w *world) setImage(name, file string) {
	w.t.Helper()
	p := w.pod(name)
	p.Spec.Containers[0].Image = "file:///m/" + file + ".jar"
	w.update(p)
}

// current is a Pod's condition of that name, as Status and Reason, and the image that it shows.
func (w *world) current(name string) string {
	p := w.pod(name)
	c := podstatus.Condition(&p.Status, api.ConditionCurrent)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, p.Status.ContainerStatuses[0].ImageID)
}

// Module Controller V2 document 5.1: a module is replaced by changing the image of its Pod.
func TestAnotherImageOfTheSameVersion(t *testing.T) {
	in(t, "of a Pod: drained, uninstalled, installed again", Options{}, func(t *testing.T, w *world) {
		w.create("p1", jar("1", "first"))
		w.pass(time.Second)
		wantDiff(t, "condition", "True Installed file:///m/first.jar", w.current("p1"))
		w.base.takeCommands()
		w.setImage("p1", "second")
		w.pass(time.Second)
		w.wantShow("p1", "Running ReplacingSameVersion")
		wantDiff(t, "modules while they are drained", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.pass(api.Drain)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string{"uninstallBiz biz1:1", "installBiz biz1:1"}, w.base.takeCommands())
		wantDiff(t, "jar", "file:///m/second.jar", w.base.urls["biz1:1"])
		wantDiff(t, "the jar that was uninstalled", []string{"file:///m/first.jar"}, w.base.removed)
		wantDiff(t, "condition", "True ReplacedInPlace file:///m/second.jar", w.current("p1"))
		if e := w.nextEvent(); !strings.Contains(e, "SameVersionReplaced") {
			t.Errorf("event %q", e)
		}
	})
	in(t, "of a Deployment: the old Pod serves until it is the base's turn", Options{}, func(t *testing.T, w *world) {
		w.create("old", jar("1", "first"))
		w.pass(time.Second)
		w.create("new", jar("1", "second"))
		w.pass(500 * time.Millisecond)
		w.wantShow("new", "Pending ReplacingSameVersion")
		w.pass(5 * time.Second)
		w.wantShow("old", "Running BizDeactivate")
		w.wantShow("new", "Running Ready")
		// whenever it came
		order := slices.DeleteFunc(w.readiness(), func(s string) bool { return s == "new=NotReady" })
		wantDiff(t, "order", []string{"old=Ready", "old=NotReady", "new=Ready"}, order)
		w.delete("old")
		w.pass(10 * time.Second)
		w.wantShow("old", "gone")
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
	in(t, "the same image: nothing is sent, and the Pod says so", Options{}, func(t *testing.T, w *world) {
		w.create("old", jar("1", "first"))
		w.pass(time.Second)
		w.base.takeCommands()
		w.create("new", jar("1", "first"))
		w.pass(time.Second)
		w.wantShow("new", "Running Ready")
		wantDiff(t, "condition", "True Unchanged file:///m/first.jar", w.current("new"))
		wantDiff(t, "commands", []string(nil), w.base.takeCommands())
	})
	in(t, "after another controller took over", Options{}, func(t *testing.T, w *world) {
		w.create("p1", jar("1", "first"))
		w.pass(time.Second)
		w.Leave("a", "vnode.a")
		w.setImage("p1", "second")
		w.pass(time.Second)
		w.Serve("a", "vnode.a", "")
		w.pass(5 * time.Second)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "jar", "file:///m/second.jar", w.base.urls["biz1:1"])
	})
	in(t, "a controller that takes over reinstalls nothing that is as it should be", Options{},
		func(t *testing.T, w *world) {
			w.create("p1", jar("1", "first"))
			w.pass(time.Second)
			w.base.takeCommands()
			w.Leave("a", "vnode.a")
			w.Serve("a", "vnode.a", "")
			w.pass(5 * time.Second)
			wantDiff(t, "commands", []string(nil), w.base.takeCommands())
			wantDiff(t, "condition", "True Installed file:///m/first.jar", w.current("p1"))
		})
	in(t, "the new jar fails: the one that an older Pod has comes back, and is left alone for a while", Options{},
		func(t *testing.T, w *world) {
			w.create("old", jar("1", "first"))
			w.pass(time.Second)
			w.base.with(func(b *fakeBase) {
				b.fail = func(m arklet.Module) *arklet.Answer {
					if strings.Contains(m.URL, "second") {
						return &arklet.Answer{Code: "FAILED", Message: "boom"}
					}
					return nil
				}
			})
			w.create("new", jar("1", "second"))
			w.pass(10 * time.Second)
			w.wantShow("old", "Running Ready")
			w.wantShow("new", "Pending InstallModuleFailed")
			w.base.takeCommands()
			w.pass(4 * time.Minute)
			wantDiff(t, "commands", []string(nil), w.base.takeCommands())
		})
	in(t, "never, where that is the setting", Options{KeepSameVersion: true}, func(t *testing.T, w *world) {
		w.create("p1", jar("1", "first"))
		w.pass(time.Second)
		w.base.takeCommands()
		w.setImage("p1", "second")
		w.pass(10 * time.Second)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string(nil), w.base.takeCommands())
	})
}

// Images that follow each other faster than a base installs: each is waited for, and the last one is
// what the base has in the end.
func TestImagesThatOvertakeEachOther(t *testing.T) {
	in(t, "within one install", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.delay = 2 * time.Second })
		w.create("p1", jar("1", "v0"))
		for i := range 6 {
			w.pass(time.Second)
			w.setImage("p1", fmt.Sprintf("v%d", i+1))
		}
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "jar", "file:///m/v6.jar", w.base.urls["biz1:1"])
		if len(w.store.turns) > 0 {
			t.Error("another base does not get the turn")
		}
	})
	in(t, "and a base that refuses, since it is installing", Options{}, func(t *testing.T, w *world) {
		w.create("p1", jar("1", "v0"))
		w.pass(time.Second)
		busy := true
		w.base.with(func(b *fakeBase) {
			b.fail = func(m arklet.Module) *arklet.Answer {
				if busy {
					busy = false
					// ends meanwhile
					b.install(arklet.Module{Name: m.Name, Version: m.Version, URL: "file:///m/other.jar"})
					return &arklet.Answer{Code: "FAILED",
						Message: "FAILED:biz1:1 installBiz conflict, exist unfinished command(installBiz) for this biz"}
				}
				return nil
			}
		})
		w.setImage("p1", "v1")
		w.pass(time.Minute)
		if len(w.store.turns) > 0 {
			t.Error("another base does not get the turn")
		}
	})
}

// A jar that was installed and whose answer got lost is there: the next base may replace its own.
func TestTheTurnEndsWithoutAnAnswer(t *testing.T) {
	in(t, "the connection was lost", Options{}, func(t *testing.T, w *world) {
		w.create("p1", jar("1", "v0"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.hang = arklet.CommandInstallBiz })
		w.setImage("p1", "v1")
		w.pass(10 * time.Second)
		w.base.with(func(b *fakeBase) {
			b.hang = ""
			b.install(arklet.Module{Name: "biz1", Version: "1", URL: "file:///m/v1.jar"})
		})
		w.requests.FailPending("a", "the connection was lost")
		synctest.Wait()
		w.base.answer("a", arklet.Request{Command: arklet.CommandQueryAllBiz}) // before it is tried again
		w.pass(time.Minute)
		w.wantShow("p1", "Running Ready")
		if len(w.store.turns) > 0 {
			t.Error("another base does not get the turn")
		}
	})
}

// A Pod of another namespace that is bound during the replacement does not block the turn of the first
// namespace.
func TestAModuleInTwoNamespacesReleasesItsTurn(t *testing.T) {
	for name, then := range map[string]func(w *world){
		"another Pod comes": func(w *world) {
			p := w.pod("p1")
			p.ResourceVersion, p.Namespace, p.UID, p.Status = "", "another", "uid-another", corev1.PodStatus{}
			if _, err := w.api.CoreV1().Pods("another").Create(w.t.Context(), p, metav1.CreateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		},
		"its Pod is deleted by force": func(w *world) {
			w.forceDelete("p1")
		},
	} {
		in(t, name, Options{}, func(t *testing.T, w *world) {
			w.create("p1", jar("1", "v0"))
			w.pass(time.Second)
			w.setImage("p1", "v1")
			w.pass(time.Second)
			w.wantShow("p1", "Running ReplacingSameVersion")
			if w.store.turns["default/biz1"].identity != "a" {
				t.Fatal("the base does not have the turn")
			}
			then(w)
			w.pass(time.Minute)
			if len(w.store.turns) > 0 {
				t.Errorf("turns remain: %v", w.store.turns)
			}
		})
	}
}

func TestOneBaseAtATimeReplacesAModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(func(*corev1.Pod) bool { return false })
		a, b, other := workerKey{"a", "biz1"}, workerKey{"b", "biz1"}, workerKey{"b", "biz2"}
		for _, key := range []workerKey{a, b, other} {
			s.needLane(key)
		}
		enter := func(what string, key workerKey, served, want bool) {
			t.Helper()
			if got := s.enterTurn(key, "default/"+key.module, served, patience); got != want {
				t.Errorf("%s: %t, want %t", what, got, want)
			}
		}
		enter("while no other base serves", a, false, false)
		enter("once another one serves", a, true, true)
		enter("again", a, true, true)
		enter("while another base has the turn", b, true, false)
		enter("another module", other, true, true)
		s.leaveTurn(a)
		enter("afterwards", b, true, true)
		s.leaveTurn(b)
		enter("when no other base comes", a, false, false)
		time.Sleep(patience - 1)
		enter("nor later", a, false, false)
		time.Sleep(time.Nanosecond)
		enter("in the end", a, false, true)
	})
}

func TestWhatOutlivesItsPods(t *testing.T) {
	in(t, "the Pod left the API while its base was silent", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(27 * time.Second)
		w.registry.Sweep()
		w.forceDelete("p1")
		w.pass(10 * time.Second)
		w.hear()
		w.base.tell()
		w.pass(5 * time.Second)
		wantDiff(t, "modules", map[string]string{}, w.base.states())
		wantDiff(t, "what is known of the base", "", w.Ledger("a"))
	})
	in(t, "or while no controller served the base", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "static"}) })
		w.create("p1", container("biz1", "1"))
		w.pass(5 * time.Second)
		ledger := w.Ledger("a")
		wantDiff(t, "ledger", `[{"n":"biz1","v":"1","u":"file:///m/biz1-1.jar"}]`, ledger)
		w.Leave("a", "vnode.a")
		w.forceDelete("p1")
		w.pass(time.Second)
		w.Serve("a", "vnode.a", ledger)
		w.pass(5 * time.Second)
		wantDiff(t, "modules", map[string]string{"biz1:static": "deactivated"}, w.base.states())
	})
	in(t, "an install of a controller before, that came late", Options{}, func(t *testing.T, w *world) {
		w.Leave("a", "vnode.a")
		w.Serve("a", "vnode.a", `[{"n":"biz1","v":"1","u":"file:///m/biz1-1.jar"}]`)
		w.base.tell()
		w.pass(5 * time.Second)
		w.base.with(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) })
		w.base.tell()
		w.pass(5 * time.Second)
		wantDiff(t, "modules", map[string]string{}, w.base.states())
		wantDiff(t, "what is known of the base", "", w.Ledger("a"))
	})
	in(t, "an install that was not answered, and came late", Options{InstallTimeout: 30 * time.Second},
		func(t *testing.T, w *world) {
			w.create("warm", container("other", "1"))
			w.pass(time.Second)
			w.base.with(func(b *fakeBase) { b.hang = arklet.CommandInstallBiz })
			w.create("p1", container("biz1", "1"))
			w.pass(35 * time.Second)
			w.delete("p1")
			w.pass(35 * time.Second)
			w.wantShow("p1", "gone")
			w.base.with(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) })
			w.base.tell()
			w.pass(5 * time.Second)
			wantDiff(t, "modules", map[string]string{"other:1": "activated"}, w.base.states())
		})
	in(t, "an uninstall that has yet to wait for its turn, when a Pod comes for the same version", Options{Workers: 1},
		func(_ *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(2 * time.Second)
			w.base.with(func(b *fakeBase) { b.delay = time.Minute })
			w.create("other", container("biz2", "1"))
			w.delete("p1")
			w.pass(5 * time.Second)
			w.create("p2", container("biz1", "1"))
			w.pass(2 * time.Second)
			w.wantShow("p2", "Running Ready")
		})
	for version, commands := range map[string][]string{"1": nil, "2": {"installBiz biz1:2", "uninstallBiz biz1:1"},
		"": {"uninstallBiz biz1:1"}} {
		in(t, "an uninstall that got lost, when a Pod comes for version "+strconv.Quote(version)+
			" before it is sent again", Options{}, func(t *testing.T, w *world) {
			w.create("p1", container("biz1", "1"))
			w.pass(2 * time.Second)
			w.base.with(func(b *fakeBase) { b.tells, b.hang = true, arklet.CommandUninstallBiz })
			w.delete("p1")
			w.pass(4 * time.Second)
			wantDiff(t, "commands", []string{"installBiz biz1:1", "uninstallBiz biz1:1"}, w.base.takeCommands())
			w.base.with(func(b *fakeBase) { b.hang = "" })
			if version != "" { // else none comes
				w.create("p2", container("biz1", version))
			}
			w.pass(15 * time.Second)
			wantDiff(t, "commands", commands, w.base.takeCommands())
			w.wantShow("p1", "gone")
			if version != "" {
				w.wantShow("p2", "Running Ready")
			}
		})
	}
	in(t, "an install that hangs, when a Pod comes for another version", Options{}, func(t *testing.T, w *world) {
		w.create("warm", container("other", "1"))
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.hang = arklet.CommandInstallBiz })
		w.create("p1", container("biz1", "1"))
		w.pass(5 * time.Second)
		w.base.with(func(b *fakeBase) { b.hang = "" })
		w.forceDelete("p1")
		w.create("p2", container("biz1", "2"))
		w.pass(2 * time.Second)
		w.wantShow("p2", "Running Ready")
		w.base.with(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) }) // in the end
		w.base.tell()
		w.pass(5 * time.Second)
		wantDiff(t, "modules", map[string]string{"biz1:2": "activated", "other:1": "activated"}, w.base.states())
	})
	in(t, "what a base was told to install at its start, and no Pod came for", Options{}, func(t *testing.T, w *world) {
		w.Expect("a", []arklet.Module{{Name: "biz1", Version: "1", URL: "file:///m/biz1-1.jar"}})
		w.base.with(func(b *fakeBase) { b.install(arklet.Module{Name: "biz1", Version: "1"}) })
		w.base.tell()
		w.pass(time.Minute)
		wantDiff(t, "modules while Pods may come", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.create("p1", container("biz1", "2")) // a release came in between
		w.pass(10 * time.Second)
		wantDiff(t, "modules", map[string]string{"biz1:2": "activated"}, w.base.states())
	})
	in(t, "releases in between are skipped, and nothing of them stays", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.mode, b.delay = activateMulti, 3*time.Second })
		for i := range 5 {
			name, version := fmt.Sprintf("p%d", i), fmt.Sprintf("%d", i)
			w.create(name, container("biz1", version))
			if i > 0 {
				w.forceDelete(fmt.Sprintf("p%d", i-1))
			}
			w.pass(time.Second)
		}
		w.pass(time.Minute)
		w.wantShow("p4", "Running Ready")
		wantDiff(t, "modules", map[string]string{"biz1:4": "activated"}, w.base.states())
	})
}

func TestRetries(t *testing.T) {
	fails := func(b *fakeBase) {
		b.fail = func(arklet.Module) *arklet.Answer { return &arklet.Answer{Code: "FAILED", Message: "boom"} }
	}
	broken := func(w *world) {
		w.base.with(fails)
		w.create("p1", container("biz1", "1"))
		w.pass(time.Minute)
		w.wantShow("p1", "Pending RetryTimesExceeded")
		w.base.with(func(b *fakeBase) { b.fail = nil })
	}
	in(t, "never end", Options{}, func(t *testing.T, w *world) {
		broken(w)
		m := w.pod("p1").Status.ContainerStatuses[0].State.Waiting.Message
		if next, _, _ := api.CutNextAttempt(m); next.Before(time.Now()) || next.After(time.Now().Add(retryAtMost)) {
			t.Errorf("the message does not say when the next attempt is: %q", m)
		}
		w.pass(retryAtMost)
		w.wantShow("p1", "Running Ready")
	})
	in(t, "come at once after a change of the annotation", Options{}, func(_ *testing.T, w *world) {
		broken(w)
		p := w.pod("p1")
		p.Annotations = map[string]string{labels.Retry: "now"}
		w.update(p)
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
	})
	in(t, "and after the base restarted", Options{}, func(_ *testing.T, w *world) {
		broken(w)
		w.health(10 * time.Minute)
		w.health(time.Second)
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
	})
	in(t, "look first whether the base has done it meanwhile", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.hang = arklet.CommandInstallBiz })
		w.create("p1", container("biz1", "1"))
		w.pass(time.Second)
		w.requests.FailPending("a", "the base has restarted")
		w.base.with(func(b *fakeBase) { // its baseline, of which nobody tells the controller
			b.hang = ""
			b.modules = []arklet.Biz{{Name: "biz1", Version: "1", State: arklet.StateResolved}}
		})
		w.pass(time.Second)
		w.base.with(func(b *fakeBase) { b.set(0, arklet.StateActivated, "STARTED") })
		w.pass(5 * time.Second)
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
	in(t, "and when there is more free metaspace, if that was what lacked", Options{}, func(t *testing.T, w *world) {
		w.metaspace(200 << 20)
		w.base.with(func(b *fakeBase) {
			b.fail = func(arklet.Module) *arklet.Answer {
				return &arklet.Answer{Code: "FAILED", Message: "java.lang.OutOfMemoryError: Metaspace",
					DataMessage: "java.lang.OutOfMemoryError: Metaspace"}
			}
		})
		w.create("p1", container("biz1", "1"))
		w.pass(time.Minute)
		w.base.with(func(b *fakeBase) { b.fail = nil })
		w.base.takeCommands()
		w.metaspace(210 << 20) // less is free
		w.pass(time.Second)
		wantDiff(t, "commands", []string(nil), w.base.takeCommands())
		w.metaspace(100 << 20)
		w.pass(time.Second)
		w.wantShow("p1", "Running Ready")
	})
}

func TestTerminalPods(t *testing.T) {
	in(t, "a Pod with a finalizer ends as with a kubelet", Options{Drain: -1}, func(t *testing.T, w *world) {
		p := w.create("p1", container("biz1", "1"))
		p.Finalizers = []string{"example.com/held"}
		w.update(p)
		w.pass(time.Second)
		w.delete("p1")
		w.pass(5 * time.Second)
		w.wantShow("p1", "Succeeded")
		c := w.pod("p1").Status.ContainerStatuses[0]
		if c.State.Terminated == nil || c.Ready {
			t.Errorf("the container is %+v", c)
		}
		wantDiff(t, "modules", map[string]string{}, w.base.states())
		if w.Pods() != 0 {
			t.Errorf("%d Pods are left", w.Pods())
		}
	})
}

// Requested calculates the memory requests of Pods like the scheduler.
func TestRequested(t *testing.T) {
	memory := func(mi int64) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(mi<<20, resource.BinarySI)}}
	}
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   int64
	}{
		"of containers": {func(*corev1.Pod) {}, 60},
		"of the Pod":    {func(p *corev1.Pod) { p.Spec.Resources = ptr.To(memory(100)) }, 100},
		"and overhead":  {func(p *corev1.Pod) { p.Spec.Overhead = memory(5).Requests }, 65},
		"of an init container": {
			func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Resources: memory(70)}} }, 70},
		"of a sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: memory(7), RestartPolicy: always}}
		}, 67},
		"of a failed Pod":         {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, 0},
		"of a Pod that has ended": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, 0},
		"of a Pod that is not a module": {func(p *corev1.Pod) {
			p.Labels, p.Status.Phase = nil, corev1.PodPending
		}, 60},
	} {
		in(t, name, Options{}, func(t *testing.T, w *world) {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p1", Namespace: "default", UID: "1",
					Labels: map[string]string{labels.Component: labels.Module}},
				// which is not served
				Spec: corev1.PodSpec{NodeName: "vnode.b", Containers: []corev1.Container{container("biz1", "1")}},
			}
			p.Spec.Containers[0].Resources = memory(60)
			tt.change(p)
			w.add(p)
			w.pass(time.Second)
			wantDiff(t, "MiB", tt.want, w.Requested("vnode.b")>>20)
		})
	}
}

// A Pod that lands on a base and is no module is told of, and can go.
func TestAPodWithoutTheLabel(t *testing.T) {
	in(t, "bound to a base", Options{}, func(t *testing.T, w *world) {
		stray := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "stray", Namespace: "default", UID: "stray"},
			Spec:       corev1.PodSpec{NodeName: "vnode.a", Containers: []corev1.Container{container("biz1", "1")}},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
		w.add(stray)
		w.pass(time.Second)
		if e := w.nextEvent(); !strings.Contains(e, "NotAModule") || !strings.Contains(e, labels.Component) {
			t.Errorf("event %q", e)
		}
		live := w.pod("stray")
		wantDiff(t, "status", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "biz1", Image: live.Spec.Containers[0].Image,
			State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "NotAModule", Message: notAModule(stray)}},
		}}}, live.Status)
		w.Leave("a", "vnode.a")
		w.Serve("a", "vnode.a", "")
		wantDiff(t, "another event", "no event", w.nextEvent())
		w.delete("stray")
		w.pass(time.Second)
		w.wantShow("stray", "gone")
	})
}

// kubectl debug adds a container to the Pod and waits until it runs or has ended. The module goes on.
func TestKubectlDebugIsRefused(t *testing.T) {
	in(t, "a container is added", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"))
		w.pass(5 * time.Second)
		pod := w.pod("p1")
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "busybox"}}}
		w.update(nextVersion(pod))
		at := metav1.NewTime(time.Now())
		w.pass(5 * time.Second)
		pod = w.pod("p1")
		wantDiff(t, "status", []corev1.ContainerStatus{{Name: "debugger", Image: "busybox",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: api.ReasonUnsupported, Message: unsupported.Names["ephemeralContainers"],
				StartedAt: at, FinishedAt: at,
			}}}}, pod.Status.EphemeralContainerStatuses)
		wantDiff(t, "ready", true, podstatus.IsReady(&pod.Status))
	})
}

// What is in no ledger when its controller dies, no other one takes away when its Pod goes.
func TestAnInstallIsInTheLedgerBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		var kept, sent []string
		w = newWorld(t, Options{Keep: func(ctx context.Context, identity string) {
			kept, sent = append(kept, w.Ledger(identity)), append(sent, w.base.takeCommands()...)
			<-ctx.Done() // the API server is away: the base is to go on all the same
		}})
		w.create("p1", container("biz1", "1"))
		w.pass(5 * time.Second)
		wantDiff(t, "the ledger before the install", []string{`[{"n":"biz1","v":"1","u":"file:///m/biz1-1.jar"}]`},
			kept)
		wantDiff(t, "what was sent before", []string(nil), sent)
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
}
