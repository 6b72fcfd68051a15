package vpod

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// elsewhere gives another base a Ready Pod of the module.
func (w *world) elsewhere() {
	w.t.Helper()
	w.add(podElsewhere())
	w.pass(time.Second)
}

func podElsewhere() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Namespace: "default", UID: types.UID("elsewhere"),
			Labels: map[string]string{labels.Component: labels.Module}},
		Spec: corev1.PodSpec{NodeName: "vnode.b", Containers: []corev1.Container{container("biz1", "1")}},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func TestRollingUpdate(t *testing.T) {
	roll := func(w *world) {
		w.create("old", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wantShow("old", "Running Ready")
		w.create("new", container("biz1", "2"))
		w.pass(2 * time.Second)
	}
	for name, m := range map[string]mode{"activate.new.module": activateNew, "several versions active": activateMulti} {
		in(t, name+": old turns Not Ready, then new Ready", Options{}, func(t *testing.T, w *world) {
			w.base.with(func(b *fakeBase) { b.mode = m })
			w.elsewhere()
			roll(w)
			w.wantShow("old", "Running BizDeactivate")
			w.wantShow("new", "Running Ready")
			wantDiff(t, "order", []string{"old=Ready", "old=NotReady", "new=Ready"}, w.readiness())
			w.delete("old")
			w.pass(4 * time.Second)
			w.wantShow("old", "gone")
			wantDiff(t, "modules", map[string]string{"biz1:2": "activated"}, w.base.states())
		})
		in(t, name+": the only Ready Pod stays Ready until the new one is", Options{}, func(t *testing.T, w *world) {
			w.base.with(func(b *fakeBase) { b.mode = m })
			roll(w)
			wantDiff(t, "order", []string{"old=Ready", "new=Ready", "old=NotReady"}, w.readiness())
			if got := w.pod("old").Annotations[corev1.PodDeletionCost]; got != "-1" {
				t.Errorf("the old Pod's deletion cost is %q, want -1", got)
			}
		})
		in(t, name+": another base's turns Ready while the only Ready Pod is marked", Options{},
			func(t *testing.T, w *world) {
				w.base.with(func(b *fakeBase) { b.mode = m })
				w.api.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					if err := w.api.Tracker().Add(podElsewhere()); err != nil && !apierrors.IsAlreadyExists(err) {
						t.Error(err)
					}
					synctest.Wait() // until the controller has seen it
					return false, nil, nil
				})
				roll(w)
				wantDiff(t, "order", []string{"old=Ready", "old=NotReady", "new=Ready"}, w.readiness())
			})
	}
	in(t, "the only Ready Pod yields after a second at any speed", Options{Speed: 10}, func(_ *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.mode = activateNew })
		w.create("old", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.create("new", container("biz1", "2"))
		w.pass(700 * time.Millisecond)
		w.wantShow("new", "Running Ready")
		w.wantShow("old", "Running Ready")
		w.pass(700 * time.Millisecond)
		w.wantShow("old", "Running BizDeactivate")
	})
	in(t, "default base over HTTP: the new version is switched to", Options{}, func(t *testing.T, w *world) {
		w.overHTTP()
		w.base.with(func(b *fakeBase) { b.mode = keepOld })
		roll(w)
		w.wantShow("old", "Running BizDeactivate")
		w.wantShow("new", "Running Ready")
		wantDiff(t, "commands", []string{"installBiz biz1:1", "installBiz biz1:2", "switchBiz biz1:2"},
			w.base.takeCommands())
	})
	in(t, "default base over MQTT: the old version serves until its Pod goes, then the new one", Options{Drain: -1},
		func(t *testing.T, w *world) {
			w.base.with(func(b *fakeBase) { b.mode = keepOld })
			roll(w)
			w.wantShow("old", "Running Ready")
			w.wantShow("new", "Running BizNotActivated")
			w.pass(5 * time.Minute)
			wantDiff(t, "commands: it does not loop", []string{"installBiz biz1:1", "installBiz biz1:2"},
				w.base.takeCommands())
			w.delete("old")
			w.pass(5 * time.Second)
			w.wantShow("new", "Running Ready")
			wantDiff(t, "modules", map[string]string{"biz1:2": "activated"}, w.base.states())
			wantDiff(t, "commands: nothing serves for the time of an install only",
				[]string{"uninstallBiz biz1:2", "uninstallBiz biz1:1", "installBiz biz1:2"}, w.base.takeCommands())
		})
	in(t, "default base over MQTT: the new version makes way once", Options{Drain: -1}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.mode, b.keeps = keepOld, "biz1:1" })
		roll(w)
		w.base.takeCommands()
		w.delete("old")
		w.pass(3 * time.Second) // attempts after 0, 0.5 and 1.5 s
		wantDiff(t, "commands", []string{
			"uninstallBiz biz1:2", "uninstallBiz biz1:1", "installBiz biz1:2", "uninstallBiz biz1:1",
			"uninstallBiz biz1:1",
		}, w.base.takeCommands())
	})
	in(t, "rollback to a version that is still there", Options{}, func(t *testing.T, w *world) {
		roll(w)
		w.create("back", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wantShow("back", "Running Ready")
		w.wantShow("new", "Running BizDeactivate")
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated", "biz1:2": "deactivated"}, w.base.states())
	})
	for name, before := range map[string]map[string]string{"no": nil, "a": {corev1.PodDeletionCost: "5"}} {
		in(t, "rollback of the only Ready Pod, which had "+name+" deletion cost", Options{},
			func(t *testing.T, w *world) {
				w.create("old", container("biz1", "1"))
				w.pass(2 * time.Second)
				old := w.pod("old")
				old.Annotations = before
				w.update(old)
				w.create("new", container("biz1", "2"))
				w.pass(2 * time.Second)
				wantDiff(t, "annotations of the Pod that gives way", map[string]string{
					corev1.PodDeletionCost: "-1", labels.DeletionCost: before[corev1.PodDeletionCost],
				}, w.pod("old").Annotations)
				w.delete("new")
				w.pass(time.Minute)
				w.wantShow("old", "Running Ready")
				if diff := cmp.Diff(before, w.pod("old").Annotations, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("annotations after the rollback (-want +got):\n%s", diff)
				}
				w.create("newer", container("biz1", "3"))
				w.pass(2 * time.Second)
				wantDiff(t, "deletion cost after the next release", "-1",
					w.pod("old").Annotations[corev1.PodDeletionCost])
			})
	}
	in(t, "the deletion cost of a Pod with the name of an earlier one stays", Options{}, func(t *testing.T, w *world) {
		earlier := w.create("old", container("biz1", "1")).DeepCopy()
		earlier.UID = "earlier"
		if err := w.writer.preferDeletion(t.Context(), &podRecord{uid: earlier.UID}, earlier, true); err != nil {
			t.Error(err)
		}
		wantDiff(t, "annotations", map[string]string(nil), w.pod("old").Annotations)
	})
	in(t, "a release after a rollback that the informer has not shown yet keeps the deletion cost", Options{},
		func(t *testing.T, w *world) {
			pod := w.create("old", container("biz1", "1"))
			pod.Annotations = map[string]string{corev1.PodDeletionCost: "5"}
			w.update(pod)
			synctest.Wait()
			e := &podRecord{uid: pod.UID}
			prefer := func(pod *corev1.Pod, prefer bool) {
				if err := w.writer.preferDeletion(t.Context(), e, pod, prefer); err != nil {
					t.Fatal(err)
				}
			}
			prefer(w.pod("old"), true)
			shown := w.pod("old")
			prefer(shown, false)
			prefer(shown, true)
			prefer(shown, false)
			wantDiff(t, "annotations", map[string]string{corev1.PodDeletionCost: "5"}, w.pod("old").Annotations)
			prefer(w.pod("old"), true)
			pod = w.pod("old")
			pod.Annotations[corev1.PodDeletionCost] = "7"
			w.update(pod)
			synctest.Wait()
			prefer(w.pod("old"), false)
			wantDiff(t, "annotations after a change by a user", map[string]string{corev1.PodDeletionCost: "7"},
				w.pod("old").Annotations)
		})
	in(t, "a new version that fails leaves the old one serving", Options{MaxAttempts: 3}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) {
			b.fail = func(m arklet.Module) *arklet.Answer {
				if m.Version == "2" {
					return &arklet.Answer{Code: "FAILED", DataCode: "FAILED",
						Message:     "java.lang.reflect.InvocationTargetException",
						DataMessage: "java.lang.reflect.InvocationTargetException"}
				}
				return nil
			}
		})
		roll(w)
		w.pass(time.Minute)
		w.wantShow("old", "Running Ready")
		w.wantShow("new", "Pending RetryTimesExceeded")
		// It is tried on all the same: after 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s.
		wantDiff(t, "commands",
			append([]string{"installBiz biz1:1"}, slices.Repeat([]string{"installBiz biz1:2"}, 7)...),
			w.base.takeCommands())
		if e := w.nextEvent(); !strings.Contains(e, "User.InstallBizUserError") {
			t.Errorf("event %q does not say whose fault it is", e)
		}
		w.base.lose() // the base restarts: the version that works comes back
		w.pass(2 * time.Minute)
		w.wantShow("old", "Running Ready")
	})
}

// A release that overtakes another finds the version of that one active, and no Pod of it: the oldest
// Pod stays Ready until the newest is, for requests are served.
func TestAReleaseOvertakesAnother(t *testing.T) {
	begin := func(w *world, after time.Duration) {
		w.base.with(func(b *fakeBase) { b.mode, b.delay = activateNew, time.Second })
		w.create("old", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.create("middle", container("biz1", "2"))
		w.pass(after)
		w.forceDelete("middle") // its install is under way
	}
	overtake := func(w *world, then func(b *fakeBase)) {
		begin(w, 500*time.Millisecond)
		w.base.with(then)
		w.create("new", container("biz1", "3"))
	}
	// The only newer Pod goes as the base switches to its version.
	cameAgain := func(w *world, then func(b *fakeBase)) {
		begin(w, 999*time.Millisecond)
		w.pass(time.Millisecond)
		w.base.with(then)
		w.base.tell()
	}
	in(t, "it stays Ready until the newest is", Options{}, func(t *testing.T, w *world) {
		overtake(w, func(b *fakeBase) { b.delay = time.Second })
		w.pass(5 * time.Second)
		order := w.readiness()
		wantDiff(t, "order", []string{"new=Ready", "old=NotReady"}, order[len(order)-2:])
	})
	in(t, "for half a minute", Options{}, func(_ *testing.T, w *world) {
		overtake(w, func(b *fakeBase) { b.delay, b.hang = 0, arklet.CommandInstallBiz })
		w.pass(time.Second)
		w.base.tell()
		w.pass(28 * time.Second)
		w.wantShow("old", "Running Ready")
		w.pass(3 * time.Second)
		w.wantShow("old", "Running BizNotActivated")
	})
	in(t, "not if its own version fails to come again", Options{}, func(_ *testing.T, w *world) {
		cameAgain(w, func(b *fakeBase) {
			b.fail = func(arklet.Module) *arklet.Answer { return &arklet.Answer{Code: "FAILED", Message: "no jar"} }
		})
		w.pass(5 * time.Second)
		w.wantShow("old", "Running InstallModuleFailed")
	})
	in(t, "until its own version is active again", Options{}, func(t *testing.T, w *world) {
		cameAgain(w, func(b *fakeBase) { b.delay = 10 * time.Second }) // each command
		w.pass(time.Minute)
		w.wantShow("old", "Running Ready")
		order := w.readiness()
		if i := slices.Index(order, "old=Ready"); slices.Contains(order[i:], "old=NotReady") {
			t.Errorf("readiness %q: it was Not Ready for a while", order)
		}
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
	in(t, "all the time, if the Pod that is to take over goes at once", Options{Drain: -1},
		func(t *testing.T, w *world) {
			begin(w, 1900*time.Millisecond) // it is Ready
			w.base.with(func(b *fakeBase) { b.delay = 10 * time.Second })
			w.pass(time.Minute)
			w.wantShow("old", "Running Ready")
			order := w.readiness()
			if i := slices.Index(order, "old=Ready"); slices.Contains(order[i:], "old=NotReady") ||
				!slices.Contains(order, "middle=Ready") {
				t.Errorf("readiness %q: middle was never Ready, or old was Not Ready for a while", order)
			}
		})
	in(t, "again, if the Pod that it gave way to goes", Options{Drain: -1}, func(t *testing.T, w *world) {
		begin(w, 3*time.Second) // it has been Ready for a while
		w.base.with(func(b *fakeBase) { b.delay = 10 * time.Second })
		w.pass(100 * time.Millisecond)
		w.wantShow("old", "Running Ready")
		w.pass(time.Minute)
		order := w.readiness()
		wantDiff(t, "readiness", []string{"middle=Ready", "old=NotReady", "old=Ready"}, order[max(0, len(order)-3):])
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
	in(t, "not if somebody else has put another version there", Options{}, func(_ *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.mode = activateNew })
		w.create("old", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.base.with(func(b *fakeBase) {
			b.delay = 10 * time.Second
			b.install(arklet.Module{Name: "biz1", Version: "2", URL: "file:///m/2.jar"})
		})
		w.base.tell()
		w.pass(time.Second)
		w.wantShow("old", "Running BizNotActivated")
	})
}

// An install that no Pod wanted for a moment is not begun again while it goes on.
func TestAnInstallIsWantedAgain(t *testing.T) {
	in(t, "", Options{}, func(t *testing.T, w *world) {
		w.base.with(func(b *fakeBase) { b.mode = activateNew })
		w.create("old", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.base.with(func(b *fakeBase) { b.hang = arklet.CommandInstallBiz })
		w.create("new", container("biz1", "2"))
		w.pass(100 * time.Millisecond)
		w.base.with(func(b *fakeBase) {
			b.modules = append(b.modules, arklet.Biz{Name: "biz1", Version: "2", State: arklet.StateResolved})
		})
		w.forceDelete("new")
		w.pass(10 * time.Millisecond)
		w.create("again", container("biz1", "2"))
		w.pass(time.Second)
		wantDiff(t, "commands", []string{"installBiz biz1:1", "installBiz biz1:2"}, w.base.takeCommands())
	})
}

func TestBizDeactivateAndTheFailedPhase(t *testing.T) {
	for _, c := range []struct {
		rule  podstatus.FailedRule
		owned bool
		want  string
	}{
		{podstatus.FailedUnowned, false, "Failed BizDeactivate"},
		{podstatus.FailedUnowned, true, "Running BizDeactivate"},
		{podstatus.FailedNever, false, "Running BizDeactivate"},
		{podstatus.FailedAlways, true, "Failed BizDeactivate"},
	} {
		in(t, fmt.Sprintf("rule %s, owned %t", c.rule, c.owned), Options{Failed: c.rule, Drain: -1},
			func(t *testing.T, w *world) {
				if !c.owned {
					w.owners = nil
				}
				w.create("old", container("biz1", "1"))
				w.pass(2 * time.Second)
				w.create("new", container("biz1", "2"))
				w.pass(2 * time.Second)
				w.wantShow("old", c.want)
				w.wantShow("new", "Running Ready")
				w.delete("old")
				w.pass(time.Second)
				wantDiff(t, "modules after the old Pod was deleted", map[string]string{"biz1:2": "activated"},
					w.base.states())
			})
	}
}

// overHTTP makes the base one of the HTTP tunnel.
func (w *world) overHTTP() {
	_, _ = w.registry.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a"}, arklet.Heartbeat{})
	w.base.key = tunnel.HTTP
	w.requests.AddTunnel(w.base)
	w.hear()
}

func TestInPlaceReplacement(t *testing.T) {
	update := func(w *world, version string) {
		p := w.pod("p1")
		p.Annotations = map[string]string{"version": version}
		p.Spec.Containers[0].Image = "file:///m/biz1-" + version + ".jar"
		w.update(p)
		w.pass(time.Second)
	}
	c := container("biz1", "1")
	c.Env = []corev1.EnvVar{{Name: labels.VersionEnv,
		ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}}}
	create := func(w *world) {
		w.create("p1", c)
		update(w, "1")
		w.wantShow("p1", "Running Ready")
		w.base.takeCommands()
	}
	in(t, "the new one first, then the old one goes", Options{}, func(t *testing.T, w *world) {
		create(w)
		w.base.with(func(b *fakeBase) { b.delay = 3 * time.Second })
		update(w, "2")
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "image while the old one goes on", "file:///m/biz1-1.jar",
			w.pod("p1").Status.ContainerStatuses[0].ImageID)
		w.pass(3 * time.Second)
		w.base.with(func(b *fakeBase) { b.delay = 0 })
		w.wantShow("p1", "Running Ready")
		wantDiff(t, "modules while the old one is drained",
			map[string]string{"biz1:1": "deactivated", "biz1:2": "activated"}, w.base.states())
		w.pass(api.Drain)
		wantDiff(t, "commands", []string{"installBiz biz1:2", "uninstallBiz biz1:1"}, w.base.takeCommands())
	})
	in(t, "two modules, each drained when its own new one has taken over", Options{}, func(t *testing.T, w *world) {
		w.create("p1", container("biz1", "1"), container("biz2", "1"))
		w.pass(time.Second)
		slow := 3
		w.base.with(func(b *fakeBase) {
			b.fail = func(m arklet.Module) *arklet.Answer {
				if slow == 0 || m.Name != "biz2" {
					return nil
				}
				slow--
				return &arklet.Answer{Code: "FAILED", Message: "boom"}
			}
		})
		p := w.pod("p1")
		for i := range p.Spec.Containers {
			p.Spec.Containers[i] = container(p.Spec.Containers[i].Name, "2")
		}
		w.update(p)
		w.pass(4 * time.Second) // attempts after 0.5, 1 and 2 s
		wantDiff(t, "modules", map[string]string{"biz1:2": "activated", "biz2:1": "deactivated", "biz2:2": "activated"},
			w.base.states())
		w.pass(api.Drain + time.Second)
		wantDiff(t, "modules in the end", map[string]string{"biz1:2": "activated", "biz2:2": "activated"},
			w.base.states())
	})
	in(t, "a new one that fails leaves the old one", Options{}, func(t *testing.T, w *world) {
		create(w)
		w.base.with(func(b *fakeBase) {
			b.fail = func(arklet.Module) *arklet.Answer { return &arklet.Answer{Code: "FAILED", Message: "boom"} }
		})
		update(w, "2")
		w.wantShow("p1", "Running InstallModuleFailed")
		w.pass(time.Minute)
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
}
