package kind

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// baseContainers lists the containers of the shared sandbox's bases.
func baseContainers(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), engine, "ps", "--all", "--filter", "label=koupsandbox.io/sandbox="+shared.Name,
		"--format", "{{.Names}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// A Service leads through the real kube-proxy to a module in a base's container; that of a base
// that is killed is gone for good.
func TestBasesInContainers(t *testing.T) {
	with := spec()
	with.Bases.Runtime = v1alpha1.RuntimeContainer
	with.Controller.Env = map[string]string{"BASE_UNREACHABLE_AFTER": "10s", "BASE_DEAD_AFTER": "20s", "HEALTH_INTERVAL": "2s"}
	adopt(t, with)
	defer func() {
		adopt(t, spec()) // kills the daemon
		if left := baseContainers(t); len(left) > 0 {
			t.Errorf("the containers %v have outlived their daemon", left)
		}
		onlyLivingNodes(t)
	}()
	if names := baseContainers(t); len(names) != bases {
		t.Fatalf("the containers of bases are %v", names)
	}
	onlyLivingNodes(t)
	pod := deploy(t, "boxed")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "boxed"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "boxed"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080)}}},
	}
	service, err := client.CoreV1().Services(pod.Namespace).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		check.Must(t, client.CoreV1().Services(pod.Namespace).Delete(context.Background(), service.Name, metav1.DeleteOptions{}))
	})
	for way, addr := range map[string]string{"the container's address": pod.Status.PodIP + "/8080", "the Service's address": service.Spec.ClusterIP + "/80"} {
		eventually(t, "the module answers at "+way, func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, engine, "exec", "koup-"+shared.Name+"-control-plane", "bash", "-c",
				`exec 3<>/dev/tcp/`+addr+` && printf 'GET /boxed/ HTTP/1.0\r\n\r\n' >&3 && cat <&3`).CombinedOutput()
			if err == nil && !strings.Contains(string(out), `"biz":"boxed"`) {
				err = errors.New("the answer is another")
			}
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}

	r, err := shared.Run(t.Context(), "scenario", "run", "testdata/rolling-update.yaml")
	if err != nil || r.Status != 0 || !strings.Contains(r.Out, " 0 lost") {
		t.Errorf("a rolling update: error %v, status %d:\n%s%s", err, r.Status, r.Out, r.Err)
	}
	if names := baseContainers(t); len(names) != bases {
		t.Errorf("after the run there are %v", names)
	}

	killed := "koup-" + shared.Name + "-base-1"
	if out, err := exec.CommandContext(t.Context(), engine, "kill", killed).CombinedOutput(); err != nil {
		t.Fatalf("killing a base: %v: %s", err, out)
	}
	node := ""
	eventually(t, "the base is down, and says why", func(ctx context.Context) error {
		list, err := up.Bases(ctx, "")
		if err != nil {
			return err
		}
		for _, b := range list {
			if b.HostName != "base-1" {
				continue
			}
			node = "vnode." + b.Identity
			if b.Running || !strings.Contains(b.Reason, "its container has ended: exit status 137") {
				return fmt.Errorf("it runs: %t, reason %q", b.Running, b.Reason)
			}
		}
		return nil
	})
	eventually(t, "its Node is gone", func(ctx context.Context) error {
		nodes, err := vnodes(ctx)
		if err == nil && nodes[node] {
			err = fmt.Errorf("Node %s is there", node)
		}
		return err
	})
	if err := shared.Must(t.Context(), "base", "remove", "base-1"); err != nil {
		t.Error(err)
	}
	if err := shared.Must(t.Context(), "base", "add"); err != nil {
		t.Error(err)
	}
	if names := baseContainers(t); len(names) != bases {
		t.Errorf("after another was added there are %v", names)
	}
}
