package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
	"github.com/koupleless/koupsandbox/sandbox"
)

const (
	// Names of the images that are loaded onto the nodes.
	fakebaseImage, controllerImage, agentImage = "localhost/e2e/fakebase:1", "localhost/e2e/module-controller:1",
		"localhost/e2e/koupsandbox:1"
	// brokerFolder is the directory of the broker's configuration in the broker's container.
	brokerFolder = "/mosquitto/config"
	brokerPort   = "8883"
	// agentPod is the name of the Pod that sends requests.
	agentPod = "koupsandbox-agent-0"
	// readyTime is how long to wait until the nodes of the cluster are Ready.
	readyTime = 3 * time.Minute
)

// existingCluster is a kind cluster that was not created by a sandbox. Its broker runs outside the cluster.
type existingCluster struct {
	kubeconfig, context string
	client              kubernetes.Interface
	broker              *container
}

// newExistingCluster creates a kind cluster with three nodes and loads the images onto the nodes. The cluster is
// deleted when the test ends.
func newExistingCluster(t *testing.T, binDir string, broker *container) *existingCluster {
	t.Helper()
	name, folder := envconf.RandomName("existing", 12), t.TempDir()
	c := &existingCluster{kubeconfig: filepath.Join(folder, "kubeconfig"), context: "kind-" + name}
	provider := kindcluster.NewProvider(kindcluster.ProviderWithDocker())
	t.Cleanup(func() {
		if t.Failed() {
			saveLogs(t, provider, name)
		}
		check.Must(t, provider.Delete(name, c.kubeconfig))
	})
	image := nodeImage(t)
	began := time.Now()
	check.Must(t, provider.Create(name, kindcluster.CreateWithKubeconfigPath(c.kubeconfig),
		kindcluster.CreateWithWaitForReady(readyTime),
		kindcluster.CreateWithDisplayUsage(false), kindcluster.CreateWithDisplaySalutation(false),
		kindcluster.CreateWithV1Alpha4Config(&v1alpha4.Cluster{Nodes: []v1alpha4.Node{
			{Role: v1alpha4.ControlPlaneRole, Image: image}, {Role: v1alpha4.WorkerRole, Image: image},
			{Role: v1alpha4.WorkerRole, Image: image},
		}})))
	t.Logf("the cluster is ready after %.1fs", time.Since(began).Seconds())
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err == nil {
		config.QPS = -1 // no client-side limit
		c.client, err = kubernetes.NewForConfig(config)
	}
	check.Must(t, err)
	check.Soon(t, "the nodes are Ready", func(ctx context.Context) error {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		ready := 0
		for i := range list.Items {
			if check.NodeReady(&list.Items[i]) {
				ready++
			}
		}
		if err == nil && ready < 3 {
			err = fmt.Errorf("%d nodes are Ready", ready)
		}
		return err
	})
	archives := []string{buildImage(t, folder, fakebaseImage, filepath.Join(binDir, "fakebase")),
		buildImage(t, folder, controllerImage, filepath.Join(binDir, box.ControllerBinary)),
		buildImage(t, folder, agentImage, filepath.Join(binDir, "koupsandbox"))}
	all, err := provider.ListInternalNodes(name)
	check.Must(t, err)
	c.addRoutes(t, all) // before the nodes are connected to a second network
	for _, node := range all {
		broker.connect(t, node.String())
		for _, archive := range archives {
			file, err := os.Open(archive)
			check.Must(t, err)
			check.Must(t, errors.Join(nodeutils.LoadImageArchive(node, file), file.Close()))
		}
	}
	return c
}

// addRoutes adds the routes between Pods on different nodes. Some node images do not add these routes.
func (c *existingCluster) addRoutes(t *testing.T, all []nodes.Node) {
	t.Helper()
	for _, to := range all {
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), to.String(), metav1.GetOptions{})
		check.Must(t, err)
		address, _, err := to.IP()
		check.Must(t, err)
		for _, from := range all {
			if from != to {
				check.Must(t, from.Command("ip", "route", "replace", node.Spec.PodCIDR, "via", address).Run())
			}
		}
	}
}

// saveLogs writes the logs of a cluster to the artifacts directory, and prints the states of all containers.
func saveLogs(t *testing.T, provider *kindcluster.Provider, name string) {
	t.Helper()
	folder, err := check.Artifacts("..", t.Name())
	if err == nil {
		err = provider.CollectLogs(name, folder)
	}
	nodes, psErr := exec.Command("docker", "ps", "--all", "--format", "{{.Names}} {{.Status}}").CombinedOutput()
	t.Logf("logs of the cluster: %s (error: %v); containers (error: %v):\n%s", folder, err, psErr, nodes)
}

// nodeImage returns the image that make node-image has built. An empty string selects kind's default image.
func nodeImage(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}",
		"koupsandbox/node").Output()
	check.Must(t, err)
	name, _, _ := strings.Cut(string(out), "\n")
	return name
}

// buildImage builds the image of a binary with the tool of the Makefile, and returns the path of the archive.
func buildImage(t *testing.T, folder, name, binary string) (archive string) {
	t.Helper()
	archive = filepath.Join(folder, filepath.Base(binary)+".tar")
	out, err := exec.CommandContext(t.Context(), "go", "run", "../../sandbox/internal/image/cmd/program-image",
		"--name", name, "--arch", runtime.GOARCH, "--output", archive, binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return archive
}

// objects returns the kinds and names of those objects in the cluster that fleet up could leave behind, or that fleet
// down could wrongly delete.
func (c *existingCluster) objects(ctx context.Context) (names []string, err error) {
	add := func(kind string, items []string, listErr error) {
		err = errors.Join(err, listErr)
		for _, name := range items {
			names = append(names, kind+" "+name)
		}
	}
	nodes, listErr := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	add("Node", namesOf(nodes.Items), listErr)
	namespaces, listErr := c.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	add("Namespace", namesOf(namespaces.Items), listErr)
	roles, listErr := c.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	add("ClusterRole", namesOf(roles.Items), listErr)
	bindings, listErr := c.client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	add("ClusterRoleBinding", namesOf(bindings.Items), listErr)
	for _, namespace := range []string{"default", "kube-system", "kube-node-lease"} {
		of := func(kind string) string { return kind + " " + namespace + "/" }
		sets, listErr := c.client.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
		add(of("StatefulSet"), namesOf(sets.Items), listErr)
		secrets, listErr := c.client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		add(of("Secret"), namesOf(secrets.Items), listErr)
		maps, listErr := c.client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		add(of("ConfigMap"), namesOf(maps.Items), listErr)
		leases, listErr := c.client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
		add(of("Lease"), namesOf(leases.Items), listErr)
	}
	return names, err
}

// named is a pointer to a Kubernetes object of type T.
type named[T any] interface {
	*T
	GetName() string
}

func namesOf[T any, P named[T]](items []T) (names []string) {
	for i := range items {
		names = append(names, P(&items[i]).GetName())
	}
	return names
}

// up runs koupsandbox fleet up for the cluster, and opens the fleet.
func (c *existingCluster) up(t *testing.T, f *fleet) {
	t.Helper()
	began := time.Now()
	check.Must(t, f.Must(t.Context(), "fleet", "up", "--kubeconfig", c.kubeconfig, "--context", c.context,
		"--allow-unmarked-cluster",
		"--bases", strconv.Itoa(f.bases), "--per-pod", strconv.Itoa((f.bases+pods-1)/pods), "--base-image",
		fakebaseImage, "--agent-image", agentImage, "--controller-image", controllerImage,
		"--broker", c.broker.URL(), "--broker-ca", c.broker.CAFile, "--broker-username", mosquitto.User,
		"--broker-password-file", c.broker.Passwords[mosquitto.User]))
	t.Logf("%d bases in %d Pods are ready after %.1fs", f.bases, pods, time.Since(began).Seconds())
	var err error
	f.up, err = f.Open(t.Context())
	check.Must(t, err)
}

// TestFleet checks that a fleet runs its bases and controllers in an existing cluster, that the fleet recovers after
// its Pods are killed and after broker outages, and that fleet down restores the cluster.
func TestFleet(t *testing.T) {
	f := newFleet(t)
	broker := startContainer(t)
	c := newExistingCluster(t, f.Bin, broker)
	c.broker = broker
	f.client = c.client
	objects, err := c.objects(t.Context())
	check.Must(t, err)
	c.up(t, f)
	before, err := f.identities(t.Context())
	if err != nil || len(before) != f.bases {
		t.Fatalf("%d bases, error %v", len(before), err)
	}
	t.Run("rolling update", f.rollingUpdate)
	t.Run("killed Pod", func(t *testing.T) { f.killPod(t, killedPod, before) })
	t.Run("broker", func(t *testing.T) { f.brokerOutages(t, broker, before) })
	t.Run("killed agent", func(t *testing.T) {
		f.killPod(t, agentPod, before)
		f.rollingUpdate(t)
	})
	t.Run("unsupported actions", func(t *testing.T) {
		for _, c := range []struct{ action, component, why string }{
			{"kill", "module-controller", "module-controller"},
			{"stop", "broker", "broker"},
		} {
			r, err := f.Run(t.Context(), "component", c.action, c.component)
			if err != nil || r.Status != 1 || !strings.Contains(r.Err, c.why) {
				t.Errorf("%s %s: error %v, exit status %d, want 1 and %q:\n%s", c.action, c.component, err, r.Status,
					c.why,
					r.Err)
			}
		}
	})
	// The last subtest, so that fleet down also finds the Lease of the killed controller.
	t.Run("killed controller", func(t *testing.T) {
		list, err := f.client.CoreV1().Pods("koupleless-system").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("%d controllers, error %v", len(list.Items), err)
		}
		killed := list.Items[0].Name
		check.Must(t, f.client.CoreV1().Pods("koupleless-system").Delete(t.Context(), killed,
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		check.Soon(t, "status does not show the killed Pod", func(ctx context.Context) error {
			status, err := f.up.Status(ctx, false)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(status.Components, func(c sandbox.Component) bool { return c.Pod == killed }) {
				return errors.New("status shows the killed Pod")
			}
			return nil
		})
		f.waitHealthy(t, before)
	})
	f.up.Close()
	check.Must(t, f.Must(t.Context(), "fleet", "down"))
	c.waitRestored(t, objects)
	t.Run("killed daemon", func(t *testing.T) {
		c.up(t, f)
		f.up.Close()
		processes, err := f.Processes(t.Context())
		check.Must(t, err)
		daemon, err := box.Find(processes, "daemon")
		check.Must(t, err)
		check.Must(t, daemon.Kill(t.Context()))
		check.Must(t, f.Must(t.Context(), "fleet", "down"))
		c.waitRestored(t, objects)
	})
}

// waitRestored waits until the cluster contains exactly the objects in before.
func (c *existingCluster) waitRestored(t *testing.T, before []string) {
	t.Helper()
	check.Soon(t, "the cluster has the objects from before the fleet", func(ctx context.Context) error {
		left, err := c.objects(ctx)
		if err != nil { // the list is incomplete
			return err
		}
		if d := cmp.Diff(before, left); d != "" {
			return fmt.Errorf("(-before +after):\n%s", d)
		}
		return nil
	})
}
