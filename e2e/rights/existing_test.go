package rights

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// TestExistingCluster runs a sandbox on an existing cluster. The cluster is the one of the shared sandbox, without
// its ownership marker. The sandbox must not take over the bases of another controller, must refuse the environment
// of that controller, and must give its own controller only the permissions of the manifests. down must remove
// exactly the objects of the sandbox, also after a crash.
func TestExistingCluster(t *testing.T) {
	markers := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	marker, err := markers.Get(t.Context(), "koupsandbox", metav1.GetOptions{})
	must(t, err)
	must(t, markers.Delete(t.Context(), marker.Name, metav1.DeleteOptions{}))
	marker.ResourceVersion, marker.UID = "", ""
	b := &box.Box{Bin: shared.Bin, Home: shared.Home, Name: envconf.RandomName("existing", 12),
		Provider: v1alpha1.ProviderExisting}
	t.Cleanup(func() {
		must(t, b.Down(context.Background()))
		_, err := markers.Create(context.Background(), marker, metav1.CreateOptions{})
		must(t, err)
	})
	spec := v1alpha1.Spec{
		Bases: v1alpha1.OneBase(),
		Cluster: v1alpha1.Cluster{Kubeconfig: filepath.Join(shared.Dir(), "kubeconfig"), Context: contextOf(t),
			Consent: true},
	}
	// A controller keeps the Lease of a base after it has deleted the Node.
	kept := metav1.ObjectMeta{Name: "vnode.deleted",
		Labels: map[string]string{labels.Component: labels.VnodeLease, labels.Env: "dev"}}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: kept,
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &kept.Name, LeaseDurationSeconds: ptr.To[int32](40)}},
		metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, leases.Delete(context.Background(), kept.Name, metav1.DeleteOptions{})) })
	before, holders := settledInventory(t), holdersOf(t)

	spec.Env = "dev"
	if err := b.Up(t.Context(), spec); err == nil ||
		!strings.Contains(err.Error(), `environment "dev" is used by a module controller or bases of another user`) ||
		!strings.Contains(err.Error(), "module-controller.dev.") {
		t.Errorf("up in the environment of another controller: %v", err)
	}
	spec.Env = ""
	umask := syscall.Umask(0)
	defer syscall.Umask(umask)
	must(t, b.Up(t.Context(), spec))
	requirePrivate(t, b, "kubeconfig", "broker.json", "module-controller.kubeconfig", "module-controller.token",
		"logs/daemon.log", "logs/module-controller.log")
	another := &box.Box{Bin: b.Bin, Home: t.TempDir(), Name: b.Name, Provider: b.Provider}
	current, err := markers.Get(t.Context(), "koupsandbox", metav1.GetOptions{})
	must(t, err)
	if err := another.Up(t.Context(), spec); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("belongs to sandbox %q of %s;", b.Name, current.Data["place"])) {
		t.Errorf("up of another sandbox with the same name: %v", err)
	}
	must(t, another.Down(t.Context()))
	requireServiceAccount(t, b)

	killDaemon(t, b)
	must(t, b.Up(t.Context(), spec)) // up takes over the objects of the killed daemon
	killDaemon(t, b)
	controller := controllerClient(t, b)
	// down removes the objects of the sandbox even if a user has deleted the marker.
	must(t, markers.Delete(t.Context(), "koupsandbox", metav1.DeleteOptions{}))
	must(t, b.Down(t.Context()))
	if diff := cmp.Diff(holders, holdersOf(t)); diff != "" {
		t.Errorf("Nodes of the other controller (-before +after down):\n%s", diff)
	}
	eventually(t, "the cluster has exactly the objects that existed before up", func(ctx context.Context) error {
		after, err := inventory(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before, after); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if _, err := controller.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the token of the controller is still valid after down")
	}
}

// holdersOf returns the holder and the fence of each Node in the shared sandbox's environment, by Node name. They
// identify the controller that manages the Node.
func holdersOf(t *testing.T) map[string]string {
	t.Helper()
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: labels.Env + "=dev"})
	must(t, err)
	holders := map[string]string{}
	for _, n := range nodes.Items {
		holders[n.Name] = n.Annotations[labels.Holder] + " " + n.Annotations[labels.Fence]
	}
	if len(holders) < 2 {
		t.Fatalf("Nodes of the shared sandbox: %v, want at least 2", holders)
	}
	return holders
}

// settledInventory waits until the inventory of the cluster has stopped changing, and returns the inventory.
// Kubernetes controllers still create objects after a cluster is ready.
func settledInventory(t *testing.T) (settled map[string]string) {
	t.Helper()
	const checks = 20
	equal := 0
	eventually(t, "the inventory of the cluster has stopped changing", func(ctx context.Context) error {
		now, err := inventory(ctx)
		if err != nil {
			return err
		}
		equal++
		if !maps.Equal(settled, now) {
			settled, equal = now, 0
		}
		if equal < checks {
			return fmt.Errorf("%d of %d inventories in a row are equal", equal, checks)
		}
		return nil
	})
	return settled
}

// inventory returns the UIDs of all objects in the cluster except Events. The keys contain the resource, namespace
// and name.
func inventory(ctx context.Context) (map[string]string, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if r.Name == "events" || !slices.Contains(r.Verbs, "list") {
				continue
			}
			items, err := objects.Resource(group.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for _, item := range items.Items {
				found[r.Name+" "+item.Namespace+"/"+item.Name] = string(item.UID)
			}
		}
	}
	return found, nil
}

// killDaemon kills the daemon of a sandbox.
func killDaemon(t *testing.T, b *box.Box) {
	t.Helper()
	list, err := b.Processes(t.Context())
	must(t, err)
	daemon, err := box.Find(list, "daemon")
	must(t, err)
	must(t, daemon.Kill(t.Context()))
	eventually(t, "the daemon has ended", func(ctx context.Context) error {
		if daemon.Running(ctx) {
			return errors.New("it runs")
		}
		return nil
	})
}

func controllerClient(t *testing.T, b *box.Box) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.Dir(), "module-controller.kubeconfig"))
	must(t, err)
	controller, err := kubernetes.NewForConfig(config)
	must(t, err)
	return controller
}

// requireServiceAccount checks that the controller uses a ServiceAccount and does not have the permissions of the
// user.
func requireServiceAccount(t *testing.T, b *box.Box) {
	t.Helper()
	controller := controllerClient(t, b)
	review, err := controller.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	if user := review.Status.UserInfo.Username; !strings.HasPrefix(user,
		"system:serviceaccount:kube-system:koupsandbox-"+b.Name+"-") {
		t.Errorf("the controller runs as user %s", user)
	}
	requireAllowed(t, controller, "", "list nodes")
	requireForbidden(t, controller, metav1.NamespaceSystem, "list secrets", "list leases.coordination.k8s.io")
	requireForbidden(t, controller, "", "create namespaces")
	list, err := process.Processes()
	must(t, err)
	if !slices.ContainsFunc(list, func(p *process.Process) bool {
		environ, err := p.Environ()
		return err == nil && slices.Contains(environ,
			"KUBECONFIG="+filepath.Join(b.Dir(), "module-controller.kubeconfig"))
	}) {
		t.Error("no process has the kubeconfig of the controller")
	}
}
