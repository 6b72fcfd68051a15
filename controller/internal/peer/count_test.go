package peer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// base returns the Node of a base whose Ready condition changed at a given time.
func base(name string, ready corev1.ConditionStatus, since time.Time) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"virtual-kubelet.koupleless.io/component": "vnode",
			"base.koupleless.io/name":                 "base",
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(since)},
		}},
	}
}

func TestReplicas(t *testing.T) {
	const grace = time.Minute
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ready := func(name string) *corev1.Node { return base(name, corev1.ConditionTrue, now.Add(-time.Hour)) }
	unreachable := func(name string, since time.Duration) *corev1.Node {
		return base(name, corev1.ConditionUnknown, now.Add(-since))
	}
	other, worker, leaving, blank := ready("other"), ready("worker"), ready("leaving"), ready("blank")
	other.Labels["base.koupleless.io/name"] = "other"
	delete(worker.Labels, "virtual-kubelet.koupleless.io/component")
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	cordoned := func(node *corev1.Node, runs bool) *corev1.Node {
		node.Spec.Unschedulable = true
		node.Labels["runs"] = fmt.Sprint(runs)
		return node
	}
	blank.Status.Conditions = nil
	blank.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Second))

	tests := []struct {
		name  string
		have  int32
		nodes []*corev1.Node
		want  int32
		again time.Duration
	}{
		{"no bases", 1, nil, 0, 0},
		{"grows to the Ready bases", 1, []*corev1.Node{ready("a"), ready("b"), ready("c")}, 3, 0},
		{"shrinks to them", 5, []*corev1.Node{ready("a"), ready("b")}, 2, 0},
		{"other bases, workers and bases that leave do not count", 1,
			[]*corev1.Node{ready("a"), other, worker, leaving}, 1, 0},
		{"an unreachable base keeps its replica", 2, []*corev1.Node{ready("a"), unreachable("b", 20*time.Second)}, 2,
			40 * time.Second},
		{"the first of several to lose it", 3,
			[]*corev1.Node{unreachable("a", 20*time.Second), unreachable("b", 50*time.Second), unreachable("c", 0)}, 3,
			10 * time.Second},
		{"one of them has lost it", 3,
			[]*corev1.Node{unreachable("a", 20*time.Second), unreachable("b", time.Minute), unreachable("c", 0)}, 2,
			40 * time.Second},
		{"but does not get one", 1, []*corev1.Node{ready("a"), unreachable("b", 20*time.Second)}, 1, 0},
		{"not more than there are", 5, []*corev1.Node{ready("a"), unreachable("b", 0)}, 2, time.Minute},
		{"a cordoned base takes no Pod", 1, []*corev1.Node{ready("a"), cordoned(ready("b"), false)}, 1, 0},
		{"nor keeps a replica without one", 2, []*corev1.Node{ready("a"), cordoned(ready("b"), false)}, 1, 0},
		{"but keeps the one that it has", 2, []*corev1.Node{ready("a"), cordoned(ready("b"), true)}, 2,
			10 * time.Second},
		{"and does not get another", 1, []*corev1.Node{ready("a"), cordoned(ready("b"), true)}, 1, 0},
		{"unreachable for too long", 2, []*corev1.Node{ready("a"), cordoned(unreachable("b", time.Hour), true)}, 1, 0},
		{"a base that has said nothing counts from its creation", 1, []*corev1.Node{blank}, 1, 50 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			placement := workload.NewPlacement(
				corev1.PodSpec{NodeSelector: map[string]string{"base.koupleless.io/name": "base"}}, "")
			runs := func(node *corev1.Node) bool { return node.Labels["runs"] == "true" }
			want, again := bases{placement, tt.nodes, runs}.replicas(tt.have, now, grace)
			if want != tt.want || again != tt.again {
				t.Errorf("replicas = %d, again after %v; want %d after %v", want, again, tt.want, tt.again)
			}
		})
	}
}

// TestRuns checks that a cordoned base is counted if it has a Pod that was created from the current template.
func TestRuns(t *testing.T) {
	d := peerDeployment("peer")
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "peer"}}
	d.Spec.Template.Labels = map[string]string{"app": "peer"}
	d.Spec.Template.Annotations = map[string]string{"restartedAt": "noon"}
	d.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "biz1", Image: "file:///m/biz1.jar", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "1.0.0"}}}}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"as it was made": {func(p *corev1.Pod) {
			p.Labels["pod-template-hash"], p.Annotations["mine"] = "1", "x"
			p.Spec.NodeName, p.Spec.Containers[0].TerminationMessagePath = "a", "/dev/termination-log"
		}, true},
		"another namespace": {func(p *corev1.Pod) { p.Namespace = "other" }, false},
		"not selected":      {func(p *corev1.Pod) { p.Labels["app"] = "other" }, false},
		"leaving":           {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false},
		"another version":   {func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "0.9.0" }, false},
		"another jar":       {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "file:///m/other.jar" }, false},
		"before a restart":  {func(p *corev1.Pod) { delete(p.Annotations, "restartedAt") }, false},
		"one container less": {func(p *corev1.Pod) {
			p.Spec.Containers = nil
		}, false},
		"an injected sidecar and variable": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers,
				corev1.Container{Name: "agent", Image: "registry.example/agent:1"})
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env,
				corev1.EnvVar{Name: "POD_IP", Value: "10.0.0.1"})
		}, true},
		"another module": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "biz2", Image: "file:///m/biz2.jar"})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			template := d.Spec.Template.DeepCopy()
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.Namespace = d.Namespace
			tt.change(pod)
			if got := isCurrentPodOf(pod, d); got != tt.want {
				t.Errorf("runs = %v, want %v", got, tt.want)
			}
		})
	}
}
