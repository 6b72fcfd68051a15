package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// clientPrefix begins the MQTT client ids of controllers and bases.
const clientPrefix = "koupleless"

// running has the parts of a sandbox. When Daemon.assembled returns it, every field is set, and none changes.
type running struct {
	cluster  Cluster
	topology Topology
	version  string // of the Kubernetes API
	link     *broker.Link
	relay    *heartbeat.Relay
	fleet    *fleet.Fleet
	nodes    *nodes.Watch
	gateway  string // host:port
	flows    *flows
	runner   ControllerRunner
	faults   *fault.Set // on the connections of components
	// apiFaults is the proxy between controllers and the API server, mqttFaults is in all connections to the broker.
	apiFaults  *apifault.Proxy
	mqttFaults *mqttfault.View
}

// newLink makes the connection point for MQTT: the sandbox's broker, or a relay to an external one.
func (b *bringUp) newLink() (*broker.Link, error) {
	d := b.d
	at, err := b.topology.BrokerHost()
	if err != nil {
		return nil, err
	}
	b.faults = fault.NewSet(d.streams.fault)
	b.mqttFaults = mqttfault.New(mqttfault.Options{Who: d.client, Faults: b.faults, Kill: d.killController})
	spec := b.config.Spec
	o := broker.LinkOptions{
		View: b.mqttFaults, Direct: b.topology.BrokerBypassed(),
		Host: at, Port: spec.Broker.Port, Env: spec.Env, ClientPrefix: clientPrefix, To: b.external,
		InfoFile: d.o.Dir.Broker(),
		Logger:   d.log.With("component", broker.Component), Changed: d.brokerChanged,
	}
	if spec.Broker.TLS {
		o.Serving = b.cluster.Serving
	}
	return broker.NewLink(o)
}

// assemble makes the parts that need the API or the broker. It starts none of them.
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
	b.life, b.relay = life, heartbeat.New(b.beat)
	d.onStop(func(context.Context) error {
		endLife()
		b.relay.Wait()
		return nil
	})
	if b.config.Spec.Bases.Runtime == v1alpha1.RuntimeCluster {
		b.pods, err = b.newPods()
		if err != nil {
			return err
		}
		d.show(podsPart, b.pods)
	}
	b.nodes = nodes.New(b.client, b.config.Spec.Env, b.nodeCreated)
	b.fleet = b.newFleet()
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
		service{"the watch of Nodes", b.nodes.Start},
		service{"the guard of the cluster", b.cluster.Guard},
		service{"the proxy of the API", b.apiFaults.Start},
		service{"the runner of controllers", b.runner.Start},
	)
	d.mu.Lock()
	d.running = b.running
	d.mu.Unlock()
	d.show(brokerPart, b.link)
	d.show(basesPart, bases{b.fleet, d.startedAt})
	d.show(runnerPart, b.runner)
	return nil
}

func (s *running) beat(hostName string) (http.RoundTripper, error) { return s.fleet.Beat(hostName) }

// nodeCreated records a base in an existing cluster, so that down removes its Node.
func (b *bringUp) nodeCreated(identity, holder string) {
	ours := strings.HasPrefix(holder, b.clientIDPrefix) || b.fleet.Started(identity)
	if EffectiveProvider(b.config) != v1alpha1.ProviderExisting || !ours {
		return
	}
	if err := b.d.o.Dir.AddBase(identity); err != nil {
		b.d.log.Error("could not record a base: down will not remove its Node", "err", err)
	}
}

func (b *bringUp) newFleet() *fleet.Fleet {
	d, spec, login := b.d, b.config.Spec, b.link.Base()
	own, runtimes := spec.Bases, map[v1alpha1.BaseRuntime]fleet.Runtime{}
	if b.pods != nil {
		runtimes[v1alpha1.RuntimeCluster] = b.pods
	}
	apart := "" // the environments of bases apart from those of other users of the broker
	if spec.Broker.URL != "" {
		apart = "-" + strings.ToLower(rand.Text()[:8])
	}
	return fleet.New(fleet.Options{
		Own: v1alpha1.BaseSet{BaseName: own.Name, Version: own.Version, Activation: own.Activation,
			Runtime: own.Runtime,
			WebPort: own.WebPort, Fetch: own.Fetch, WebModules: own.WebModules},
		ClusterName: own.ClusterName, Env: spec.Env, Apart: apart, Max: v1alpha1.MaxBases, Speed: spec.Speed,
		Username: login.User, Password: login.Password, Dial: b.link.Dial, Beat: b.relay, NoHTTP: b.topology.NoHTTP(),
		Runtimes: runtimes,
		Leaving:  func() { b.flows.inside.leaving(b.life) },
		Ended: func(ctx context.Context,
			identities []string) error {
			return d.deleteNodes(ctx, b.nodes, identities)
		},
		Logger: d.log.With("component", fleetName),
	})
}

func (b *bringUp) newGateway() (*traffic.Gateway, error) {
	d := b.d
	listener, err := b.listen(loopback, "of the gateway")
	if err != nil {
		return nil, err
	}
	targets := &targets{ctx: b.life, fleet: b.fleet}
	gateway := traffic.NewGateway(traffic.GatewayOptions{
		Client: b.client, Targets: targets, Network: fleet.Network, External: b.nodes.TakesCommands,
		Logger: d.log.With("component", "gateway"),
	})
	here := traffic.NewGenerator(traffic.GeneratorOptions{Gateway: gateway, Targets: targets, Lost: d.lost})
	b.gateway, b.flows = listener.Addr().String(), &flows{here: here}
	b.services = append(b.services,
		service{"the gateway", func(ctx context.Context) error { return serve(ctx, listener, gateway) }},
		service{"the gateway's watch", gateway.Start},
		service{"the generator", here.Start},
	)
	if launch := b.launcher(); launch != nil {
		agent := d.newAgent(launch)
		b.flows.inside = &inside{Remote: agent, services: b.client.CoreV1(), fleet: b.fleet, gateway: gateway}
		b.services = append(b.services, service{"the agent", agent.Start})
	}
	return gateway, nil
}

// listen opens a port of this machine. It is closed when the sandbox is taken down.
func (b *bringUp) listen(host, what string) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("opening the port %s: %w", what, err)
	}
	b.d.onStop(func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) { // its server may have closed it
			return err
		}
		return nil
	})
	return l, nil
}

// newPods makes the runtime for bases in Pods. Pods that reach this machine connect to the broker by the port of the
// sandbox, where faults can be injected. Other Pods connect to the external broker.
func (b *bringUp) newPods() (*pods.Pods, error) {
	d := b.d
	log, err := d.openLog(fleetName)
	if err != nil {
		return nil, err
	}
	d.onStop(func(context.Context) error { return log.Close() })
	label, err := d.o.Dir.Label()
	if err != nil {
		return nil, err
	}
	bases := b.config.Spec.Bases
	o := pods.Options{
		Config: b.cluster.Cluster().Config, Sandbox: label, Image: bases.Image, AgentImage: bases.AgentImage,
		Pull:   corev1.PullIfNotPresent,
		PerPod: bases.PerPod, Log: log, Changed: d.controllerChanged,
	}
	if b.topology.Bases == ownNodes {
		o.Broker = "ssl://" + b.link.Addr()
		o.BrokerCA, err = os.ReadFile(b.link.CAFile())
		if err != nil {
			return nil, fmt.Errorf("reading the broker's authority: %w", err)
		}
		o.Heartbeats, err = b.relay.Open(b.life, b.topology.Host)
		if err != nil {
			return nil, err
		}
		if bases.Image == "" {
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

// openLog opens the log of a component that does not write it itself.
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
			return nil, err // and no interface with a nil in it
		}
		return r, nil
	}
	common := host.Sandbox{
		Dir: d.o.Dir, Broker: b.link, ClientPrefix: clientPrefix, Gateway: b.gateway, Env: spec.Env, Speed: spec.Speed,
		Kubeconfig: b.controllerKubeconfig(),
	}
	o := host.Options{ClientIDPrefix: b.clientIDPrefix, Supervisor: d.supervisor, Heartbeats: b.relay.Set,
		Lead: b.apiFaults.Lead}
	if len(spec.Controller.Command) > 0 {
		o.Program = &host.Command{Sandbox: common}
		return host.New(o), nil
	}
	token := rand.Text()
	if err := state.WriteFile(d.o.Dir.HeartbeatToken(), []byte(token)); err != nil {
		return nil, fmt.Errorf("writing the token of heartbeats: %w", err)
	}
	p := b.cluster.Properties()
	o.Token = token
	o.Program = &host.Controller{
		Token: token, Sandbox: common, Path: d.o.Binaries.Controller, Host: p.Host, KubeletClientCA: p.KubeletClientCA,
		Serving: b.cluster.Serving,
	}
	return host.New(o), nil
}

// newClusterRunner makes the runner of controllers in the cluster. On the sandbox's own nodes, the controllers reach
// bases through a proxy of this machine.
func (b *bringUp) newClusterRunner(gateway *traffic.Gateway) (*incluster.Runner, error) {
	d := b.d
	o := incluster.Options{Config: b.cluster.Cluster().Config, Log: d.o.Dir.Log(runner.Name), Env: b.config.Spec.Env,
		Changed: d.controllerChanged}
	if b.topology.Controllers == ownNodes {
		p := b.cluster.Properties()
		proxy, err := b.openCommands(p.Host, gateway)
		if err != nil {
			return nil, err
		}
		o.Broker = func() (incluster.Broker, error) { return incluster.BrokerOf(b.link) }
		o.Own = &incluster.Own{Nodes: p.Nodes, Proxy: proxy, KubeletClientCA: p.KubeletClientCA,
			Serving: b.cluster.Serving, Heartbeats: b.relay.Set}
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
	o.Broker = func() (incluster.Broker, error) { return incluster.BrokerAt(b.external), nil }
	return incluster.New(o)
}

// openCommands opens a proxy to bases for controllers in the cluster, at an address of this machine in their network.
// It returns the URL of the proxy with its password.
func (b *bringUp) openCommands(address string, gateway *traffic.Gateway) (proxy string, err error) {
	l, err := b.listen(address, "for commands to bases")
	if err != nil {
		return "", err
	}
	password := rand.Text()
	b.services = append(b.services, service{"the proxy for commands", func(ctx context.Context) error {
		return serve(ctx, l, gateway.Commands(runner.Name, password))
	}})
	u := url.URL{Scheme: "http", User: url.UserPassword(runner.Name, password), Host: l.Addr().String()}
	return u.String(), nil
}

// controllerKubeconfig is the kubeconfig of the controllers. A custom command gets the administrator's one, because
// the permissions that it needs are not known.
func (b *bringUp) controllerKubeconfig() string {
	if len(b.config.Spec.Controller.Command) > 0 {
		return b.cluster.Cluster().Kubeconfig
	}
	return b.d.o.Dir.ControllerKubeconfig()
}

func (d *Daemon) controllerChanged(name string, state supervise.State, message string) {
	d.streams.component(time.Now(), name, state, message)
}
