package judge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// referring returns the event of a Pod on base a whose module version is a reference to an annotation with the given
// value.
func referring(ms int, version string, ready corev1.ConditionStatus) events.Event {
	state := events.PodStateOf(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p1", UID: "uid-p1", Annotations: map[string]string{"version": version}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "biz", Env: []corev1.EnvVar{{Name: "BIZ_VERSION",
			ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['version']"}}}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	})
	return events.Event{Time: at(ms), Pod: &events.PodEvent{Base: "a", PodState: *state}}
}

// TestVersionByReference checks that the version of a Pod can be a reference to an annotation, and that the checks
// use the new value when the annotation changes.
func TestVersionByReference(t *testing.T) {
	up := script(host(0, "a", "up"), host(1, "a", "ready"), referring(10, "1", corev1.ConditionFalse),
		installed(20, "1@a"), referring(40, "1", corev1.ConditionTrue))
	second := ready(1000, 59_000).replaced()
	second.Modules = version("2")
	for name, c := range map[string]struct {
		check  string
		events list
		want   []Finding
	}{
		"truth: the version is active": {Truth, up, nil},
		"truth: another version is active": {Truth, script(up, switched(1000, "a")),
			findings{ready(1000, 59_000).replaced()}},
		"truth: the annotation has changed": {Truth, script(up, referring(1000, "2", corev1.ConditionTrue)),
			findings{second}},
		"left: nothing": {NothingLeft, up, nil},
		"left: the earlier version": {NothingLeft,
			script(up, referring(1000, "2", corev1.ConditionFalse), swap(1010, "a")),
			findings{left(20, "1", events.ModuleDeactivated)}},
		"left: the annotation is empty": {NothingLeft, script(up, referring(1000, "", corev1.ConditionFalse)),
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, judged(c.check, Options{}, c.events).Violations); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
