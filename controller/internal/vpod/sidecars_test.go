package vpod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// showContainers returns the name, state and readiness of each container of a Pod as text.
func showContainers(p *corev1.Pod) (list []string) {
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range statuses {
			state := "waiting"
			switch {
			case c.State.Running != nil:
				state = "running"
			case c.State.Terminated != nil:
				state = c.State.Terminated.Reason
			}
			if c.Ready {
				state += " ready"
			}
			list = append(list, c.Name+" "+state)
		}
	}
	return list
}

// TestSidecars creates a Pod with containers that are not modules. These containers must not keep the Pod from being
// Ready, and kubectl must show n/n in its column READY.
func TestSidecars(t *testing.T) {
	agent := corev1.Container{Name: "agent", Image: "registry.example/agent:1.4"}
	runTest(t, "with a module", Options{}, func(t *testing.T, w *fixture) {
		p := w.pod(w.create("p1", agent, container("biz1", "1")).Name)
		proxy := corev1.Container{Name: "proxy", Image: "proxy:1",
			RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}, proxy}
		p.Finalizers = []string{"example.com/keep"}
		w.update(nextVersion(p))
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "containers",
			[]string{"init Completed ready", "proxy running ready", "agent running ready", "biz1 running ready"},
			showContainers(w.pod("p1")))
		wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
		writes := w.statusWrites()
		w.base.sendList()
		w.advance(time.Minute)
		wantEqual(t, "writes without a change", 0, w.statusWrites()-writes)
		w.delete("p1")
		w.advance(5 * time.Second)
		wantEqual(t, "containers after the deletion",
			[]string{"init Completed ready", "proxy Completed", "agent Completed", "biz1 Completed"},
			showContainers(w.pod("p1")))
	})
	runTest(t, "with a module that is not installed", Options{}, func(t *testing.T, w *fixture) {
		bad := container("biz1", "1")
		bad.Image = "nginx:1"
		w.create("p1", agent, bad)
		w.create("p2", agent)
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Pending DecodeURLFailed")
		wantEqual(t, "containers", []string{"agent running", "biz1 waiting"}, showContainers(w.pod("p1")))
		w.wantSummary("p2", "Pending InvalidParameter") // it has no module
	})
	runTest(t, "container whose image was a URL before", Options{}, func(_ *testing.T, w *fixture) {
		p := w.pod(w.create("p1", container("biz1", "1"),
			corev1.Container{Name: "agent", Image: "https://h/agent.jar"}).Name)
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Pending InvalidParameter")
		p = w.pod(p.Name)
		p.Spec.Containers[1].Image = "agent:1.4"
		w.update(nextVersion(p))
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Running Ready")
		w.triggerAll("a")
		w.advance(5 * time.Second)
		w.delete("p1")
		w.advance(5 * time.Second)
		w.wantSummary("p1", "gone")
	})
}
