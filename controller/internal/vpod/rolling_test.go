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

// createPodElsewhere creates a Ready Pod of the module on another base.
func (w *fixture) createPodElsewhere() {
	w.t.Helper()
	w.add(podElsewhere())
	w.advance(time.Second)
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
	roll := func(w *fixture) {
		w.create("old", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.wantSummary("old", "Running Ready")
		w.create("new", container("biz1", "2"))
		w.advance(2 * time.Second)
	}
	for name, m := range map[string]mode{"activate.new.module": activateNew, "several active versions": activateMulti} {
		runTest(t, name+": old Pod turns Not Ready, then new Pod turns Ready", Options{},
			func(t *testing.T, w *fixture) {
				w.base.change(func(b *fakeBase) { b.mode = m })
				w.createPodElsewhere()
				roll(w)
				w.wantSummary("old", "Running BizDeactivate")
				w.wantSummary("new", "Running Ready")
				wantEqual(t, "order", []string{"old=Ready", "old=NotReady", "new=Ready"}, w.readiness())
				w.delete("old")
				w.advance(4 * time.Second)
				w.wantSummary("old", "gone")
				wantEqual(t, "modules", map[string]string{"biz1:2": "activated"}, w.base.states())
			})
		runTest(t, name+": the only Ready Pod stays Ready until the new Pod is Ready", Options{},
			func(t *testing.T, w *fixture) {
				w.base.change(func(b *fakeBase) { b.mode = m })
				roll(w)
				wantEqual(t, "order", []string{"old=Ready", "new=Ready", "old=NotReady"}, w.readiness())
				if got := w.pod("old").Annotations[corev1.PodDeletionCost]; got != "-1" {
					t.Errorf("deletion cost of the old Pod: %q, want -1", got)
				}
			})
		runTest(t, name+": a Pod on another base turns Ready while the deletion cost is written", Options{},
			func(t *testing.T, w *fixture) {
				w.base.change(func(b *fakeBase) { b.mode = m })
				w.api.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					if err := w.api.Tracker().Add(podElsewhere()); err != nil && !apierrors.IsAlreadyExists(err) {
						t.Error(err)
					}
					synctest.Wait() // until the controller has received the Pod
					return false, nil, nil
				})
				roll(w)
				wantEqual(t, "order", []string{"old=Ready", "old=NotReady", "new=Ready"}, w.readiness())
			})
	}
	runTest(t, "the delay of a superseded Pod is independent of the time scale", Options{TimeScale: 10},
		func(_ *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) { b.mode = activateNew })
			w.create("old", container("biz1", "1"))
			w.advance(2 * time.Second)
			w.create("new", container("biz1", "2"))
			w.advance(700 * time.Millisecond)
			w.wantSummary("new", "Running Ready")
			w.wantSummary("old", "Running Ready")
			w.advance(700 * time.Millisecond)
			w.wantSummary("old", "Running BizDeactivate")
		})
	runTest(t, "default base over HTTP: the controller switches to the new version", Options{},
		func(t *testing.T, w *fixture) {
			w.overHTTP()
			w.base.change(func(b *fakeBase) { b.mode = keepOld })
			roll(w)
			w.wantSummary("old", "Running BizDeactivate")
			w.wantSummary("new", "Running Ready")
			wantEqual(t, "commands", []string{"installBiz biz1:1", "installBiz biz1:2", "switchBiz biz1:2"},
				w.base.takeCommands())
		})
	runTest(t, "default base over MQTT: the old version serves until its Pod is deleted", Options{Drain: -1},
		func(t *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) { b.mode = keepOld })
			roll(w)
			w.wantSummary("old", "Running Ready")
			w.wantSummary("new", "Running BizNotActivated")
			w.advance(5 * time.Minute)
			wantEqual(t, "commands: no reinstall loop", []string{"installBiz biz1:1", "installBiz biz1:2"},
				w.base.takeCommands())
			w.delete("old")
			w.advance(5 * time.Second)
			w.wantSummary("new", "Running Ready")
			wantEqual(t, "modules", map[string]string{"biz1:2": "activated"}, w.base.states())
			wantEqual(t, "commands: only one install without an active version",
				[]string{"uninstallBiz biz1:2", "uninstallBiz biz1:1", "installBiz biz1:2"}, w.base.takeCommands())
		})
	runTest(t, "default base over MQTT: the new version is uninstalled only once", Options{Drain: -1},
		func(t *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) { b.mode, b.refuseUninstall = keepOld, "biz1:1" })
			roll(w)
			w.base.takeCommands()
			w.delete("old")
			w.advance(3 * time.Second) // attempts after 0, 0.5 and 1.5 s
			wantEqual(t, "commands", []string{
				"uninstallBiz biz1:2", "uninstallBiz biz1:1", "installBiz biz1:2", "uninstallBiz biz1:1",
				"uninstallBiz biz1:1",
			}, w.base.takeCommands())
		})
	runTest(t, "rollback to a version that is still installed", Options{}, func(t *testing.T, w *fixture) {
		roll(w)
		w.create("back", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.wantSummary("back", "Running Ready")
		w.wantSummary("new", "Running BizDeactivate")
		wantEqual(t, "modules", map[string]string{"biz1:1": "activated", "biz1:2": "deactivated"}, w.base.states())
	})
	for name, before := range map[string]map[string]string{"without": nil, "with": {corev1.PodDeletionCost: "5"}} {
		runTest(t, "rollback of the only Ready Pod "+name+" a deletion cost", Options{},
			func(t *testing.T, w *fixture) {
				w.create("old", container("biz1", "1"))
				w.advance(2 * time.Second)
				old := w.pod("old")
				old.Annotations = before
				w.update(old)
				w.create("new", container("biz1", "2"))
				w.advance(2 * time.Second)
				wantEqual(t, "annotations of the superseded Pod", map[string]string{
					corev1.PodDeletionCost: "-1", labels.DeletionCost: before[corev1.PodDeletionCost],
				}, w.pod("old").Annotations)
				w.delete("new")
				w.advance(time.Minute)
				w.wantSummary("old", "Running Ready")
				if diff := cmp.Diff(before, w.pod("old").Annotations, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("annotations after the rollback (-want +got):\n%s", diff)
				}
				w.create("newer", container("biz1", "3"))
				w.advance(2 * time.Second)
				wantEqual(t, "deletion cost after the next release", "-1",
					w.pod("old").Annotations[corev1.PodDeletionCost])
			})
	}
	runTest(t, "the deletion cost of a new Pod with the same name does not change", Options{},
		func(t *testing.T, w *fixture) {
			earlier := w.create("old", container("biz1", "1")).DeepCopy()
			earlier.UID = "earlier"
			if err := w.writer.preferDeletion(t.Context(), &podRecord{uid: earlier.UID}, earlier, true); err != nil {
				t.Error(err)
			}
			wantEqual(t, "annotations", map[string]string(nil), w.pod("old").Annotations)
		})
	runTest(t, "release after a rollback that the informer has not received yet: deletion cost is restored", Options{},
		func(t *testing.T, w *fixture) {
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
			cached := w.pod("old")
			prefer(cached, false)
			prefer(cached, true)
			prefer(cached, false)
			wantEqual(t, "annotations", map[string]string{corev1.PodDeletionCost: "5"}, w.pod("old").Annotations)
			prefer(w.pod("old"), true)
			pod = w.pod("old")
			pod.Annotations[corev1.PodDeletionCost] = "7"
			w.update(pod)
			synctest.Wait()
			prefer(w.pod("old"), false)
			wantEqual(t, "annotations after a change by a user", map[string]string{corev1.PodDeletionCost: "7"},
				w.pod("old").Annotations)
		})
	runTest(t, "new version fails: the old version stays active", Options{MaxAttempts: 3},
		func(t *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(m arklet.Module) *arklet.Answer {
					if m.Version == "2" {
						return &arklet.Answer{Code: "FAILED", DataCode: "FAILED",
							Message:     "java.lang.reflect.InvocationTargetException",
							DataMessage: "java.lang.reflect.InvocationTargetException"}
					}
					return nil
				}
			})
			roll(w)
			w.advance(time.Minute)
			w.wantSummary("old", "Running Ready")
			w.wantSummary("new", "Pending RetryTimesExceeded")
			// The attempts continue: after 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s.
			wantEqual(t, "commands",
				append([]string{"installBiz biz1:1"}, slices.Repeat([]string{"installBiz biz1:2"}, 7)...),
				w.base.takeCommands())
			if e := w.nextEvent(); !strings.Contains(e, "User.InstallBizUserError") {
				t.Errorf("Event %q does not have the error code of a user error", e)
			}
			w.base.loseModules() // the base restarts: the old version is installed again
			w.advance(2 * time.Minute)
			w.wantSummary("old", "Running Ready")
		})
}

// TestReleaseDuringAnotherRelease starts a third release during the second one, so that the base activates a version
// that no Pod requests any more. The oldest Pod must stay Ready until the newest one is Ready, because the active
// version processes the requests.
func TestReleaseDuringAnotherRelease(t *testing.T) {
	startSecondRelease := func(w *fixture, after time.Duration) {
		w.base.change(func(b *fakeBase) { b.mode, b.delay = activateNew, time.Second })
		w.create("old", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.create("middle", container("biz1", "2"))
		w.advance(after)
		w.forceDelete("middle") // its install may be in progress
	}
	startThirdRelease := func(w *fixture, then func(b *fakeBase)) {
		startSecondRelease(w, 500*time.Millisecond)
		w.base.change(then)
		w.create("new", container("biz1", "3"))
	}
	// The second Pod is deleted just after the base has switched to its version.
	cancelSecondRelease := func(w *fixture, then func(b *fakeBase)) {
		startSecondRelease(w, 999*time.Millisecond)
		w.advance(time.Millisecond)
		w.base.change(then)
		w.base.sendList()
	}
	runTest(t, "old Pod stays Ready until the newest Pod is Ready", Options{}, func(t *testing.T, w *fixture) {
		startThirdRelease(w, func(b *fakeBase) { b.delay = time.Second })
		w.advance(5 * time.Second)
		order := w.readiness()
		wantEqual(t, "order", []string{"new=Ready", "old=NotReady"}, order[len(order)-2:])
	})
	runTest(t, "old Pod stays Ready for at most half a minute", Options{}, func(_ *testing.T, w *fixture) {
		startThirdRelease(w, func(b *fakeBase) { b.delay, b.ignore = 0, arklet.CommandInstallBiz })
		w.advance(time.Second)
		w.base.sendList()
		w.advance(28 * time.Second)
		w.wantSummary("old", "Running Ready")
		w.advance(3 * time.Second)
		w.wantSummary("old", "Running BizNotActivated")
	})
	runTest(t, "old Pod turns Not Ready if its version cannot be installed again", Options{},
		func(_ *testing.T, w *fixture) {
			cancelSecondRelease(w, func(b *fakeBase) {
				b.installAnswer = func(arklet.Module) *arklet.Answer {
					return &arklet.Answer{Code: "FAILED",
						Message: "no jar"}
				}
			})
			w.advance(5 * time.Second)
			w.wantSummary("old", "Running InstallModuleFailed")
		})
	runTest(t, "old Pod stays Ready until its version is active again", Options{}, func(t *testing.T, w *fixture) {
		cancelSecondRelease(w, func(b *fakeBase) { b.delay = 10 * time.Second })
		w.advance(time.Minute)
		w.wantSummary("old", "Running Ready")
		order := w.readiness()
		if i := slices.Index(order, "old=Ready"); slices.Contains(order[i:], "old=NotReady") {
			t.Errorf("readiness %q: old must not turn Not Ready", order)
		}
		wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
	runTest(t, "old Pod stays Ready if the second Pod is deleted immediately", Options{Drain: -1},
		func(t *testing.T, w *fixture) {
			startSecondRelease(w, 1900*time.Millisecond) // the second Pod has just turned Ready
			w.base.change(func(b *fakeBase) { b.delay = 10 * time.Second })
			w.advance(time.Minute)
			w.wantSummary("old", "Running Ready")
			order := w.readiness()
			if i := slices.Index(order, "old=Ready"); slices.Contains(order[i:], "old=NotReady") ||
				!slices.Contains(order, "middle=Ready") {
				t.Errorf("readiness %q: middle must turn Ready, and old must not turn Not Ready", order)
			}
		})
	runTest(t, "old Pod turns Ready again if the second Pod is deleted later", Options{Drain: -1},
		func(t *testing.T, w *fixture) {
			// the second Pod has been Ready for longer than handover.SupersedeDelay
			startSecondRelease(w, 3*time.Second)
			w.base.change(func(b *fakeBase) { b.delay = 10 * time.Second })
			w.advance(100 * time.Millisecond)
			w.wantSummary("old", "Running Ready")
			w.advance(time.Minute)
			order := w.readiness()
			wantEqual(t, "readiness", []string{"middle=Ready", "old=NotReady", "old=Ready"},
				order[max(0, len(order)-3):])
			wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
		})
	runTest(t, "old Pod turns Not Ready if another client has installed the active version", Options{},
		func(_ *testing.T, w *fixture) {
			w.base.change(func(b *fakeBase) { b.mode = activateNew })
			w.create("old", container("biz1", "1"))
			w.advance(2 * time.Second)
			w.base.change(func(b *fakeBase) {
				b.delay = 10 * time.Second
				b.install(arklet.Module{Name: "biz1", Version: "2", URL: "file:///m/2.jar"})
			})
			w.base.sendList()
			w.advance(time.Second)
			w.wantSummary("old", "Running BizNotActivated")
		})
}

// TestInstallIsRequestedAgain checks that the controller does not send a second install command if, for a moment, no
// Pod requests the version that is being installed.
func TestInstallIsRequestedAgain(t *testing.T) {
	runTest(t, "", Options{}, func(t *testing.T, w *fixture) {
		w.base.change(func(b *fakeBase) { b.mode = activateNew })
		w.create("old", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.base.change(func(b *fakeBase) { b.ignore = arklet.CommandInstallBiz })
		w.create("new", container("biz1", "2"))
		w.advance(100 * time.Millisecond)
		w.base.change(func(b *fakeBase) {
			b.modules = append(b.modules, arklet.Biz{Name: "biz1", Version: "2", State: arklet.StateResolved})
		})
		w.forceDelete("new")
		w.advance(10 * time.Millisecond)
		w.create("again", container("biz1", "2"))
		w.advance(time.Second)
		wantEqual(t, "commands", []string{"installBiz biz1:1", "installBiz biz1:2"}, w.base.takeCommands())
	})
}

func TestFailedRule(t *testing.T) {
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
		runTest(t, fmt.Sprintf("rule %s, owned %t", c.rule, c.owned), Options{FailedPods: c.rule, Drain: -1},
			func(t *testing.T, w *fixture) {
				if !c.owned {
					w.owners = nil
				}
				w.create("old", container("biz1", "1"))
				w.advance(2 * time.Second)
				w.create("new", container("biz1", "2"))
				w.advance(2 * time.Second)
				w.wantSummary("old", c.want)
				w.wantSummary("new", "Running Ready")
				w.delete("old")
				w.advance(time.Second)
				wantEqual(t, "modules after the old Pod was deleted", map[string]string{"biz1:2": "activated"},
					w.base.states())
			})
	}
}

// overHTTP connects the base through the HTTP tunnel instead of the MQTT tunnel.
func (w *fixture) overHTTP() {
	_, _ = w.registry.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a"}, arklet.Heartbeat{})
	w.base.key = tunnel.HTTP
	w.requests.AddTunnel(w.base)
	w.sendHeartbeat()
}

func TestVersionChangeInPlace(t *testing.T) {
	update := func(w *fixture, version string) {
		p := w.pod("p1")
		p.Annotations = map[string]string{"version": version}
		p.Spec.Containers[0].Image = "file:///m/biz1-" + version + ".jar"
		w.update(p)
		w.advance(time.Second)
	}
	c := container("biz1", "1")
	c.Env = []corev1.EnvVar{{Name: labels.VersionEnv,
		ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}}}
	create := func(w *fixture) {
		w.create("p1", c)
		update(w, "1")
		w.wantSummary("p1", "Running Ready")
		w.base.takeCommands()
	}
	runTest(t, "new version is installed, then the old one is uninstalled", Options{}, func(t *testing.T, w *fixture) {
		create(w)
		w.base.change(func(b *fakeBase) { b.delay = 3 * time.Second })
		update(w, "2")
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "image while the old version serves", "file:///m/biz1-1.jar",
			w.pod("p1").Status.ContainerStatuses[0].ImageID)
		w.advance(3 * time.Second)
		w.base.change(func(b *fakeBase) { b.delay = 0 })
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "modules during the drain",
			map[string]string{"biz1:1": "deactivated", "biz1:2": "activated"}, w.base.states())
		w.advance(api.Drain)
		wantEqual(t, "commands", []string{"installBiz biz1:2", "uninstallBiz biz1:1"}, w.base.takeCommands())
	})
	runTest(t, "two modules: each is drained after its own new version is active", Options{},
		func(t *testing.T, w *fixture) {
			w.create("p1", container("biz1", "1"), container("biz2", "1"))
			w.advance(time.Second)
			slow := 3
			w.base.change(func(b *fakeBase) {
				b.installAnswer = func(m arklet.Module) *arklet.Answer {
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
			w.advance(4 * time.Second) // attempts after 0.5, 1 and 2 s
			wantEqual(t, "modules",
				map[string]string{"biz1:2": "activated", "biz2:1": "deactivated", "biz2:2": "activated"},
				w.base.states())
			w.advance(api.Drain + time.Second)
			wantEqual(t, "modules after the drain", map[string]string{"biz1:2": "activated", "biz2:2": "activated"},
				w.base.states())
		})
	runTest(t, "new version fails: the old version stays", Options{}, func(t *testing.T, w *fixture) {
		create(w)
		w.base.change(func(b *fakeBase) {
			b.installAnswer = func(arklet.Module) *arklet.Answer {
				return &arklet.Answer{Code: "FAILED",
					Message: "boom"}
			}
		})
		update(w, "2")
		w.wantSummary("p1", "Running InstallModuleFailed")
		w.advance(time.Minute)
		wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
	})
}
