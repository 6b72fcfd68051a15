package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const controllerName = "module-controller"

func controllerPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods("koupleless-system").List(ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + controllerName})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// onlyController returns the single Pod of the controller, ignoring Pods that are being deleted. It fails the test if
// there is not exactly one Pod.
func onlyController(t *testing.T) *corev1.Pod {
	t.Helper()
	pods, err := controllerPods(t.Context())
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d Pods of the controller, error %v; want 1", len(pods), err)
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

// waitHealthy waits until status reports no problems.
func waitHealthy(t *testing.T) {
	t.Helper()
	eventually(t, "the sandbox is healthy", func(ctx context.Context) error {
		status, err := up.Status(ctx, true)
		if err == nil && !status.Healthy {
			err = errors.New(strings.Join(status.Problems, "; "))
		}
		return err
	})
}

// TestKilledController checks that the kill action kills the controller process in its Pod, that the kubelet restarts
// the process in the same Pod, and that the controller then works again.
func TestKilledController(t *testing.T) {
	before := onlyController(t)
	restarts := before.Status.ContainerStatuses[0].RestartCount
	for range 3 {
		act(t, controllerName, "kill")
		status, err := up.Status(t.Context(), false)
		must(t, err)
		if status.Healthy {
			t.Error("the sandbox is healthy after the kill")
		}
		act(t, controllerName, "start", "start") // the second start has no effect
	}
	after := onlyController(t)
	if s := after.Status.ContainerStatuses[0]; after.UID != before.UID || s.RestartCount != restarts+3 ||
		s.LastTerminationState.Terminated.ExitCode != 137 {
		t.Errorf("Pod %s was replaced by %s, or restarted %d times; last termination: %+v", before.Name, after.Name,
			s.RestartCount,
			s.LastTerminationState.Terminated)
	}
	waitHealthy(t)
	deploy(t, "after-the-kill")
}

// TestControllerOnThisMachine checks that up replaces the controller in the cluster with a controller on this
// machine, and vice versa.
func TestControllerOnThisMachine(t *testing.T) {
	here := spec()
	here.Controller.Location = v1alpha1.LocationHost
	recreateWith(t, here)
	status, err := up.Status(t.Context(), false)
	must(t, err)
	i := slices.IndexFunc(status.Components, func(c sandbox.Component) bool { return c.Name == controllerName })
	if i < 0 || status.Components[i].PID == 0 || status.Components[i].Pod != "" {
		t.Errorf("no local process of the controller: %+v", status.Components)
	}
	eventually(t, "the Pod of the controller is deleted", func(ctx context.Context) error {
		pods, err := controllerPods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("Pod %s exists", pods[0].Name)
		}
		return err
	})
	deploy(t, "from-this-machine")
	recreateWith(t, spec())
	if pod := onlyController(t); !module.IsReady(pod) {
		t.Errorf("Pod %s is not Ready", pod.Name)
	}
	deploy(t, "from-the-cluster")
}
