package rights

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// theirs returns a sandbox that uses the cluster of the shared sandbox as an existing cluster, and its settings. The mark
// of the shared sandbox is put aside until the test ends, so that nothing but the environment shows another user.
func theirs(t *testing.T) (*box.Box, v1alpha1.Spec) {
	t.Helper()
	b := &box.Box{Bin: shared.Bin, Home: shared.Home, Name: envconf.RandomName("theirs", 12), Provider: v1alpha1.ProviderExisting}
	marks := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	mark, err := marks.Get(t.Context(), "koupsandbox", metav1.GetOptions{})
	must(t, err)
	must(t, marks.Delete(t.Context(), mark.Name, metav1.DeleteOptions{}))
	mark.ResourceVersion, mark.UID = "", ""
	t.Cleanup(func() {
		must(t, b.Down(context.Background()))
		_, err := marks.Create(context.Background(), mark, metav1.CreateOptions{})
		must(t, err)
	})
	return b, v1alpha1.Spec{
		Bases:   v1alpha1.Bases{Count: ptr.To(1)},
		Cluster: v1alpha1.Cluster{Kubeconfig: filepath.Join(shared.Folder(), "kubeconfig"), Context: contextOf(t), Consent: true},
	}
}

// owned lists the Nodes of bases with their holders, and the Leases of the shared sandbox's environment.
func owned(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.Env + "=dev"})
	must(t, err)
	for _, n := range nodes.Items {
		all["Node "+n.Name] = n.Annotations[labels.Holder] + " " + n.Annotations[labels.Fence] + " " + string(n.UID)
	}
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{LabelSelector: labels.Env + "=dev"})
	must(t, err)
	for _, l := range leases.Items {
		all["Lease "+l.Name] = string(l.UID)
	}
	return all
}

// A sandbox takes over no base of a module controller that is in an existing cluster already: it has an environment
// of its own, and refuses that of the controller. Its down leaves what it has not made.
func TestBasesOfAnotherControllerStayThere(t *testing.T) {
	b, spec := theirs(t)
	silent := metav1.ObjectMeta{Name: "vnode.silent", Labels: map[string]string{labels.Component: labels.VnodeLease, labels.Env: "dev"}}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := leases.Create(t.Context(), leaseOf(silent), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, leases.Delete(context.Background(), silent.Name, metav1.DeleteOptions{})) })
	before := owned(t.Context(), t)
	if len(before) < 5 {
		t.Fatalf("the shared sandbox has only %v", before)
	}

	spec.Env = "dev"
	if err := b.Up(t.Context(), spec); err == nil || !strings.Contains(err.Error(), `environment "dev" is in use`) || !strings.Contains(err.Error(), "module-controller.dev.") {
		t.Errorf("up in the environment of another controller: %v", err)
	}
	spec.Env = ""
	must(t, b.Up(t.Context(), spec))
	killDaemon(t, b)
	must(t, b.Up(t.Context(), spec)) // what the killed run has left in the cluster is its own
	if diff := cmp.Diff(before, owned(t.Context(), t)); diff != "" {
		t.Errorf("of the other controller (-before +while the sandbox is up):\n%s", diff)
	}
	killDaemon(t, b)
	must(t, b.Down(t.Context()))
	if diff := cmp.Diff(before, owned(t.Context(), t)); diff != "" {
		t.Errorf("of the other controller (-before +after down):\n%s", diff)
	}
	all, err := leases.List(t.Context(), metav1.ListOptions{LabelSelector: labels.Env + "!=dev," + labels.Env})
	must(t, err)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: labels.Env + "!=dev," + labels.Env})
	must(t, err)
	if len(all.Items)+len(nodes.Items) > 0 {
		t.Errorf("down has left Leases %v and Nodes %v", all.Items, nodes.Items)
	}
}

// killDaemon ends a sandbox as a crash of its daemon does.
func killDaemon(t *testing.T, b *box.Box) {
	t.Helper()
	s, err := b.Open(t.Context())
	must(t, err)
	defer s.Close()
	status, err := s.Status(t.Context(), false)
	must(t, err)
	for _, c := range status.Components {
		if c.Name == "daemon" {
			must(t, syscall.Kill(c.PID, syscall.SIGKILL))
			eventually(t, "the daemon has ended", func(context.Context) error {
				if syscall.Kill(c.PID, 0) == nil {
					return errors.New("it runs")
				}
				return nil
			})
			return
		}
	}
	t.Fatal("the status has no daemon")
}

// leaseOf returns the Lease of a Node that is gone, as a controller keeps it.
func leaseOf(meta metav1.ObjectMeta) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: &meta.Name, LeaseDurationSeconds: ptr.To[int32](40)}}
}
