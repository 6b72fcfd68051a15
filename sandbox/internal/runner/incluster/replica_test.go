package incluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// pod returns a Pod of a controller, after applying the functions in with.
func pod(podName string, with ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: podName, UID: types.UID(podName), CreationTimestamp: metav1.Time{Time: start},
			Labels:      map[string]string{nameLabel: name},
			Annotations: map[string]string{revisionAnnotation: settings.revision()},
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, HostIP: "172.18.0.2"},
	}
	for _, change := range with {
		change(p)
	}
	return p
}

func number(n string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[numberLabel] = n } }

func older(p *corev1.Pod) { p.CreationTimestamp.Time = start.Add(-time.Minute) }

func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }

// runs returns a function that makes the container of a Pod a running container with the given number of restarts.
func runs(id string, restarts int32, ready bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		last := statusOf(p).State.Terminated
		if last == nil {
			last = statusOf(p).LastTerminationState.Terminated
		}
		s := corev1.ContainerStatus{ContainerID: "containerd://" + id, RestartCount: restarts, Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: start}}}}
		s.LastTerminationState.Terminated = last
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{s}
		condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse,
			Message: "containers with unready status: [module-controller]"}
		if ready {
			condition.Status, condition.Message = corev1.ConditionTrue, ""
		}
		p.Status.Conditions = []corev1.PodCondition{condition}
	}
}

// ended returns a function that makes the container of a Pod a terminated container.
func ended(id string, status int32, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "containerd://" + id,
			State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ContainerID: "containerd://" + id, ExitCode: status,
					Reason: reason}}}}
	}
}

// inBackOff changes the state of a terminated container to restart back-off.
func inBackOff(p *corev1.Pod) {
	s := statusOf(p)
	s.LastTerminationState, s.State = s.State, corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: crashLoop, Message: "back-off 10s"}}
}

func TestReplicaOf(t *testing.T) {
	unscheduled := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no capacity"}}
	}
	noImage := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull", Message: "the image is not present"}}}}
	}
	const at = "172.18.0.2:30001"
	for testName, tc := range map[string]struct {
		pod     *corev1.Pod
		mark    containerMark
		stopped bool
		want    Replica
	}{
		"no Pod":  {want: Replica{State: supervise.Exited, Reason: reasonNoPod}},
		"stopped": {stopped: true, want: Replica{State: supervise.Exited, Reason: "stopped"}},
		"unschedulable": {pod: pod("a", unscheduled),
			want: Replica{Pod: "a", State: supervise.Exited, Reason: "no capacity"}},
		"no image": {pod: pod("a", noImage),
			want: Replica{Pod: "a", State: supervise.Exited, Reason: "ErrImageNeverPull: the image is not present"}},
		"not ready": {pod: pod("a", runs("x", 0, false)),
			want: Replica{Pod: "a", State: supervise.Running, Since: start, Heartbeats: at,
				Reason: "containers with unready status: [module-controller]"}},
		"ready": {pod: pod("a", runs("x", 0, true)),
			want: Replica{Pod: "a", State: supervise.Running, Since: start, Heartbeats: at, Ready: true}},
		"being deleted": {pod: pod("a", runs("x", 0, true), deleted),
			want: Replica{Pod: "a", State: supervise.Running, Since: start, Reason: reasonDeleting}},
		"paused": {pod: pod("a", runs("x", 0, true)), mark: markPaused,
			want: Replica{Pod: "a", State: supervise.Paused, Since: start, Heartbeats: at, Reason: "paused"}},
		"just killed": {pod: pod("a", runs("x", 0, true)), mark: markKilled,
			want: Replica{Pod: "a", State: supervise.Exited, Reason: "signal: killed"}},
		"killed": {pod: pod("a", ended("x", 137, "Error")),
			want: Replica{Pod: "a", State: supervise.Exited, Reason: "signal: killed"}},
		"out of memory": {pod: pod("a", ended("x", 137, "OOMKilled")),
			want: Replica{Pod: "a", State: supervise.Exited, Reason: "signal: killed: OOMKilled"}},
		"failed": {pod: pod("a", ended("x", 3, "Error")),
			want: Replica{Pod: "a", State: supervise.Exited, Reason: "exit status 3"}},
		"back-off": {pod: pod("a", ended("x", 3, "Error"), inBackOff),
			want: Replica{Pod: "a", State: supervise.Exited, Reason: "CrashLoopBackOff: back-off 10s"}},
	} {
		t.Run(testName, func(t *testing.T) {
			got := replicaOf(1, tc.pod, map[string]containerMark{"containerd://x": tc.mark}, 30001, tc.stopped)
			tc.want.Number = 1
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(Replica{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDiffReplicas checks that the reported changes of a controller are complete: the end of a container must always
// be reported before the start of the next one.
func TestDiffReplicas(t *testing.T) {
	killed := pod("a", runs("x", 0, true), ended("x", 137, "Error"))
	const running, exited = supervise.Running, supervise.Exited
	states := map[ChangeKind]supervise.State{Started: running, Restarted: running, BecameReady: running,
		BecameNotReady: running, Resumed: running,
		Paused: supervise.Paused, Ended: exited, Deleted: exited}
	for testName, tc := range map[string]struct {
		was, is       *corev1.Pod
		wasMark, mark containerMark // marks of the container x in the two states
		want          []string
	}{
		"unscheduled": {is: pod("a")},
		"started":     {was: pod("a"), is: pod("a", runs("x", 0, false)), want: []string{"Started a"}},
		"became ready": {was: pod("a", runs("x", 0, false)), is: pod("a", runs("x", 0, true)),
			want: []string{"BecameReady a"}},
		"ready when first seen": {is: pod("a", runs("x", 0, true)), want: []string{"Started a", "BecameReady a"}},
		"probe failed": {was: pod("a", runs("x", 0, true)), is: pod("a", runs("x", 0, false)),
			want: []string{"BecameNotReady a containers with unready status: [module-controller]"}},
		"killed": {was: pod("a", runs("x", 0, true)), is: killed,
			want: []string{"Ended a signal: killed"}},
		"marked as killed": {was: pod("a", runs("x", 0, true)), is: pod("a", runs("x", 0, true)), mark: markKilled,
			want: []string{"Ended a signal: killed"}},
		"end reported once": {was: pod("a", runs("x", 0, true)), wasMark: markKilled, is: killed},
		"restarted": {was: killed, is: pod("a", ended("x", 137, "Error"), runs("y", 1, false)),
			want: []string{"Restarted a"}},
		"end not observed": {was: pod("a", runs("x", 0, true)),
			is:   pod("a", ended("x", 3, "Error"), runs("y", 1, false)),
			want: []string{"Ended a exit status 3", "Restarted a"}},
		"back-off": {was: killed, is: pod("a", ended("x", 137, "Error"), inBackOff)},
		"replaced": {was: pod("a", runs("x", 0, true)), is: pod("b"), want: []string{"Deleted a"}},
		"replaced by a running Pod": {was: pod("a", runs("x", 0, true)), is: pod("b", runs("y", 0, false)),
			want: []string{"Deleted a", "Started b"}},
		"being deleted": {was: pod("a", runs("x", 0, true)), is: pod("a", runs("x", 0, true), deleted),
			want: []string{"BecameNotReady a " + reasonDeleting}},
		"deleted": {was: pod("a", runs("x", 0, true), deleted), want: []string{"Deleted a"}},
		"paused": {was: pod("a", runs("x", 0, true)), is: pod("a", runs("x", 0, true)), mark: markPaused,
			want: []string{"Paused a"}},
		"still paused": {was: pod("a", runs("x", 0, true)), wasMark: markPaused, is: pod("a", runs("x", 0, false)),
			mark: markPaused},
		"resumed": {was: pod("a", runs("x", 0, true)), wasMark: markPaused, is: pod("a", runs("x", 0, true)),
			want: []string{"Resumed a"}},
	} {
		t.Run(testName, func(t *testing.T) {
			was := replicaOf(1, tc.was, map[string]containerMark{"containerd://x": tc.wasMark}, 1, false)
			is := replicaOf(1, tc.is, map[string]containerMark{"containerd://x": tc.mark}, 1, false)
			var got []string
			for _, c := range diffReplicas(was, is) {
				text := fmt.Sprintf("%s %s", c.Kind, c.Pod)
				if c.Kind == Ended || c.Kind == BecameNotReady {
					text += " " + c.Reason
				}
				got = append(got, text)
				if c.State != states[c.Kind] || !strings.HasPrefix(c.Message(), "Pod "+c.Pod+" ") {
					t.Errorf("%s: state %s, message %q", text, c.State, c.Message())
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
