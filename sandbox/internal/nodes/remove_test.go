package nodes

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/labels"
)

func withPod(node *corev1.Node) []runtime.Object {
	return []runtime.Object{
		node,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Namespace: corev1.NamespaceNodeLease}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node.Name, Namespace: "default"},
			Spec: corev1.PodSpec{NodeName: node.Name}},
	}
}

// podsByNode adds support for the field selector spec.nodeName to a fake client.
func podsByNode(client *fake.Clientset) {
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		node, found := a.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("spec.nodeName")
		if !found {
			return false, nil, nil
		}
		all, err := client.Tracker().List(a.GetResource(), corev1.SchemeGroupVersion.WithKind("Pod"), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		list := all.(*corev1.PodList)
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != node })
		return true, list, nil
	})
}

// TestRemoveAllDeletesInstallRecords checks that RemoveAll requests the deletion of the Leases with the install
// records of controllers. It checks only the request, because the fake client does not implement the deletion of
// collections.
func TestRemoveAllDeletesInstallRecords(t *testing.T) {
	client := fake.NewClientset()
	check.Must(t, RemoveAll(t.Context(), client))
	var asked []string
	for _, a := range client.Actions() {
		if d, ok := a.(clienttesting.DeleteCollectionAction); ok && a.GetVerb() == "delete-collection" {
			asked = append(asked,
				a.GetNamespace()+" "+a.GetResource().Resource+" "+d.GetListRestrictions().Labels.String())
		}
	}
	if diff := cmp.Diff([]string{
		"kube-node-lease leases virtual-kubelet.koupleless.io/component=module-controller-ledger"}, asked); diff != "" {
		t.Errorf("collections deleted (-want +got):\n%s", diff)
	}
}

func TestRemove(t *testing.T) {
	other := aNode(corev1.ConditionTrue)
	other.Name = "vnode.b.dev"
	worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	client := fake.NewClientset(slices.Concat(withPod(aNode(corev1.ConditionTrue)), withPod(other), withPod(worker))...)
	podsByNode(client)
	check.Must(t, Remove(t.Context(), client, func(n *corev1.Node) bool { return n.Name == "vnode.a" }))
	if diff := cmp.Diff([]string{"Node vnode.b.dev", "Node worker", "Pod on-vnode.b.dev", "Pod on-worker",
		"Lease vnode.b.dev", "Lease worker"}, remaining(t, client)); diff != "" {
		t.Errorf("remaining objects (-want +got):\n%s", diff)
	}
}

// TestDeleteNodes checks that DeleteNodes deletes a Node that the watcher does not know, and that it keeps Nodes that
// the bundled controller does not manage and Nodes of other bases.
func TestDeleteNodes(t *testing.T) {
	served, other, stays := aNode(corev1.ConditionTrue), aNode(corev1.ConditionTrue), aNode(corev1.ConditionTrue)
	other.Name, stays.Name = "vnode.b", "vnode.c"
	for _, n := range []*corev1.Node{served, stays} {
		n.Annotations = map[string]string{labels.Holder: "me"}
	}
	client := fake.NewClientset(served, other, stays)
	check.Must(t, New(client, "dev", nil).DeleteNodes(t.Context(), []string{"a", "b", "without a node"}))
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	var left []string
	for _, n := range nodes.Items {
		left = append(left, n.Name)
	}
	if diff := cmp.Diff([]string{"vnode.b", "vnode.c"}, left); diff != "" {
		t.Errorf("remaining Nodes (-want +got):\n%s", diff)
	}
}

// TestAcceptsCommands checks that AcceptsCommands returns true only for the internal IP address and the tunnel port
// in the Node of a base with the HTTP tunnel.
func TestAcceptsCommands(t *testing.T) {
	n := New(fake.NewClientset(), "dev", nil)
	for name, port := range map[string]string{"a": "2238", "b": ""} {
		node := aNode(corev1.ConditionTrue)
		node.Name, node.Labels[labels.TunnelPort] = "vnode."+name, port
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalDNS, Address: "192.0.2.1"},
			{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		stripped, err := stripNode(node)
		check.Must(t, err)
		n.onUpdate(stripped)
	}
	for addr, want := range map[string]bool{"127.0.0.1:2238": true, "127.0.0.1:2239": false, "192.0.2.1:2238": false,
		"": false, "127.0.0.1:": false} {
		if got := n.AcceptsCommands(addr); got != want {
			t.Errorf("AcceptsCommands(%q) returned %t", addr, got)
		}
	}
}

// TestDeleteNodesRetries checks that DeleteNodes retries a failed deletion, and that it returns an error after six
// failed attempts.
func TestDeleteNodesRetries(t *testing.T) {
	for failures, want := range map[int]string{5: "", 6: "deleting Node vnode.a: the API server restarts"} {
		synctest.Test(t, func(t *testing.T) {
			node := aNode(corev1.ConditionTrue)
			node.Annotations = map[string]string{labels.Holder: "me"}
			client := fake.NewClientset(node)
			client.PrependReactor("delete", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				failures--
				return failures >= 0, nil, errors.New("the API server restarts")
			})
			err := New(client, "dev", nil).DeleteNodes(t.Context(), []string{"a"})
			if got := fmt.Sprint(errors.Join(err)); got != stdcmp.Or(want, "<nil>") {
				t.Errorf("error %q, want %q", got, want)
			}
		})
	}
}

// remaining returns the Nodes, Pods and Leases that are in the cluster, as "KIND NAME".
func remaining(t *testing.T, client kubernetes.Interface) []string {
	t.Helper()
	var left []string
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	for _, n := range nodes.Items {
		left = append(left, "Node "+n.Name)
	}
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	for _, p := range pods.Items {
		left = append(left, "Pod "+p.Name)
	}
	leases, err := client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	for _, l := range leases.Items {
		left = append(left, "Lease "+l.Name)
	}
	return left
}
