package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

const controllerName = "module-controller"

// controllerPods are the controllers' Pods.
func controllerPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods("koupleless-system").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + controllerName})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// onlyController is the Pod of the only controller, those that are going left out.
func onlyController(t *testing.T) *corev1.Pod {
	t.Helper()
	pods, err := controllerPods(t.Context())
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d Pods of the controller, error %v; want one", len(pods), err)
	}
	return &pods[0]
}

func act(t *testing.T, component string, actions ...sandbox.Action) {
	t.Helper()
	for _, action := range actions {
		if err := up.Act(t.Context(), sandbox.ActRequest{Component: component, Action: action}); err != nil {
			t.Fatalf("%s of %s: %v", action, component, err)
		}
	}
}

// sandboxIsWell waits until nothing is wrong.
func sandboxIsWell(t *testing.T) {
	t.Helper()
	eventually(t, "the sandbox is well", func(ctx context.Context) error {
		status, err := up.Status(ctx, true)
		if err == nil && !status.Healthy {
			err = errors.New(strings.Join(status.Problems, "; "))
		}
		return err
	})
}

// story is what a stream of events tells of the controllers.
type story struct {
	mu  sync.Mutex
	all []string
}

// watchControllers follows what happens to the controllers from now on.
func watchControllers(t *testing.T) *story {
	t.Helper()
	s := &story{}
	ctx, cancel := context.WithCancel(t.Context())
	synced, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		now := false
		ended <- up.Watch(ctx, sandbox.WatchRequest{Group: "nobody"}, func(e events.Event) {
			switch {
			case e.Synced:
				now = true
				close(synced)
			case now && e.Component != nil && strings.HasPrefix(e.Component.Name, controllerName):
				s.mu.Lock()
				defer s.mu.Unlock()
				s.all = append(s.all, fmt.Sprintf("%s %s: %s", e.Component.Name, e.Component.State, e.Component.Message))
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("watching: %v", err)
		}
	})
	select {
	case <-synced:
	case err := <-ended:
		t.Fatalf("watching: %v", err)
	}
	return s
}

// tells waits until that much has happened, and compares. A kubelet that has noticed an end may say
// first that the container is not ready, and then that it has ended: that is left out.
func (s *story) tells(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	eventually(t, "all that happens is told", func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = got[:0]
		for _, what := range s.all {
			if n := len(got) - 1; n >= 0 && strings.Contains(got[n], " is not ready: ") && strings.Contains(what, " has ended: ") {
				got = got[:n]
			}
			got = append(got, what)
		}
		if len(got) < len(want) {
			return fmt.Errorf("so far it is %q", s.all)
		}
		return nil
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
}

// A controller that is killed dies in its Pod, as by a crash; its kubelet starts it again, every
// time without a long wait; all that is told, and it goes on where it was.
func TestControllerThatIsKilledComesBack(t *testing.T) {
	before := onlyController(t)
	told := watchControllers(t)
	restarts := before.Status.ContainerStatuses[0].RestartCount
	var want []string
	for n := range 3 {
		act(t, controllerName, "kill")
		status, err := up.Status(t.Context(), false)
		if err != nil || status.Healthy {
			t.Errorf("after the kill the sandbox is well: %v", err)
		}
		act(t, controllerName, "start", "start") // again is fine
		want = append(want, fmt.Sprintf("module-controller exited: Pod %s has ended: signal: killed", before.Name),
			fmt.Sprintf("module-controller running: Pod %s runs again: its kubelet has started it %d times", before.Name, int(restarts)+n+2),
			fmt.Sprintf("module-controller running: Pod %s is ready", before.Name))
	}
	told.tells(t, want...)
	after := onlyController(t)
	if s := after.Status.ContainerStatuses[0]; after.UID != before.UID || s.RestartCount != restarts+3 || s.LastTerminationState.Terminated.ExitCode != 137 {
		t.Errorf("Pod %s has become %s, started again %d times, after %+v", before.Name, after.Name, s.RestartCount, s.LastTerminationState.Terminated)
	}
	sandboxIsWell(t)
	deploy(t, "after-the-kill")
}

// A controller that is paused does nothing until it is resumed.
func TestControllerIsPausedAndResumed(t *testing.T) {
	pod := onlyController(t)
	told := watchControllers(t)
	act(t, controllerName, "pause")
	waiting := module.Pod("default", "waiting", module.Template("waiting", module.Container("waiting", "1.0.0")))
	waiting.Spec.NodeSelector = map[string]string{module.LabelBaseName: "base"}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), waiting, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Pods("default").Delete(context.Background(), waiting.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "its readiness probe fails", func(ctx context.Context) error {
		pods, err := controllerPods(ctx)
		if err == nil && (len(pods) != 1 || module.IsReady(&pods[0])) {
			err = fmt.Errorf("of %d Pods the first is Ready", len(pods))
		}
		return err
	})
	if p, err := client.CoreV1().Pods("default").Get(t.Context(), waiting.Name, metav1.GetOptions{}); err != nil || module.IsReady(p) {
		t.Errorf("a module was installed by a controller that is paused: %v", err)
	}
	act(t, controllerName, "resume")
	eventually(t, "the module is installed", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods("default").Get(ctx, waiting.Name, metav1.GetOptions{})
		if err == nil && !module.IsReady(p) {
			err = fmt.Errorf("the Pod is %s", p.Status.Phase)
		}
		return err
	})
	sandboxIsWell(t)
	told.mu.Lock()
	defer told.mu.Unlock()
	want := []string{"module-controller paused: Pod " + pod.Name + " is paused", "module-controller running: Pod " + pod.Name + " goes on"}
	if len(told.all) < 2 || !slices.Equal(want, told.all[:2]) {
		t.Errorf("what happened: %q, want first %q", told.all, want)
	}
}

// Two controllers are listed in order, each with its Pod; they share bases over HTTP too; one is
// stopped alone; a restart replaces a Pod.
func TestTwoControllers(t *testing.T) {
	before, err := up.SetController(t.Context(), sandbox.ControllerRequest{Replicas: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := up.SetController(context.Background(), before); err != nil {
			t.Error(err)
		}
	})
	if _, err := up.AddBases(t.Context(), sandbox.AddRequest{Group: "over-http", Count: 2, Spec: &v1alpha1.BaseSet{BaseName: "over-http", Tunnel: v1alpha1.TunnelHTTP}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := up.RemoveBases(context.Background(), sandbox.RemoveRequest{Group: "over-http"}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "bases over HTTP are Ready Nodes", func(ctx context.Context) error {
		list, err := up.Bases(ctx, "over-http")
		for _, b := range list {
			if !b.NodeReady {
				err = fmt.Errorf("%s has no Ready Node; connected: %t", b.HostName, b.Connected)
			}
		}
		return err
	})
	want := func(states ...string) {
		t.Helper()
		status, err := up.Status(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		pods, err := controllerPods(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range status.Components {
			if strings.HasPrefix(c.Name, controllerName) {
				pod := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == c.Pod })
				got = append(got, fmt.Sprintf("%s %s ready=%t pod=%t", c.Name, c.State, c.Ready, pod))
			}
		}
		if diff := cmp.Diff(states, got); diff != "" {
			t.Errorf("controllers (-want +got):\n%s", diff)
		}
	}
	want("module-controller running ready=true pod=true", "module-controller-2 running ready=true pod=true")
	act(t, controllerName, "stop")
	want("module-controller exited ready=false pod=false", "module-controller-2 running ready=true pod=true")
	act(t, controllerName, "start")
	act(t, controllerName+"-2", "restart")
	want("module-controller running ready=true pod=true", "module-controller-2 running ready=true pod=true")
}

// The log has the lines of every container, each behind the name of its Pod.
func TestLogOfTheController(t *testing.T) {
	act(t, controllerName, "restart")
	first := onlyController(t).Name
	act(t, controllerName, "kill", "start", "restart")
	second := onlyController(t).Name
	eventually(t, "the log tells of three starts", func(ctx context.Context) error {
		r, err := shared.Run(ctx, "logs", "--tail", "-1", controllerName)
		if err != nil {
			return err
		}
		starts := map[string]int{}
		for line := range strings.Lines(r.Out) {
			if pod, _, _ := strings.Cut(line, " "); strings.Contains(line, "msg=serving what=health") {
				starts[pod]++
			}
		}
		if starts[first] != 2 || starts[second] != 1 {
			return fmt.Errorf("starts by Pod: %v; want 2 of %s and 1 of %s", starts, first, second)
		}
		return nil
	})
}

// A controller on this machine takes the place of the one in the cluster, which does not stay
// behind; and the other way round.
func TestControllerOnThisMachine(t *testing.T) {
	here := spec()
	here.Controller.Location = v1alpha1.LocationHost
	adopt(t, here)
	status, err := up.Status(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(status.Components, func(c sandbox.Component) bool { return c.Name == controllerName })
	if i < 0 || status.Components[i].PID == 0 || status.Components[i].Pod != "" {
		t.Errorf("there is no process of the controller: %+v", status.Components)
	}
	eventually(t, "its Pod is gone", func(ctx context.Context) error {
		pods, err := controllerPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("there is Pod %s", pods[0].Name)
		}
		return err
	})
	deploy(t, "from-this-machine")
	adopt(t, spec())
	if pod := onlyController(t); !module.IsReady(pod) {
		t.Errorf("Pod %s is not Ready", pod.Name)
	}
	deploy(t, "from-the-cluster")
}
