package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox"
)

// vnodes lists the Nodes of bases by name.
func vnodes(ctx context.Context) (map[string]*corev1.Node, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: module.LabelComponent + "=vnode"})
	if err != nil {
		return nil, err
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes, nil
}

// matching checks that there is one Ready Node for each of the bases, and no
// other; extra bases are ones that the sandbox does not run itself.
func matching(ctx context.Context, extra ...string) error {
	nodes, err := vnodes(ctx)
	if err != nil {
		return err
	}
	list, err := bases(ctx, up)
	if err != nil {
		return err
	}
	want, got := map[string]bool{}, map[string]bool{}
	for _, b := range list {
		want["vnode."+b.Identity] = true
	}
	for _, identity := range extra {
		want["vnode."+identity] = true
	}
	for name, n := range nodes {
		got[name] = check.NodeReady(n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("bases and their Ready Nodes (-bases +Nodes):\n%s", diff)
	}
	return nil
}

// A base is a Ready Node that tells Kubernetes everything the documents say, and
// it comes and goes with the base.
func TestNodes(t *testing.T) {
	var added, node string
	f := features.New("nodes").
		Assess("each base is a Node with labels, taints and addresses", step(func(ctx context.Context, t *testing.T, _ string) {
			eventually(ctx, t, "each base has a Ready Node", func(ctx context.Context) error { return matching(ctx) })
			nodes, err := vnodes(ctx)
			must(t, err)
			list, err := bases(ctx, up)
			must(t, err)
			for _, b := range list {
				checkNode(t, nodes["vnode."+b.Identity], b)
			}
		})).
		Assess("a renewed Lease does not say who manages its fields, which the API server would work out each time", step(func(ctx context.Context, t *testing.T, _ string) {
			eventually(ctx, t, "the Leases of all bases are renewed", func(ctx context.Context) error {
				leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{LabelSelector: module.LabelComponent + "=vnode-lease"})
				if err != nil || len(leases.Items) == 0 {
					return errors.Join(err, errors.New("there is no Lease"))
				}
				for _, l := range leases.Items {
					if len(l.ManagedFields) > 0 {
						return fmt.Errorf("the Lease %s says that %s manages its fields", l.Name, l.ManagedFields[0].Manager)
					}
				}
				return nil
			})
		})).
		Assess("an added base becomes a Node", step(func(ctx context.Context, t *testing.T, _ string) {
			list, err := up.AddBases(ctx, sandbox.AddRequest{Count: 1})
			must(t, err)
			added, node = list[0].HostName, "vnode."+list[0].Identity
			eventually(ctx, t, "the added base has a Ready Node", func(ctx context.Context) error { return matching(ctx) })
		})).
		Assess("a removed base's Node and Lease go", step(func(ctx context.Context, t *testing.T, _ string) {
			must(t, shared.Must(ctx, "base", "remove", added))
			eventually(ctx, t, "the removed base has no Node", func(ctx context.Context) error { return matching(ctx) })
			eventually(ctx, t, "no Lease tells of the removed base", func(ctx context.Context) error {
				leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, l := range leases.Items {
					if l.Name == node {
						return fmt.Errorf("there is the Lease %s", l.Name)
					}
				}
				return nil
			})
		}))
	testenv.Test(t, f.Feature())
}

// checkNode compares a Node with all that is known of its base; the documents'
// samples select on either spelling of name and version.
func checkNode(t *testing.T, n *corev1.Node, b baseState) {
	t.Helper()
	labels := map[string]string{
		module.LabelComponent:          "vnode",
		module.LabelEnv:                "dev",
		module.LabelBaseName:           "base",
		"vnode.koupleless.io/name":     "base",
		module.LabelBaseVersion:        "1.0.0",
		"vnode.koupleless.io/version":  "1.0.0",
		"vnode.koupleless.io/tunnel":   "mqtt_tunnel_provider",
		"base.koupleless.io/stack":     "java",
		"base.koupleless.io/host-name": b.HostName,
		// The name of the sandbox, which is new in every run.
		"base.koupleless.io/cluster-name": shared.Name,
		corev1.LabelHostname:              b.HostName,
		corev1.LabelTopologyZone:          n.Name, // no other Node's, so that anti-affinity on it spreads
		"type":                            "virtual-kubelet",
		"kubernetes.io/role":              "agent",

		"node-role.kubernetes.io/" + b.HostName: "base",
	}
	if diff := cmp.Diff(labels, n.Labels); diff != "" {
		t.Errorf("labels of %s (-want +got):\n%s", n.Name, diff)
	}
	taints := []corev1.Taint{
		{Key: module.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
		{Key: module.TaintEnv, Value: "dev", Effect: corev1.TaintEffectNoExecute},
	}
	if diff := cmp.Diff(taints, n.Spec.Taints); diff != "" {
		t.Errorf("taints of %s (-want +got):\n%s", n.Name, diff)
	}
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: b.IP}, {Type: corev1.NodeInternalDNS, Address: "127.0.0.1"}}
	if diff := cmp.Diff(addresses, n.Status.Addresses); diff != "" {
		t.Errorf("addresses of %s (-want +got):\n%s", n.Name, diff)
	}
	// A simulated base has 256 MiB of metaspace, and uses some of it itself.
	if got, want := n.Status.Capacity.Memory().Value(), int64(256<<20); got != want {
		t.Errorf("%s has a memory of %d bytes, not %d", n.Name, got, want)
	}
	if a := n.Status.Allocatable.Memory().Value(); a <= 0 || a >= 256<<20 {
		t.Errorf("%s offers %d bytes of its 256 MiB", n.Name, a)
	}
	if got, want := n.Status.Capacity.Pods(), resource.MustParse("65535"); got.Cmp(want) != 0 {
		t.Errorf("%s takes %s Pods", n.Name, got)
	}
	conditions := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range n.Status.Conditions {
		conditions[c.Type] = c.Status
		if c.LastTransitionTime.IsZero() {
			t.Errorf("condition %s of %s does not tell since when", c.Type, n.Name)
		}
	}
	want := map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse, corev1.NodeDiskPressure: corev1.ConditionFalse,
		corev1.NodePIDPressure: corev1.ConditionFalse, corev1.NodeNetworkUnavailable: corev1.ConditionFalse,
		"Observed": corev1.ConditionTrue,
	}
	if diff := cmp.Diff(want, conditions); diff != "" {
		t.Errorf("conditions of %s (-want +got):\n%s", n.Name, diff)
	}
}
