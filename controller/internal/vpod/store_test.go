package vpod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/api"
)

// TestOrderOfPodsOfTheSameSecond simulates a controller that starts during a rollout and receives Pods that were
// created in the same second in any order. The controller must determine the newer Pod from the status and the
// annotations of the Pods.
func TestOrderOfPodsOfTheSameSecond(t *testing.T) {
	created := metav1.NewTime(time.Date(2024, 7, 18, 0, 0, 0, 0, time.UTC))
	pod := func(name string, ready corev1.ConditionStatus, reason, cost string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: created}}
		p.Spec.Containers = []corev1.Container{
			{Name: "m", Image: "https://modules.example/m-1-ark-biz.jar",
				Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "1"}}}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, Reason: reason}}
		if cost != "" {
			p.Annotations = map[string]string{corev1.PodDeletionCost: cost}
		}
		return p
	}
	const conditionTrue, conditionFalse = corev1.ConditionTrue, corev1.ConditionFalse
	for _, c := range []struct {
		name string
		pods []*corev1.Pod // Pods in the order in which they are added
	}{
		{"new Pod not Ready yet",
			[]*corev1.Pod{pod("new", conditionFalse, "ContainersNotReady", ""), pod("old", conditionTrue, "", "")}},
		{"old Pod no longer Ready",
			[]*corev1.Pod{pod("new", conditionTrue, "", ""), pod("old", conditionFalse, api.ReasonDeactivated, "")}},
		{"both Ready, old Pod has a low deletion cost",
			[]*corev1.Pod{pod("new", conditionTrue, "", ""), pod("old", conditionTrue, "", "-1")}},
		{"no status was written: by the order of addition",
			[]*corev1.Pod{pod("old", conditionFalse, "", ""), pod("new", conditionFalse, "", "")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(func(*corev1.Pod) bool { return false })
			for _, p := range c.pods {
				s.putPod(p, "base", modulesOf(p, nil))
			}
			var got []string
			for _, v := range s.snapshots(slotKey{"base", "m"}) {
				got = append(got, v.pod.Name)
			}
			if diff := cmp.Diff([]string{"old", "new"}, got); diff != "" {
				t.Errorf("Pods, oldest first (-want +got):\n%s", diff)
			}
		})
	}
}
