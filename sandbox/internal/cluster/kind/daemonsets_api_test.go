package kind

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/embedded"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// patience is how long Kubernetes may take on a busy machine.
const patience = time.Minute

// Kubernetes itself rolls a DaemonSet out to a base before the guard comes; then nothing of it is
// left there, and it is rolled out.
func TestGuardBesideKubernetes(t *testing.T) {
	client := controlPlane(t)
	for name, l := range map[string]map[string]string{"real": nil, "vnode.a": {labels.Component: labels.Vnode}} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d := daemonSet(everything, nil)
	d.Namespace, d.UID = "default", ""
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	if _, err := client.AppsV1().DaemonSets("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := func(want ...string) {
		t.Helper()
		var last error
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			err := boundTo(ctx, client, want)
			if ctx.Err() == nil {
				last = err
			}
			return err == nil, nil
		})
		if err != nil {
			t.Fatal(last)
		}
	}
	bound("real", "vnode.a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		newGuard(client, slog.New(slog.NewTextHandler(t.Output(), nil))).run(ctx)
	}()
	defer func() { cancel(); <-ended }()
	bound("real")
}

// boundTo reports whether the DaemonSet's Pods are bound to those Nodes, and it wants no others.
func boundTo(ctx context.Context, client kubernetes.Interface, want []string) error {
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes := map[string]bool{}
	for _, p := range pods.Items {
		nodes[p.Spec.NodeName] = true
	}
	for _, n := range want {
		if !nodes[n] {
			return fmt.Errorf("the Pods are on %v, want %v", nodes, want)
		}
	}
	d, err := client.AppsV1().DaemonSets("default").Get(ctx, "d", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := d.Status; len(pods.Items) != len(want) || int(s.DesiredNumberScheduled) != len(want) || s.ObservedGeneration != d.Generation {
		return fmt.Errorf("%d Pods on %v; of generation %d: %+v", len(pods.Items), nodes, d.Generation, s)
	}
	return nil
}

// controlPlane is an API with Kubernetes' own controllers and scheduler, and no kubelet, that ends
// with the test.
func controlPlane(t *testing.T) kubernetes.Interface {
	t.Helper()
	binary, err := filepath.Abs("../../../../bin/koup-controlplane")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("needs the control plane's program, which is not built: %v", err)
	}
	dir := t.TempDir()
	c, err := embedded.New(embedded.Options{
		Owner: cluster.Owner{Sandbox: "demo"}, Dir: dir, Binary: binary, Supervisor: supervise.New(supervise.Options{Dir: filepath.Join(dir, "run")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, step := range c.Steps().All() {
		if err := step.Run(ctx); err != nil {
			t.Fatalf("%s: %v", step.Name, err)
		}
	}
	client, err := kubernetes.NewForConfig(c.Cluster().Config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
