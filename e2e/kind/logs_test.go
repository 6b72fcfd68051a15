package kind

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// deploy creates a Pod with one module, waits until the Pod is Ready, and returns it.
func deploy(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := module.Pod("default", name, module.Template(name, module.Container(name, "1.0.0")))
	// not on a base that another test is deleting
	pod.Spec.NodeSelector = map[string]string{module.LabelBaseName: "base"}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // the Pod is deleted together with its base
			t.Errorf("deleting the Pod: %v", err)
		}
	})
	eventually(t, "Pod "+name+" is Ready", func(ctx context.Context) (err error) {
		pod, err = client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && !module.IsReady(pod) {
			err = fmt.Errorf("the Pod is %s", pod.Status.Phase)
		}
		return err
	})
	return pod
}

// TestLogsAndExec checks that logs and exec of a module work: the API server of the cluster must reach the kubelet
// API in the Pod of the controller.
func TestLogsAndExec(t *testing.T) {
	pod := deploy(t, "with-a-log")
	text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name,
		&corev1.PodLogOptions{TailLines: ptr.To[int64](100)}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(text), "installBiz answered: SUCCESS") {
		t.Errorf("log %q, error %v", text, err)
	}
	config, err := shared.REST()
	must(t, err)
	api, err := resources.New(config)
	must(t, err)
	var stdout, stderr bytes.Buffer
	err = api.ExecInPod(t.Context(), pod.Namespace, pod.Name, pod.Name, []string{"ark", "queryAllBiz"}, &stdout,
		&stderr)
	if err != nil || !strings.Contains(stdout.String(), pod.Name) {
		t.Errorf("ark queryAllBiz: stdout %q, stderr %q, error %v", stdout.String(), stderr.String(), err)
	}
}
