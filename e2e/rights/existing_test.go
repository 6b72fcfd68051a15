package rights

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shirou/gopsutil/v4/process"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// theirs returns a sandbox that uses the cluster of the shared sandbox as an existing cluster, and its
// settings. The mark of the shared sandbox is removed until the test ends, so that only the environment shows
// that another user exists.
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

// A sandbox does not take over bases of a module controller in an existing cluster. It uses a generated
// environment, and refuses the environment of the controller. Its down removes only its own objects.
func TestASandboxDoesNotTakeOverBasesOfAnotherController(t *testing.T) {
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
	// down removes the objects of the sandbox even if a user has deleted the mark.
	must(t, client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(t.Context(), "koupsandbox", metav1.DeleteOptions{}))
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

// leaseOf returns a Lease that a controller keeps after its Node was deleted.
func leaseOf(meta metav1.ObjectMeta) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: &meta.Name, LeaseDurationSeconds: ptr.To[int32](40)}}
}

// In an existing cluster the controller has a ServiceAccount with the permissions of the manifests, and not the
// permissions of the user. down removes the ServiceAccount.
func TestTheControllerHasItsOwnPermissions(t *testing.T) {
	b, spec := theirs(t)
	must(t, b.Up(t.Context(), spec))
	private(t, b, "module-controller.kubeconfig", "module-controller.token")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.Folder(), "module-controller.kubeconfig"))
	must(t, err)
	controller, err := kubernetes.NewForConfig(config)
	must(t, err)
	review, err := controller.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	user := review.Status.UserInfo.Username
	if !strings.HasPrefix(user, "system:serviceaccount:kube-system:koupsandbox-"+b.Name+"-") {
		t.Errorf("the controller is %s", user)
	}
	_, err = controller.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	_, secrets := controller.CoreV1().Secrets(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
	_, namespaces := controller.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{})
	_, leases := controller.CoordinationV1().Leases(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
	for what, err := range map[string]error{"list Secrets": secrets, "create a Namespace": namespaces, "list Leases of kube-system": leases} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the controller may %s: %v", what, err)
		}
	}
	running := false
	list, err := process.Processes()
	must(t, err)
	for _, p := range list {
		environ, err := p.Environ()
		if err == nil && slices.Contains(environ, "KUBECONFIG="+filepath.Join(b.Folder(), "module-controller.kubeconfig")) {
			running = true
		}
	}
	if !running {
		t.Error("no process has this kubeconfig")
	}
	must(t, b.Down(t.Context()))
	of := metav1.ListOptions{LabelSelector: "koupsandbox.io/sandbox"}
	accounts, err := client.CoreV1().ServiceAccounts("").List(t.Context(), of)
	must(t, err)
	roles, err := client.RbacV1().ClusterRoles().List(t.Context(), of)
	must(t, err)
	bindings, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), of)
	must(t, err)
	if len(accounts.Items)+len(roles.Items)+len(bindings.Items) > 0 {
		t.Errorf("down has left %v, %v, %v", accounts.Items, roles.Items, bindings.Items)
	}
	if _, err := controller.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the token is valid after down")
	}
}
