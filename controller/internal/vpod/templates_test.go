package vpod

import (
	"errors"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/podstatus"
)

// startRollout starts a rollout of the DaemonSet. Afterwards, the base has Pods of both versions.
func (w *fixture) startRollout(m mode) {
	w.base.change(func(b *fakeBase) { b.mode = m })
	w.applyDaemonSet("1")
	w.create("old", container("biz1", "1"))
	w.advance(2 * time.Second)
	w.applyDaemonSet("2")
	w.create("new", container("biz1", "2"))
	w.advance(2 * time.Second)
}

// TestRollback starts a rollback while the base has Pods of both versions. The older Pod, whose version the DaemonSet
// requests again, must become Ready.
func TestRollback(t *testing.T) {
	for name, m := range map[string]mode{"activate.new.module": activateNew, "several versions active": activateMulti} {
		runTest(t, name, Options{Drain: -1}, func(t *testing.T, w *fixture) {
			w.startRollout(m)
			w.wantSummary("old", "Running BizDeactivate")
			w.wantSummary("new", "Running Ready")
			w.applyDaemonSet("1")
			w.advance(2 * time.Second)
			w.wantSummary("old", "Running Ready")
			w.wantSummary("new", "Running BizDeactivate")
			w.delete("new")
			w.advance(2 * time.Second)
			wantEqual(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
		})
	}
}

// TestRollbackWithSlowBase starts a rollback on a slow base. The newer Pod must stay Ready until the version of the
// older Pod is active.
func TestRollbackWithSlowBase(t *testing.T) {
	runTest(t, "", Options{Drain: -1}, func(t *testing.T, w *fixture) {
		w.createPodElsewhere()
		w.startRollout(activateNew)
		w.base.change(func(b *fakeBase) { b.delay = 5 * time.Second })
		before := len(w.readiness())
		w.applyDaemonSet("1")
		w.advance(4 * time.Second)
		wantEqual(t, "readiness before the switch", []string{}, w.readiness()[before:])
		w.advance(20 * time.Second)
		wantEqual(t, "order", []string{"new=NotReady", "old=Ready"}, w.readiness()[before:])
	})
}

// TestRollbackDuringInstall starts a rollback during an install, so that the base switches to a version that is no
// longer requested. The old Pod must stay Ready in the meantime, and the new Pod must not become Ready.
func TestRollbackDuringInstall(t *testing.T) {
	runTest(t, "", Options{Drain: -1}, func(t *testing.T, w *fixture) {
		w.applyDaemonSet("1")
		w.create("old", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.base.change(func(b *fakeBase) { b.delay = 5 * time.Second })
		w.applyDaemonSet("2")
		w.create("new", container("biz1", "2"))
		w.advance(2 * time.Second)
		w.applyDaemonSet("1")
		w.advance(4 * time.Second)
		wantEqual(t, "modules", map[string]string{"biz1:1": "deactivated", "biz1:2": "activated"}, w.base.states())
		w.advance(20 * time.Second)
		wantEqual(t, "modules", map[string]string{"biz1:1": "activated", "biz1:2": "deactivated"}, w.base.states())
		wantEqual(t, "order", []string{"old=Ready", "new=NotReady"}, w.readiness())
	})
}

// TestOutdatedPodWithTheSameVersion checks that an outdated Pod becomes Ready although a Pod of another workload with
// the same version is Ready.
func TestOutdatedPodWithTheSameVersion(t *testing.T) {
	runTest(t, "", Options{Drain: -1}, func(_ *testing.T, w *fixture) {
		w.create("other", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.applyDaemonSet("2")
		w.create("old", container("biz1", "1"))
		w.advance(2 * time.Second)
		w.wantSummary("other", "Running Ready")
		w.wantSummary("old", "Running Ready")
	})
}

// TestRolloutContinuesAfterRollback continues a rollout after a rollback, while the old Pod is being written Ready.
// The planned writes are then out of date. The old Pod must become Not Ready before the new Pod becomes Ready.
func TestRolloutContinuesAfterRollback(t *testing.T) {
	runTest(t, "", Options{Drain: -1}, func(t *testing.T, w *fixture) {
		w.createPodElsewhere()
		w.startRollout(activateMulti)
		attempts := 0
		w.api.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			pod, ok := a.(clienttesting.UpdateAction).GetObject().(*corev1.Pod)
			if !ok || pod.Name != "old" || !podstatus.IsReady(&pod.Status) {
				return false, nil, nil
			}
			attempts++
			switch attempts {
			case 1: // fail, so that the new Pod is Not Ready and does not change in the next order of writes
				return true, nil, errors.New("the API server is unavailable")
			case 2: // the DaemonSet requests the new version again, and the controller receives the event
				ds := appsv1.SchemeGroupVersion.WithResource("daemonsets")
				stored, err := w.api.Tracker().Get(ds, "default", "ds")
				if err != nil {
					return true, nil, err
				}
				again := stored.(*appsv1.DaemonSet).DeepCopy()
				again.Generation++
				again.Spec.Template.Spec.Containers = []corev1.Container{container("biz1", "2")}
				if err := w.api.Tracker().Update(ds, again, "default"); err != nil {
					return true, nil, err
				}
				for snapshots := w.store.snapshots(
					slotKey{"a", "biz1"}); snapshots[len(snapshots)-1].pod.Name != "new"; snapshots = w.store.snapshots(
					slotKey{"a", "biz1"}) {
					goruntime.Gosched()
				}
			}
			return false, nil, nil
		})
		before := len(w.readiness())
		w.applyDaemonSet("1")
		w.advance(10 * time.Second)
		wantEqual(t, "order", []string{"new=NotReady", "old=Ready", "old=NotReady", "new=Ready"},
			w.readiness()[before:])
	})
}

// TestRecreatedOutdatedPod deletes and recreates a Pod of the old version during a rollout. The recreated Pod is the
// newest one, but must not serve requests.
func TestRecreatedOutdatedPod(t *testing.T) {
	runTest(t, "", Options{Drain: -1}, func(_ *testing.T, w *fixture) {
		w.startRollout(activateNew)
		w.forceDelete("old")
		w.create("again", container("biz1", "1"))
		w.advance(5 * time.Second)
		w.wantSummary("new", "Running Ready")
	})
}

// TestOrderOfPods checks that the up-to-date Pods of a workload sort after its outdated Pods, and that all other Pods
// sort by creation time.
func TestOrderOfPods(t *testing.T) {
	outdated := map[string]bool{}
	s := newStore(func(p *corev1.Pod) bool { return outdated[p.Name] })
	add := func(name, owner string, second int) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(time.Date(2024, 7, 18, 0, 0, second, 0, time.UTC)),
			OwnerReferences:   []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner, Controller: ptr.To(true)}},
		}}
		p.Spec.Containers = []corev1.Container{container("m", name)}
		s.putPod(p, "base", modulesOf(p, nil))
	}
	add("a1", "a", 1)
	add("a3", "a", 3)
	add("b2", "b", 2)
	add("b4", "b", 4)
	key := slotKey{"base", "m"}
	for _, c := range []struct {
		name     string
		outdated []string
		want     []string
		slots    int
	}{
		{"all up to date", nil, []string{"a1", "b2", "a3", "b4"}, 0},
		{"rollout of a", []string{"a1"}, []string{"a1", "b2", "a3", "b4"}, 1},
		{"rollback of a", []string{"a3"}, []string{"b2", "a3", "a1", "b4"}, 2},
		{"all Pods of a outdated", []string{"a1", "a3"}, []string{"a1", "b2", "a3", "b4"}, 1},
	} {
		outdated = map[string]bool{}
		for _, name := range c.outdated {
			outdated[name] = true
		}
		if slots := s.updateOutdated(daemonSetPrefix + "/a"); len(slots) != c.slots ||
			slices.ContainsFunc(slots, func(k slotKey) bool { return k != key }) {
			t.Errorf("%s: changed slots %v, want %d", c.name, slots, c.slots)
		}
		var got []string
		for _, v := range s.snapshots(key) {
			got = append(got, v.pod.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: Pods, oldest first (-want +got):\n%s", c.name, diff)
		}
	}
}
