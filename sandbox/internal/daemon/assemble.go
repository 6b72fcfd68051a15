package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/heartbeat"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/pods"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/host"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// clientPrefix is the prefix of the MQTT client IDs of controllers and bases.
const clientPrefix = "koupleless"

// assembly contains the parts of a running sandbox. All fields are set, and do not change, once Daemon.assembled
// returns the assembly.
type assembly struct {
	cluster  Cluster
	topology Topology
	version  string // version of the API server
	link     *broker.Link
	relay    *heartbeat.Relay
	fleet    *fleet.Fleet
	nodes    *nodes.Watcher
	gateway  string // host:port of the HTTP proxy
	traffic  *trafficStreams
	runner   ControllerRunner
	faults   *fault.Set // faults of the API proxy and of broker connections
	// apiFaults is the API proxy of the controllers, which injects API faults. mqttFaults injects faults into all
	// broker connections.
	apiFaults  *apifault.Proxy
	mqttFaults *mqttfault.Injector
}

// newBrokerLink creates the broker link: the embedded broker, or a relay to an external broker.
func (b *bringUp) newBrokerLink() (*broker.Link, error) {
	d := b.d
	at, err := b.topology.BrokerHost()
	if err != nil {
		return nil, err
	}
	b.faults = fault.NewSet(d.hub.publishFault)
	b.mqttFaults = mqttfault.New(mqttfault.Options{ClientOf: d.mqttClient, Faults: b.faults, Kill: d.killController})
	spec := b.config.Spec
	o := broker.LinkOptions{
		View: b.mqttFaults, Direct: b.topology.BrokerDirect(),
		Host: at, Port: spec.Broker.Port, Env: spec.Env, ClientPrefix: clientPrefix, To: b.external,
		InfoFile: d.o.Dir.Broker(),
		Logger:   d.log.With("component", broker.Component), Changed: d.brokerChanged,
	}
	if spec.Broker.TLS {
		o.Serving = b.cluster.IssueServingCert
	}
	return broker.NewLink(o)
}

// assemble creates the parts of the sandbox that need the API or the broker. It does not start them.
func (b *bringUp) assemble(ctx context.Context) (err error) {
	d, c := b.d, b.cluster.Cluster()
	b.version = c.Version
	b.client, err = d.o.client(c)
	if err != nil {
		return err
	}
	b.clientIDPrefix, err = d.o.Dir.ClientIDPrefix()
	if err != nil {
		return err
	}
	life, endLife := context.WithCancel(context.WithoutCancel(ctx))
	b.listenerCtx, b.relay = life, heartbeat.New(b.heartbeatTransport)
	d.onStop(func(context.Context) error {
		endLife()
		b.relay.Wait()
		return nil
	})
	basesLog, err := d.openLog(fleetName)
	if err != nil {
		return err
	}
	d.onStop(func(context.Context) error { return basesLog.Close() })
	if b.config.Spec.Fleet.Runtime == v1alpha1.RuntimeCluster {
		b.pods, err = b.newPods(basesLog)
		if err != nil {
			return err
		}
		d.setComponents(podsSet, b.pods)
	}
	b.nodes = nodes.New(b.client, b.config.Spec.Env, b.nodeCreated)
	b.fleet = b.newFleet(basesLog)
	gateway, err := b.newGateway()
	if err != nil {
		return err
	}
	b.apiFaults = apifault.New(apifault.Options{
		Dir: string(d.o.Dir), Kubeconfig: b.controllerKubeconfig(), Faults: b.faults,
		GroupOf: d.groupOf(b.fleet, b.nodes), Kill: d.killController,
	})
	b.runner, err = b.newRunner(gateway)
	if err != nil {
		return err
	}
	b.services = append(b.services,
		service{"Node watch", b.nodes.Start},
		service{"cluster maintenance", b.cluster.Maintain},
		service{"API proxy", b.apiFaults.Start},
		service{"controller runner", b.runner.Start},
	)
	d.mu.Lock()
	d.assembly = b.assembly
	d.mu.Unlock()
	d.setComponents(brokerSet, b.link)
	d.setComponents(basesSet, bases{b.fleet, d.startedAt})
	d.setComponents(runnerSet, b.runner)
	return nil
}

func (s *assembly) heartbeatTransport(hostName string) (http.RoundTripper, error) {
	return s.fleet.HeartbeatTransport(hostName)
}

// nodeCreated is called for each Node of a base. In an existing cluster, it records the identities of this sandbox's
// bases, so that down can remove their Nodes.
func (b *bringUp) nodeCreated(identity, holder string) {
	own := strings.HasPrefix(holder, b.clientIDPrefix) || b.fleet.Started(identity)
	if EffectiveProvider(b.config) != v1alpha1.ProviderExisting || !own {
		return
	}
	if err := b.d.o.Dir.AddBase(identity); err != nil {
		b.d.log.Error("could not record a base; down will not remove its Node", "err", err)
	}
}

// newFleet creates the fleet. log receives the log of the bases, in the format that module controllers read.
func (b *bringUp) newFleet(log io.Writer) *fleet.Fleet {
	d, spec, login := b.d, b.config.Spec, b.link.Base()
	runtimes := map[v1alpha1.BaseRuntime]fleet.Runtime{}
	if b.pods != nil {
		runtimes[v1alpha1.RuntimeCluster] = b.pods
	}
	apart := "" // separates the environments of these bases from those of other clients of the broker
	if spec.Broker.URL != "" {
		apart = "-" + strings.ToLower(rand.Text()[:8])
	}
	return fleet.New(fleet.Options{
		Own: spec.Bases, ClusterName: b.config.Metadata.Name, Runtime: spec.Fleet.Runtime, Env: spec.Env,
		EnvSuffix: apart, MaxBases: v1alpha1.MaxBases, Speed: spec.Speed,
		Username: login.User, Password: login.Password, Dial: b.link.Dial, Heartbeats: b.relay,
		NoHTTPReason: b.topology.NoHTTPReason(), Runtimes: runtimes,
		BeforeEnd: func() { b.traffic.cluster.waitUntilUnused(b.listenerCtx) },
		DeleteNodes: func(ctx context.Context, identities []string) error {
			return d.deleteNodes(ctx, b.nodes, identities)
		},
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: preciseTime})),
	})
}

// preciseTime is a slog.HandlerOptions.ReplaceAttr function that logs times in microseconds. The default is
// milliseconds, in which a base can execute several commands.
func preciseTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		a.Value = slog.StringValue(a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
	}
	return a
}

func (b *bringUp) newGateway() (*traffic.Gateway, error) {
	d := b.d
	listener, err := b.listen(loopback, "for the gateway")
	if err != nil {
		return nil, err
	}
	targets := &targets{ctx: b.listenerCtx, fleet: b.fleet}
	gateway := traffic.NewGateway(traffic.GatewayOptions{
		Client: b.client, Targets: targets, Network: fleet.Network, External: b.nodes.AcceptsCommands,
		Logger: d.log.With("component", "gateway"),
	})
	here := traffic.NewGenerator(
		traffic.GeneratorOptions{Gateway: gateway, Targets: targets, Lost: d.reportLostRequest})
	b.gateway, b.traffic = listener.Addr().String(), &trafficStreams{local: here}
	b.services = append(b.services,
		service{"gateway", func(ctx context.Context) error { return serve(ctx, listener, gateway) }},
		service{"gateway endpoint watch", gateway.Start},
		service{"request generator", here.Start},
	)
	if launch := b.agentLauncher(); launch != nil {
		agent := d.newAgent(launch)
		b.traffic.cluster = &clusterSender{Remote: agent, services: b.client.CoreV1(), fleet: b.fleet, gateway: gateway}
		b.services = append(b.services, service{"traffic agent", agent.Start})
	}
	return gateway, nil
}

// listen opens a port on the address host of this machine. The port is closed when the sandbox stops.
func (b *bringUp) listen(host, what string) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("opening a port %s: %w", what, err)
	}
	b.d.onStop(func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // the server may have closed it
			return err
		}
		return nil
	})
	return l, nil
}

// newPods creates the runtime for bases in Pods. Pods that can reach this machine connect to the broker link of the
// sandbox, which can inject faults. Other Pods connect directly to the external broker.
// log receives the log of the bases.
func (b *bringUp) newPods(log io.Writer) (*pods.Pods, error) {
	d := b.d
	label, err := d.o.Dir.Label()
	if err != nil {
		return nil, err
	}
	settings := b.config.Spec.Fleet
	o := pods.Options{
		Config: b.cluster.Cluster().Config, Sandbox: label, Image: settings.Image, AgentImage: settings.AgentImage,
		Pull:   corev1.PullIfNotPresent,
		PerPod: settings.PerPod, Log: log, OnChange: d.controllerChanged,
	}
	if b.topology.Bases == ownNodes {
		o.Broker = "ssl://" + b.link.Addr()
		o.BrokerCA, err = os.ReadFile(b.link.CAFile())
		if err != nil {
			return nil, fmt.Errorf("reading the CA certificate of the broker: %w", err)
		}
		o.Heartbeats, err = b.relay.Open(b.listenerCtx, b.topology.Host)
		if err != nil {
			return nil, err
		}
		if settings.Image == "" {
			b.podImage, err = pods.Image(d.o.Binaries.Base, string(d.o.Dir))
			if err != nil {
				return nil, err
			}
			o.Image, o.Pull = b.podImage.Name, corev1.PullNever
		}
	} else if e := b.external; e != nil {
		o.Broker, o.BrokerCA, o.BrokerCert, o.BrokerKey = e.ClientURL(), e.CA, e.Cert, e.Key
	} else {
		return nil, errNoBroker
	}
	return pods.New(o)
}

// openLog opens the log file of a component for writing. It is used for components that do not open their own log
// files.
func (d *Daemon) openLog(name string) (*os.File, error) {
	log, err := os.OpenFile(d.o.Dir.Log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	return log, nil
}

func (b *bringUp) newRunner(gateway *traffic.Gateway) (ControllerRunner, error) {
	d, spec := b.d, b.config.Spec
	if b.topology.Controllers != thisMachine {
		r, err := b.newClusterRunner(gateway)
		if err != nil {
			return nil, err // not a non-nil interface with a nil pointer
		}
		return r, nil
	}
	common := host.Sandbox{
		Dir: d.o.Dir, Broker: b.link, ClientPrefix: clientPrefix, Gateway: b.gateway, Env: spec.Env, Speed: spec.Speed,
		Kubeconfig: b.controllerKubeconfig(),
	}
	o := host.Options{ClientIDPrefix: b.clientIDPrefix, Supervisor: d.supervisor, Heartbeats: b.relay.SetAddr,
		ProxyKubeconfig: b.apiFaults.AddController}
	if len(spec.Controller.Command) > 0 {
		o.Program = &host.Command{Sandbox: common}
		return host.New(o), nil
	}
	token := rand.Text()
	if err := state.WriteFile(d.o.Dir.HeartbeatToken(), []byte(token)); err != nil {
		return nil, fmt.Errorf("writing the heartbeat token: %w", err)
	}
	p := b.cluster.Properties()
	o.Token = token
	o.Program = &host.Controller{
		Token: token, Sandbox: common, Path: d.o.Binaries.Controller, Host: p.Host, KubeletClientCA: p.KubeletClientCA,
		IssueServingCert: b.cluster.IssueServingCert, BaseLog: d.o.Dir.Log(fleetName),
	}
	return host.New(o), nil
}

// newClusterRunner creates the runner for controllers in the cluster. If the sandbox created the nodes, the
// controllers send commands to the bases through a proxy on this machine.
func (b *bringUp) newClusterRunner(gateway *traffic.Gateway) (*incluster.Runner, error) {
	d := b.d
	o := incluster.Options{Config: b.cluster.Cluster().Config, Log: d.o.Dir.Log(runner.Name), Env: b.config.Spec.Env,
		OnChange: d.controllerChanged}
	if b.topology.Controllers == ownNodes {
		p := b.cluster.Properties()
		proxy, err := b.openCommandProxy(p.Host, gateway)
		if err != nil {
			return nil, err
		}
		o.Broker = func() (incluster.Broker, error) { return incluster.SandboxBroker(b.link) }
		o.Local = &incluster.LocalCluster{Nodes: p.Nodes, Proxy: proxy, KubeletClientCA: p.KubeletClientCA,
			IssueServingCert: b.cluster.IssueServingCert, Heartbeats: b.relay.SetAddr}
		return incluster.New(o)
	}
	if b.external == nil {
		return nil, errNoBroker
	}
	label, err := d.o.Dir.Label()
	if err != nil {
		return nil, err
	}
	o.Image, o.ClientIDPrefix, o.Owner = b.config.Spec.Controller.Image, b.clientIDPrefix, label
	o.Broker = func() (incluster.Broker, error) { return incluster.ExternalBroker(b.external), nil }
	return incluster.New(o)
}

// openCommandProxy opens a proxy through which controllers in the cluster send commands to the bases. address is the
// address of this machine in the network of the controllers. openCommandProxy returns the URL of the proxy, which
// includes the password.
func (b *bringUp) openCommandProxy(address string, gateway *traffic.Gateway) (proxy string, err error) {
	l, err := b.listen(address, "for commands to bases")
	if err != nil {
		return "", err
	}
	password := rand.Text()
	b.services = append(b.services, service{"command proxy", func(ctx context.Context) error {
		return serve(ctx, l, gateway.Commands(runner.Name, password))
	}})
	u := url.URL{Scheme: "http", User: url.UserPassword(runner.Name, password), Host: l.Addr().String()}
	return u.String(), nil
}

// controllerKubeconfig returns the path of the controllers' kubeconfig. For a custom controller command, it is the
// administrator's kubeconfig, because the required permissions are unknown.
func (b *bringUp) controllerKubeconfig() string {
	if len(b.config.Spec.Controller.Command) > 0 {
		return b.cluster.Cluster().Kubeconfig
	}
	return b.d.o.Dir.ControllerKubeconfig()
}

func (d *Daemon) controllerChanged(name string, state supervise.State, message string) {
	d.hub.publishComponent(time.Now(), name, state, message)
}
