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
	// The names of the images on the nodes.
	fakebaseImage, controllerImage, agentImage = "localhost/e2e/fakebase:1", "localhost/e2e/module-controller:1", "localhost/e2e/koupsandbox:1"
	// brokerFolder is the directory of the broker's configuration in its container.
	brokerFolder = "/mosquitto/config"
	brokerPort   = "8883"
	// agentPod is the Pod that sends requests.
	agentPod = "koupsandbox-agent-0"
	// readyTime is the maximum time until the cluster is Ready.
	readyTime = 3 * time.Minute
)

// theirs is a cluster that no sandbox has created, and a broker outside it.
type theirs struct {
	kubeconfig, context string
	client              kubernetes.Interface
	broker              *container
}

// newTheirs creates a kind cluster of three nodes with the images.
func newTheirs(t *testing.T, programs string, broker *container) *theirs {
	t.Helper()
	name, folder := envconf.RandomName("theirs", 10), t.TempDir()
	c := &theirs{kubeconfig: filepath.Join(folder, "kubeconfig"), context: "kind-" + name}
	provider := kindcluster.NewProvider(kindcluster.ProviderWithDocker())
	t.Cleanup(func() {
		if t.Failed() {
			keep(t, provider, name)
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
	t.Logf("their cluster is ready after %.1fs", time.Since(began).Seconds())
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err == nil {
		config.QPS = -1 // no client-side limit
		c.client, err = kubernetes.NewForConfig(config)
	}
	check.Must(t, err)
	check.Soon(t, "their nodes are Ready", func(ctx context.Context) error {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		ready := 0
		for i := range list.Items {
			if check.NodeReady(&list.Items[i]) {
				ready++
			}
		}
		if err == nil && ready < 3 {
			err = fmt.Errorf("%d are", ready)
		}
		return err
	})
	archives := []string{programImage(t, folder, fakebaseImage, filepath.Join(programs, "fakebase")),
		programImage(t, folder, controllerImage, filepath.Join(programs, box.ControllerBinary)),
		programImage(t, folder, agentImage, filepath.Join(programs, "koupsandbox"))}
	all, err := provider.ListInternalNodes(name)
	check.Must(t, err)
	c.route(t, all) // it needs nodes with one network
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

// route adds the routes between the Pods of different nodes, which not every node image adds.
func (c *theirs) route(t *testing.T, all []nodes.Node) {
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

// keep keeps what explains a failure: the logs of a cluster, and which of its nodes run.
func keep(t *testing.T, provider *kindcluster.Provider, name string) {
	t.Helper()
	folder, err := check.Artifacts("..", t.Name())
	if err == nil {
		err = provider.CollectLogs(name, folder)
	}
	nodes, psErr := exec.Command("docker", "ps", "--all", "--format", "{{.Names}} {{.Status}}").CombinedOutput()
	t.Logf("the logs of their cluster are in %s, error %v; containers, error %v:\n%s", folder, err, psErr, nodes)
}

// nodeImage is what make node-image has made; empty = kind's own, which it pulls.
func nodeImage(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}",
		"koupsandbox/node").Output()
	check.Must(t, err)
	name, _, _ := strings.Cut(string(out), "\n")
	return name
}

// programImage writes the image of a program as its users do.
func programImage(t *testing.T, folder, name, program string) (archive string) {
	t.Helper()
	archive = filepath.Join(folder, filepath.Base(program)+".tar")
	out, err := exec.CommandContext(t.Context(), "go", "run", "../../sandbox/internal/image/cmd/program-image",
		"--name", name, "--arch", runtime.GOARCH, "--output", archive, program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return archive
}

// objects are those that a fleet might leave, or take with it.
func (c *theirs) objects(ctx context.Context) (names []string, err error) {
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

// named is any object.
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

// up types the command that a person would.
func (c *theirs) up(t *testing.T, f *fleet) {
	t.Helper()
	began := time.Now()
	check.Must(t, f.Must(t.Context(), "fleet", "up", "--kubeconfig", c.kubeconfig, "--context", c.context,
		"--allow-unmarked-cluster",
		"--bases", strconv.Itoa(f.bases), "--per-pod", strconv.Itoa((f.bases+pods-1)/pods), "--base-image",
		fakebaseImage, "--agent-image", agentImage, "--controller-image", controllerImage,
		"--broker", c.broker.URL(), "--broker-ca", c.broker.CAFile, "--broker-username", mosquitto.User,
		"--broker-password-file", c.broker.Passwords[mosquitto.User]))
	t.Logf("%d bases in %d Pods are up after %.1fs", f.bases, pods, time.Since(began).Seconds())
	var err error
	f.up, err = f.Open(t.Context())
	check.Must(t, err)
}

// A fleet on an existing cluster: the bases and their controllers run in it. down restores the cluster.
func TestFleet(t *testing.T) {
	f := newFleet(t)
	broker := startContainer(t)
	c := newTheirs(t, f.Bin, broker)
	c.broker = broker
	f.client = c.client
	there, err := c.objects(t.Context())
	check.Must(t, err)
	c.up(t, f)
	before, err := f.identities(t.Context())
	if err != nil || len(before) != f.bases {
		t.Fatalf("%d bases, error %v", len(before), err)
	}
	t.Run("rolling update", f.rollingUpdate)
	t.Run("killed Pod", func(t *testing.T) { f.killedPod(t, victim, before) })
	t.Run("broker", func(t *testing.T) { f.brokerOutages(t, broker, before) })
	t.Run("killed agent", func(t *testing.T) {
		f.killedPod(t, agentPod, before)
		f.rollingUpdate(t)
	})
	t.Run("what cannot be done is refused", func(t *testing.T) {
		for _, c := range []struct{ action, component, why string }{
			{"kill", "module-controller", "module-controller"},
			{"stop", "broker", "broker"},
		} {
			r, err := f.Run(t.Context(), "component", c.action, c.component)
			if err != nil || r.Status != 1 || !strings.Contains(r.Err, c.why) {
				t.Errorf("%s %s: error %v, status %d, want 1 and %q:\n%s", c.action, c.component, err, r.Status, c.why,
					r.Err)
			}
		}
	})
	// Last, so that its Lease is as that of one that runs when the fleet goes down.
	t.Run("killed controller", func(t *testing.T) {
		list, err := f.client.CoreV1().Pods("koupleless-system").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("%d controllers, error %v", len(list.Items), err)
		}
		killed := list.Items[0].Name
		check.Must(t, f.client.CoreV1().Pods("koupleless-system").Delete(t.Context(), killed,
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		check.Soon(t, "status names another Pod in its place", func(ctx context.Context) error {
			status, err := f.up.Status(ctx, false)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(status.Components, func(c sandbox.Component) bool { return c.Pod == killed }) {
				return errors.New("it is there yet")
			}
			return nil
		})
		f.well(t, before)
	})
	f.up.Close()
	check.Must(t, f.Must(t.Context(), "fleet", "down"))
	c.asItWas(t, there)
	t.Run("killed daemon", func(t *testing.T) {
		c.up(t, f)
		f.up.Close()
		processes, err := f.Processes(t.Context())
		check.Must(t, err)
		daemon, err := box.Find(processes, "daemon")
		check.Must(t, err)
		check.Must(t, daemon.Kill(t.Context()))
		check.Must(t, f.Must(t.Context(), "fleet", "down"))
		c.asItWas(t, there)
	})
}

// asItWas waits until nothing is left of a fleet.
func (c *theirs) asItWas(t *testing.T, before []string) {
	t.Helper()
	check.Soon(t, "their cluster is as it was", func(ctx context.Context) error {
		left, err := c.objects(ctx)
		if err != nil { // what could not be listed is not missing
			return err
		}
		if d := cmp.Diff(before, left); d != "" {
			return fmt.Errorf("(-before +after):\n%s", d)
		}
		return nil
	})
}
