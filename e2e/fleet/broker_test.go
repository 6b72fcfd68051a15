package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
)

// subnets is the number of random subnets to try. Other networks may already use some of them.
const subnets = 20

// container is Mosquitto in a container on its own network. The IP address of the container stays the same after a
// restart.
type container struct {
	*mosquitto.Files
	engine      *testcontainers.DockerProvider
	id, network string
}

// startContainer runs Mosquitto in a container until the test ends.
func startContainer(t *testing.T) *container {
	t.Helper()
	// the image of Ryuk would be pulled from a registry; the test cleans up itself
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	engine, err := testcontainers.NewDockerProvider()
	check.Must(t, err)
	made, ip := newNetwork(t)
	folder := t.TempDir()
	c := &container{engine: engine, network: made}
	c.Files, err = mosquitto.Write(folder, "0.0.0.0:"+brokerPort, []string{ip.String()}, brokerFolder, "root")
	check.Must(t, err)
	parts, err := mosquitto.ImageFiles(t.Context())
	check.Must(t, err)
	files := map[string]string{}
	for _, part := range parts {
		files[part] = part
	}
	entries, err := os.ReadDir(folder)
	check.Must(t, err)
	for _, e := range entries {
		files[filepath.Join(brokerFolder, e.Name())] = filepath.Join(folder, e.Name())
	}
	started, err := testcontainers.GenericContainer(t.Context(), testcontainers.GenericContainerRequest{
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			FromDockerfile: testcontainers.FromDockerfile{ContextArchive: imageContext(t, files)},
			Entrypoint:     []string{parts[0]}, Cmd: []string{"-c", brokerFolder + "/mosquitto.conf"},
			Networks: []string{made},
			EndpointSettingsModifier: func(s map[string]*network.EndpointSettings) {
				s[made].IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: ip}
			},
		},
	})
	testcontainers.CleanupContainer(t, started)
	check.Must(t, err)
	c.id = started.GetContainerID()
	check.Soon(t, "Mosquitto answers", func(context.Context) error {
		client, err := c.Connect()
		if err == nil {
			client.Disconnect(0)
		}
		return err
	})
	return c
}

// connect adds another container to the broker's network. This is necessary because a container engine isolates its
// networks from each other.
func (c *container) connect(t *testing.T, name string) {
	t.Helper()
	_, err := c.engine.Client().NetworkConnect(t.Context(), c.network, client.NetworkConnectOptions{Container: name})
	check.Must(t, err)
}

// newNetwork creates a network with a subnet. Container engines assign fixed addresses only in networks that specify
// a subnet.
func newNetwork(t *testing.T) (name string, ip netip.Addr) {
	t.Helper()
	var errs []error
	for range subnets {
		subnet := [4]byte{10, 213, byte(rand.IntN(256)), 0}
		made, err := tcnetwork.New(t.Context(), tcnetwork.WithIPAM(&network.IPAM{
			Config: []network.IPAMConfig{{Subnet: netip.PrefixFrom(netip.AddrFrom4(subnet), 24)}},
		}))
		if err == nil {
			testcontainers.CleanupNetwork(t, made)
			subnet[3] = 10
			return made.Name, netip.AddrFrom4(subnet)
		}
		errs = append(errs, err)
	}
	t.Fatal(errors.Join(errs...))
	return "", ip
}

// imageContext returns the build context of an image that contains only the given files. The keys of files are paths
// in the image.
func imageContext(t *testing.T, files map[string]string) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	add := func(name string, content []byte) {
		check.Must(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
		_, err := archive.Write(content)
		check.Must(t, err)
	}
	add("Dockerfile", []byte("FROM scratch\nCOPY root /\n"))
	for in, from := range files {
		content, err := os.ReadFile(from) // follows symbolic links
		check.Must(t, err)
		add("root"+in, content)
	}
	check.Must(t, archive.Close())
	return bytes.NewReader(out.Bytes())
}

// podState contains the fields that change when a Pod is replaced, when its module is installed again, or when its
// base restarts.
type podState struct {
	UID      string
	Started  time.Time
	Restarts int32
}

// podStates returns the states of the Pods of a Deployment by Pod name. It returns an error unless all Pods are
// Ready.
func (f *fleet) podStates(ctx context.Context, name string) (map[string]podState, error) {
	list, err := f.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	all := map[string]podState{}
	for i := range list.Items {
		p := &list.Items[i]
		if !module.IsReady(p) {
			return nil, fmt.Errorf("Pod %s is not Ready", p.Name)
		}
		s := p.Status.ContainerStatuses[0]
		all[p.Name] = podState{string(p.UID), s.State.Running.StartedAt.Time, s.RestartCount}
	}
	if len(all) != pods {
		return nil, fmt.Errorf("%d Pods, want %d", len(all), pods)
	}
	return all, nil
}

// brokerOutages pauses and kills the broker. During each outage, the Nodes must stay Ready with the condition
// Observed=False. No module may be installed again.
func (f *fleet) brokerOutages(t *testing.T, c *container, bases []string) {
	const name = "outage"
	_, err := f.client.AppsV1().Deployments("default").Create(t.Context(),
		module.Deployment("default", name, pods, module.Template(name, module.Container(name, "1.0.0"))),
		metav1.CreateOptions{})
	check.Must(t, err)
	var before map[string]podState
	check.Soon(t, "the modules are installed", func(ctx context.Context) (err error) {
		before, err = f.podStates(ctx, name)
		return err
	})
	engine := c.engine.Client()
	for _, fault := range []struct {
		name       string
		begin, end func(context.Context) error
		problem    string // problem that the status command reports during the outage
	}{
		{"pause", func(ctx context.Context) error {
			_, err := engine.ContainerPause(ctx, c.id, client.ContainerPauseOptions{})
			return err
		}, func(ctx context.Context) error {
			_, err := engine.ContainerUnpause(ctx, c.id, client.ContainerUnpauseOptions{})
			return err
		}, ""},
		{"kill", func(ctx context.Context) error {
			_, err := engine.ContainerKill(ctx, c.id, client.ContainerKillOptions{Signal: "KILL"})
			return err
		}, func(ctx context.Context) error {
			_, err := engine.ContainerStart(ctx, c.id, client.ContainerStartOptions{})
			return err
		}, "bases connected to the broker"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			check.Must(t, fault.begin(t.Context()))
			check.Soon(t, "all Nodes are Ready and not observed", func(ctx context.Context) error {
				list, err := f.client.CoreV1().Nodes().List(ctx,
					metav1.ListOptions{LabelSelector: module.LabelComponent + "=vnode"})
				if err != nil {
					return err
				}
				for i := range list.Items {
					n := &list.Items[i]
					if !check.NodeReady(n) || !unobserved(n) {
						return fmt.Errorf("Node %s has the conditions %v", n.Name, n.Status.Conditions)
					}
				}
				status, err := f.up.Status(ctx, true)
				if err == nil && !strings.Contains(strings.Join(status.Problems, "\n"), fault.problem) {
					err = fmt.Errorf("status: %q", status.Problems)
				}
				return err
			})
			check.Must(t, fault.end(t.Context()))
			f.waitHealthy(t, bases)
			var after map[string]podState
			check.Soon(t, "the modules are Ready", func(ctx context.Context) (err error) {
				after, err = f.podStates(ctx, name)
				return err
			})
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("Pods of modules (-before +after):\n%s", d)
			}
		})
	}
}

// unobserved reports whether the Observed condition of a Node is False because the tunnel is down.
func unobserved(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Observed" {
			return c.Status == corev1.ConditionFalse && c.Reason == "TunnelDown"
		}
	}
	return false
}
