package kind

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// deploy brings a module onto a base, and returns its Pod when it is Ready.
func deploy(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := module.Pod("default", name, module.Template(name, module.Container(name, "1.0.0")))
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // it goes with its base
			t.Errorf("removing the Pod: %v", err)
		}
	})
	eventually(t, "Pod "+name+" is Ready", func(ctx context.Context) (err error) {
		pod, err = client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && !module.IsReady(pod) {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	return pod
}

func TestRollingUpdateLosesNothing(t *testing.T) {
	r, err := shared.Run(t.Context(), "scenario", "run", "testdata/rolling-update.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != 0 || !strings.Contains(r.Out, " 0 lost") {
		t.Errorf("status %d:\n%s%s", r.Status, r.Out, r.Err)
	}
}

// The cluster's API server asks the controller's Pod for the log of a module, as it asks a kubelet.
func TestLogsOfAModuleComeThroughTheCluster(t *testing.T) {
	pod := deploy(t, "with-a-log")
	text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: ptr.To[int64](100)}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(text), "installBiz answered: SUCCESS") {
		t.Errorf("log %q, error %v", text, err)
	}
}

// A controller that is killed is started again by the cluster, and goes on where the other was.
func TestControllerThatIsKilledComesBack(t *testing.T) {
	of := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=module-controller"}
	before, err := client.CoreV1().Pods("koupleless-system").List(t.Context(), of)
	if err != nil || len(before.Items) != 1 {
		t.Fatalf("%d Pods of the controller, error %v; want one", len(before.Items), err)
	}
	if err := up.Act(t.Context(), "module-controller", "kill"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another Pod of the controller is Ready", func(ctx context.Context) error {
		after, err := client.CoreV1().Pods("koupleless-system").List(ctx, of)
		if err != nil {
			return err
		}
		if len(after.Items) != 1 || after.Items[0].UID == before.Items[0].UID || !module.IsReady(&after.Items[0]) {
			return fmt.Errorf("there are %d Pods", len(after.Items))
		}
		return nil
	})
	eventually(t, "the sandbox is well", func(ctx context.Context) error {
		status, err := up.Status(ctx, true)
		if err == nil && !status.Healthy {
			err = fmt.Errorf("%s", strings.Join(status.Problems, "; "))
		}
		return err
	})
	deploy(t, "after-the-kill")
}
