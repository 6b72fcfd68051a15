package judge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// referring is a write of a Pod on base a whose version is a reference to an annotation, which has
// the value.
func referring(ms int, version string, ready corev1.ConditionStatus) events.Event {
	state := events.PodStateOf(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p1", UID: "uid-p1", Annotations: map[string]string{"version": version}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "biz", Env: []corev1.EnvVar{{Name: "BIZ_VERSION",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	})
	return events.Event{Time: at(ms), Pod: &events.PodEvent{Base: "a", PodState: *state}}
}

// A Pod whose version stands in an annotation is judged by that version, and by the new one as soon
// as the annotation has changed.
func TestVersionByReference(t *testing.T) {
	up := script(host(0, "a", "up"), host(1, "a", "ready"), referring(10, "1", corev1.ConditionFalse), installed(20, "1@a"), referring(40, "1", corev1.ConditionTrue))
	for name, c := range map[string]struct {
		check  string
		events list
		want   []string
	}{
		"truth: its version serves":          {Truth, up, nil},
		"truth: another version serves":      {Truth, script(up, switched(1000, "a")), []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 59s, where another version serves"}},
		"truth: the annotation has changed":  {Truth, script(up, referring(1000, "2", corev1.ConditionTrue)), []string{"1s a p1: Pod p1 is Ready, and a has no active biz:2 for 59s, where another version serves"}},
		"left: nothing":                      {NothingLeft, up, nil},
		"left: the version before":           {NothingLeft, script(up, referring(1000, "2", corev1.ConditionFalse), swap(1010, "a")), []string{"20ms a: biz:1 is left on a, DEACTIVATED, and no Pod of the run on that base requests it"}},
		"left: the annotation names nothing": {NothingLeft, script(up, referring(1000, "", corev1.ConditionFalse)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, told(judged(c.check, Options{}, c.events).Violations)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
