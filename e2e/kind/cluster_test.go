package kind

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
