package kind

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// A base has the address of its Pod, also after the Pod was killed and another one took its place.
func TestBaseHasTheAddressOfItsPod(t *testing.T) {
	const name = "koupsandbox-bases-0"
	before, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	identities := identitiesByIP(t.Context(), t)
	of := identities[before.Status.PodIP]
	if of == "" {
		t.Fatalf("no base has the address %s of Pod %s: %v", before.Status.PodIP, name, identities)
	}
	module := module.Pod("default", "moved", module.Template("moved", module.Container("moved", "1.0.0")))
	module.Spec.NodeName = "vnode." + of
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), module, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Pods("default").Delete(context.Background(), module.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	act(t, name, "kill", "start")
	eventually(t, "the base and its module have the address of the new Pod", func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		on, err := client.CoreV1().Pods("default").Get(ctx, module.Name, metav1.GetOptions{})
		if err == nil && (pod.UID == before.UID || identitiesByIP(ctx, t)[pod.Status.PodIP] != of || on.Status.PodIP != pod.Status.PodIP) {
			err = fmt.Errorf("the Pod has the address %s, its module %s; bases: %v", pod.Status.PodIP, on.Status.PodIP, identitiesByIP(ctx, t))
		}
		return err
	})
	sandboxIsWell(t)
}

func identitiesByIP(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	list, err := up.Bases(ctx, "")
	must(t, err)
	found := map[string]string{}
	for _, b := range list {
		found[b.IP] = b.Identity
	}
	return found
}
