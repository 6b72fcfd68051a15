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

// halfWay has a rollout of the DaemonSet come to where a base has Pods of both versions.
func (w *world) halfWay(m mode) {
	w.base.with(func(b *fakeBase) { b.mode = m })
	w.wants("1")
	w.create("old", container("biz1", "1"))
	w.pass(2 * time.Second)
	w.wants("2")
	w.create("new", container("biz1", "2"))
	w.pass(2 * time.Second)
}

// A rollout is taken back while both Pods are there: the one that is wanted again serves, though it
// is the older one.
func TestARolloutIsTakenBack(t *testing.T) {
	for name, m := range map[string]mode{"activate.new.module": activateNew, "several versions active": activateMulti} {
		in(t, name, Options{Drain: -1}, func(t *testing.T, w *world) {
			w.halfWay(m)
			w.wantShow("old", "Running BizDeactivate")
			w.wantShow("new", "Running Ready")
			w.wants("1")
			w.pass(2 * time.Second)
			w.wantShow("old", "Running Ready")
			w.wantShow("new", "Running BizDeactivate")
			w.delete("new")
			w.pass(2 * time.Second)
			wantDiff(t, "modules", map[string]string{"biz1:1": "activated"}, w.base.states())
		})
	}
}

// A rollout is taken back, and the version that is wanted again takes its time to come: its Pod turns
// Ready only then, for the other one serves.
func TestARolloutIsTakenBackSlowly(t *testing.T) {
	in(t, "", Options{Drain: -1}, func(t *testing.T, w *world) {
		w.elsewhere()
		w.halfWay(activateNew)
		w.base.with(func(b *fakeBase) { b.delay = 5 * time.Second })
		before := len(w.readiness())
		w.wants("1")
		w.pass(4 * time.Second)
		wantDiff(t, "readiness meanwhile", []string{}, w.readiness()[before:])
		w.pass(20 * time.Second)
		wantDiff(t, "order", []string{"new=NotReady", "old=Ready"}, w.readiness()[before:])
	})
}

// A rollout is taken back during the install: the base switches to what nobody wants any more, and the
// old Pod stays Ready meanwhile. The new one does not turn Ready beside it.
func TestARolloutIsTakenBackDuringTheInstall(t *testing.T) {
	in(t, "", Options{Drain: -1}, func(t *testing.T, w *world) {
		w.wants("1")
		w.create("old", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.base.with(func(b *fakeBase) { b.delay = 5 * time.Second })
		w.wants("2")
		w.create("new", container("biz1", "2"))
		w.pass(2 * time.Second)
		w.wants("1")
		w.pass(4 * time.Second)
		wantDiff(t, "modules", map[string]string{"biz1:1": "deactivated", "biz1:2": "activated"}, w.base.states())
		w.pass(20 * time.Second)
		wantDiff(t, "modules", map[string]string{"biz1:1": "activated", "biz1:2": "deactivated"}, w.base.states())
		wantDiff(t, "order", []string{"old=Ready", "new=NotReady"}, w.readiness())
	})
}

// A Pod that its workload does not want any more turns Ready beside another workload's of the same version.
func TestAnOutdatedPodOfTheSameVersion(t *testing.T) {
	in(t, "", Options{Drain: -1}, func(_ *testing.T, w *world) {
		w.create("other", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wants("2")
		w.create("old", container("biz1", "1"))
		w.pass(2 * time.Second)
		w.wantShow("other", "Running Ready")
		w.wantShow("old", "Running Ready")
	})
}

// A rollout that was taken back goes on after all while the old Pod is being written Ready: what was
// planned does not count any more, and it turns Not Ready before the new one turns Ready.
func TestARolloutGoesOnThatWasTakenBack(t *testing.T) {
	in(t, "", Options{Drain: -1}, func(t *testing.T, w *world) {
		w.elsewhere()
		w.halfWay(activateMulti)
		tried := 0
		w.api.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			pod, ok := a.(clienttesting.UpdateAction).GetObject().(*corev1.Pod)
			if !ok || pod.Name != "old" || !podstatus.IsReady(&pod.Status) {
				return false, nil, nil
			}
			tried++
			switch tried {
			case 1: // so that the new Pod is Not Ready, and stays so by the plan
				return true, nil, errors.New("the API server is away")
			case 2: // somebody wants the new version again, and the controller hears it
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
				for views := w.store.views(
					workerKey{"a", "biz1"}); views[len(views)-1].pod.Name != "new"; views = w.store.views(
					workerKey{"a", "biz1"}) {
					goruntime.Gosched()
				}
			}
			return false, nil, nil
		})
		before := len(w.readiness())
		w.wants("1")
		w.pass(10 * time.Second)
		wantDiff(t, "order", []string{"new=NotReady", "old=Ready", "old=NotReady", "new=Ready"}, w.readiness()[before:])
	})
}

// A Pod of the old version is deleted by somebody in mid-rollout and made anew: it is the newest one,
// and not the one that is to serve.
func TestAnOldPodComesAgain(t *testing.T) {
	in(t, "", Options{Drain: -1}, func(_ *testing.T, w *world) {
		w.halfWay(activateNew)
		w.forceDelete("old")
		w.create("again", container("biz1", "1"))
		w.pass(5 * time.Second)
		w.wantShow("new", "Running Ready")
	})
}

// What a workload wants comes after what it does not want any more, and among Pods of several
// workloads the newest still counts.
func TestOrderOfPods(t *testing.T) {
	unwanted := map[string]bool{}
	s := newStore(func(p *corev1.Pod) bool { return unwanted[p.Name] })
	add := func(name, owner string, second int) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(time.Date(2024, 7, 18, 0, 0, second, 0, time.UTC)),
			OwnerReferences:   []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner, Controller: ptr.To(true)}},
		}}
		p.Spec.Containers = []corev1.Container{container("m", name)}
		s.put(p, "base", modulesOf(p, nil))
	}
	add("a1", "a", 1)
	add("a3", "a", 3)
	add("b2", "b", 2)
	add("b4", "b", 4)
	key := workerKey{"base", "m"}
	for _, c := range []struct {
		name     string
		unwanted []string
		want     []string
		lanes    int
	}{
		{"all are wanted", nil, []string{"a1", "b2", "a3", "b4"}, 0},
		{"a rollout of a: no other Pod is meant", []string{"a1"}, []string{"a1", "b2", "a3", "b4"}, 1},
		{"it is taken back", []string{"a3"}, []string{"b2", "a3", "a1", "b4"}, 2},
		{"none of a is wanted", []string{"a1", "a3"}, []string{"a1", "b2", "a3", "b4"}, 1},
	} {
		unwanted = map[string]bool{}
		for _, name := range c.unwanted {
			unwanted[name] = true
		}
		if lanes := s.changed(daemonSet + "/a"); len(lanes) != c.lanes ||
			slices.ContainsFunc(lanes, func(k workerKey) bool { return k != key }) {
			t.Errorf("%s: %v are to be looked at, want %d", c.name, lanes, c.lanes)
		}
		var got []string
		for _, v := range s.views(key) {
			got = append(got, v.pod.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: oldest first (-want +got):\n%s", c.name, diff)
		}
	}
}
