package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// vnodes are the names of the bases' Nodes.
func vnodes(ctx context.Context) (map[string]bool, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: module.LabelComponent + "=vnode"})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, n := range list.Items {
		names[n.Name] = true
	}
	return names, nil
}

// The system's Pods run, all of them, and none is on a base, where no kubelet would run it.
func TestSystemRunsOnItsOwnNodes(t *testing.T) {
	of, err := vnodes(t.Context())
	if err != nil || len(of) != bases {
		t.Fatalf("%d Nodes of bases, error %v; want %d", len(of), err, bases)
	}
	eventually(t, "every Pod of the system runs on a node of its own", func(ctx context.Context) error {
		names := map[string]int{}
		for _, namespace := range []string{"kube-system", "koupleless-system"} {
			pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range pods.Items {
				p := &pods.Items[i]
				if of[p.Spec.NodeName] || !module.IsReady(p) {
					return fmt.Errorf("Pod %s is %s on node %q", p.Name, p.Status.Phase, p.Spec.NodeName)
				}
				names[p.Labels["k8s-app"]+p.Labels["app.kubernetes.io/name"]]++
			}
		}
		for _, name := range []string{"kube-proxy", "kube-dns", "module-controller"} {
			if names[name] == 0 {
				return fmt.Errorf("there is no %s; there are %v", name, names)
			}
		}
		return nil
	})
}

// Kubernetes' own node is a real one, with a kubelet that answers for its Pods.
func TestRealNodeAnswersForItsPods(t *testing.T) {
	pods, err := client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		t.Fatal("there is no kube-proxy")
	}
	// kube-proxy has no readiness probe: it is Ready once it has started, before it wrote its first line.
	eventually(t, "kube-proxy has a log", func(ctx context.Context) error {
		text, err := client.CoreV1().Pods("kube-system").GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err == nil && len(text) == 0 {
			err = fmt.Errorf("the log of %s has 0 bytes", pods.Items[0].Name)
		}
		return err
	})
}

// Nobody but its user reads what a sandbox of kind keeps on this machine.
func TestFilesAreTheUsersOwn(t *testing.T) {
	t.Logf("%d files and folders", check.Private(t, shared.Folder()))
	for _, file := range []string{"kubeconfig", "broker.json", "logs/daemon.log"} {
		if _, err := os.Stat(filepath.Join(shared.Folder(), file)); err != nil {
			t.Errorf("the test looks in the wrong place: %v", err)
		}
	}
}
