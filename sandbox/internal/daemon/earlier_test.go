package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

// withPod is a Node with its Lease and a Pod.
func withPod(node *corev1.Node) []runtime.Object {
	return []runtime.Object{
		node,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Namespace: corev1.NamespaceNodeLease}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node.Name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: node.Name}},
	}
}

// podsByNode has a fake API know the field selector by which the Pods of a Node are found.
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

// What the bases of an earlier daemon have left in the cluster goes before there are others; the other Nodes stay.
func TestUpRemovesWhatAnEarlierDaemonHasLeft(t *testing.T) {
	b := newBench(t)
	b.platform.client = fake.NewClientset(append(withPod(aNode(corev1.ConditionTrue)),
		withPod(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})...)...)
	podsByNode(b.platform.client)
	b.up(request("good", 1))
	bases, err := b.Bases(t.Context(), "")
	if err != nil || len(bases) != 1 {
		t.Fatalf("%d bases, error %v", len(bases), err)
	}

	var left []string
	nodes, err := b.platform.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		if n.Name != "vnode."+bases[0].Identity {
			left = append(left, "Node "+n.Name)
		}
	}
	pods, err := b.platform.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		left = append(left, "Pod "+p.Name)
	}
	leases, err := b.platform.client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases.Items {
		left = append(left, "Lease "+l.Name)
	}
	if diff := cmp.Diff([]string{"Node worker", "Pod on-worker", "Lease worker"}, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// A cluster that was there before outlives an up that fails, but no down; one that this up has made goes.
func TestUpThatFailsLeavesWhatWasThere(t *testing.T) {
	for name, tc := range map[string]struct{ adopted, down, want bool }{
		"made by this up":            {want: true},
		"there before":               {adopted: true},
		"there before, and not kept": {adopted: true, down: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.platform.adopted = tc.adopted
			down := make(chan error, 1)
			b.platform.rest = func(ctx context.Context) error {
				if tc.down {
					go func() { down <- b.Down(context.WithoutCancel(ctx)) }()
					<-ctx.Done()
				}
				return errors.New("no scheduler")
			}
			_, err := b.Up(t.Context(), request("good", 1), func(progress.Event) {})
			if left := err != nil && strings.Contains(err.Error(), errLeft.Error()); err == nil || left == tc.want {
				t.Errorf("up gave %v", err)
			}
			if tc.down {
				if err := <-down; err != nil {
					t.Errorf("down gave %v", err)
				}
			}
			if err := <-b.ended; (err != nil) != !tc.want { // that something was left is told
				t.Errorf("the daemon ended with %v", err)
			}
			b.platform.mu.Lock()
			defer b.platform.mu.Unlock()
			if got := slices.Contains(b.platform.calls, "down"); got != tc.want {
				t.Errorf("calls of the platform: %q", b.platform.calls)
			}
		})
	}
}
