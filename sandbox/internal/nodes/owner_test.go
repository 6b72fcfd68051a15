package nodes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

var renewed = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func lease(name, component, env, holder string) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease}}
	if component != "" {
		l.Labels = map[string]string{labels.Component: component, labels.Env: env}
	}
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(renewed))}
	return l
}

func heldNode(identity, env, holder, fence string) *corev1.Node {
	n := aNode(corev1.ConditionTrue)
	n.Name, n.Labels[labels.Env] = "vnode."+identity, env
	if holder != "" {
		n.Annotations = map[string]string{labels.Holder: holder, labels.Fence: fence}
	}
	return n
}

var me = Owner{Env: "dev", HolderPrefix: "koupsandbox-me-",
	Bases: map[string]bool{"mine": true, "silent": true, "lost": true, "custom": true}}

// sharedCluster returns objects of this sandbox and of other users. All objects are in the environment dev, except
// the objects with "other-env" in their names.
func sharedCluster() []runtime.Object {
	return []runtime.Object{
		heldNode("mine", "dev", "koupsandbox-me-1", "3"),
		heldNode("created", "dev", "koupsandbox-me-1", "1"),
		heldNode("custom", "dev", "", ""),
		heldNode("taken-by-me", "dev", "koupsandbox-me-1", "2"),
		heldNode("lost", "dev", "mc-0", "2"),
		heldNode("theirs", "dev", "mc-0", "1"),
		heldNode("theirs-other-sandbox", "dev", "koupsandbox-you-1", "1"),
		heldNode("other-env", "prod", "mc-0", "1"),
		lease("vnode.mine", labels.VnodeLease, "dev", "vnode.mine"),
		lease("vnode.silent", labels.VnodeLease, "dev", "vnode.silent"),
		lease("vnode.theirs", labels.VnodeLease, "dev", "vnode.theirs"),
		lease("vnode.theirs-silent", labels.VnodeLease, "dev", "vnode.theirs-silent"),
		lease("vnode.lost", labels.VnodeLease, "dev", "vnode.lost"),
		lease("vnode.other-env", labels.VnodeLease, "prod", "vnode.other-env"),
		lease("controller-mine", labels.ControllerLease, "dev", "koupsandbox-me-1"),
		lease("controller-theirs", labels.ControllerLease, "dev", "mc-0"),
		lease("ledger-mine", labels.InstallRecordLease, "dev", "koupsandbox-me-1"),
		lease("ledger-theirs", labels.InstallRecordLease, "dev", "mc-0"),
		lease("module-controller-peer.dev", "", "", "mc-0"),
		lease("worker", "", "", "worker"),
	}
}

// TestCheckUnused checks that CheckUnused returns an error that lists the Nodes and Leases of other users in the
// environment, and that it accepts an environment with only Nodes and Leases of this sandbox.
func TestCheckUnused(t *testing.T) {
	err := me.CheckUnused(t.Context(), fake.NewClientset(sharedCluster()...))
	var inUse *InUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("error %v, want an InUseError", err)
	}
	of := func(lease, holder string) string {
		return `Lease kube-node-lease/` + lease + `, held by "` + holder + `", last renewed at 2026-11-29T10:00:00Z`
	}
	want := []string{
		of("controller-theirs", "mc-0"), of("ledger-theirs", "mc-0"),
		`Node vnode.lost, held by controller "mc-0"`, `Node vnode.taken-by-me, held by controller "koupsandbox-me-1"`,
		`Node vnode.theirs, held by controller "mc-0"`,
		`Node vnode.theirs-other-sandbox, held by controller "koupsandbox-you-1"`,
		of("vnode.theirs", "vnode.theirs"), of("vnode.theirs-silent", "vnode.theirs-silent"),
	}
	if diff := cmp.Diff(want, inUse.Found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	for _, text := range []string{`environment "dev" is used`, want[0], "and 2 more", "omit --env"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
	mine := fake.NewClientset(heldNode("mine", "dev", "koupsandbox-me-1", "3"),
		heldNode("other-env", "prod", "mc-0", "1"),
		// not recorded yet
		heldNode("created", "dev", "koupsandbox-me-1", "1"),
		lease("vnode.created", labels.VnodeLease, "dev", "vnode.created"),
		lease("controller-mine", labels.ControllerLease, "dev", "koupsandbox-me-1"),
		lease("vnode.silent", labels.VnodeLease, "dev", "vnode.silent"))
	if err := me.CheckUnused(t.Context(), mine); err != nil {
		t.Errorf("environment with objects of this sandbox only: %v", err)
	}
}

// TestOwnerRemove checks that Remove deletes only objects of this sandbox. It must keep the install record Lease of
// another user's controller, and the Leases of other users' bases that have no Node.
func TestOwnerRemove(t *testing.T) {
	client := fake.NewClientset(sharedCluster()...)
	podsByNode(client)
	check.Must(t, me.Remove(t.Context(), client))
	want := []string{
		"Node vnode.lost", "Node vnode.other-env", "Node vnode.taken-by-me", "Node vnode.theirs",
		"Node vnode.theirs-other-sandbox",
		"Lease controller-theirs", "Lease ledger-theirs", "Lease module-controller-peer.dev", "Lease vnode.lost",
		"Lease vnode.other-env", "Lease vnode.theirs", "Lease vnode.theirs-silent", "Lease worker",
	}
	if diff := cmp.Diff(want, remaining(t, client)); diff != "" {
		t.Errorf("remaining objects (-want +got):\n%s", diff)
	}
	for _, holder := range []string{"", "koupsandbox-me-1"} {
		client := fake.NewClientset(lease("module-controller-peer.dev", "", "", holder))
		check.Must(t, me.Remove(t.Context(), client))
		if all, err := client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{}); err != nil ||
			len(all.Items) > 0 {
			t.Errorf("Lease for peer Deployments with holder %q remains: %v, %v", holder, all.Items, err)
		}
	}
}

// TestCreatedCallback checks that the watcher calls created for a Node that has had only one controller, but not for
// a Node that another controller has taken over.
func TestCreatedCallback(t *testing.T) {
	var got []string
	n := New(fake.NewClientset(), "dev", func(identity, holder string) { got = append(got, identity+" "+holder) })
	for _, node := range []*corev1.Node{heldNode("a", "dev", "mc-0", "1"), heldNode("a", "dev", "mc-0", "1"),
		heldNode("b", "dev", "mc-0", "2"), heldNode("c", "dev", "", "")} {
		stripped, err := stripNode(node)
		check.Must(t, err)
		n.onUpdate(stripped)
	}
	if diff := cmp.Diff([]string{"a mc-0", "c "}, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
}
