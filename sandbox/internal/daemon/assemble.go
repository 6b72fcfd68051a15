package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/graph"
	"github.com/koupleless/koupsandbox/sandbox/internal/heartbeat"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
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

// running is what a sandbox is made of. Every field is set, and none changes.
type running struct {
	cluster  Cluster
	topology Topology
	version  string // of the Kubernetes API
	link     *broker.Link
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

// assembly is what assembling needs besides.
type assembly struct {
	*firstUp
	config *v1alpha1.Sandbox
	// life is that of listeners for bases, which are opened when they are needed.
	life   context.Context
	relay  *heartbeat.Relay
	pods   *pods.Pods    // nil where no base runs in one
	image  *image.Image  // that nodes are given for them; nil = none
	nodes  cluster.Nodes // which these are
	opened []io.Closer   // closed last, or when the assembly fails
	// clientIDPrefix is the prefix of the CLIENT_ID of the sandbox's controllers.
	clientIDPrefix string
}

// assemble makes everything that needs the API or the broker, and returns the steps that start it.
// Nothing is started yet.
func (b *firstUp) assemble(ctx context.Context) (steps []graph.Step, err error) {
	life, endLife := context.WithCancel(context.WithoutCancel(ctx))
	a := &assembly{firstUp: b, config: b.d.configNow(), life: life}
	var s *running
	a.relay = heartbeat.New(func(hostName string) (http.RoundTripper, error) { return s.fleet.Beat(hostName) }) // there are bases by then
	end := func(context.Context) error {
		endLife()
		a.relay.Wait()
		var errs []error
		for _, c := range a.opened {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	s, steps, err = a.make(ctx)
	if err != nil {
		return nil, errors.Join(err, end(ctx))
	}
	d := b.d
	d.mu.Lock()
	d.running = s
	d.mu.Unlock()
	d.show(brokerPart, s.link)
	d.show(basesPart, bases{s.fleet, d.startedAt})
	if a.pods != nil {
		d.show(podsPart, a.pods)
	}
	d.show(runnerPart, s.runner.Part())
	return append(steps, graph.Step{Needs: []graph.Condition{brokerListens}, Gives: []graph.Condition{heartsBeat}, Undo: end}), nil
}

// make makes the parts, and the steps that start them.
func (a *assembly) make(ctx context.Context) (*running, []graph.Step, error) {
	d, c := a.d, a.cluster
	client, err := d.o.client(c.Cluster())
	if err != nil {
		return nil, nil, err
	}
	runtimes := map[v1alpha1.BaseRuntime]fleet.Runtime{}
	if a.config.Spec.Bases.Runtime == v1alpha1.RuntimeCluster {
		if a.pods, err = a.newPods(); err != nil {
			return nil, nil, err
		}
		runtimes[v1alpha1.RuntimeCluster] = a.pods
	}
	own, login := a.config.Spec.Bases, a.link.Base()
	if a.clientIDPrefix, err = d.o.Dir.ClientIDPrefix(); err != nil {
		return nil, nil, err
	}
	var f *fleet.Fleet
	var created func(identity, holder string)
	if EffectiveProvider(a.config) == v1alpha1.ProviderExisting {
		created = func(identity, holder string) {
			if strings.HasPrefix(holder, a.clientIDPrefix) || f.Started(identity) {
				if err := d.o.Dir.AddBase(identity); err != nil {
					d.log.Error("could not record a base: down will not remove its Node", "err", err)
				}
			}
		}
	}
	n := nodes.New(client, a.config.Spec.Env, created)
	var s *running
	f = fleet.New(fleet.Options{
		Own: v1alpha1.BaseSet{BaseName: own.Name, Version: own.Version, Activation: own.Activation, Runtime: own.Runtime,
			WebPort: own.WebPort, Fetch: own.Fetch, WebModules: own.WebModules},
		ClusterName: own.ClusterName, Env: a.config.Spec.Env, Apart: apart(a.config), Max: v1alpha1.MaxBases, Speed: a.config.Spec.Speed,
		Username: login.User, Password: login.Password, Dial: a.link.Dial, Beat: a.relay, NoHTTP: a.topology.NoHTTP(), Runtimes: runtimes,
		Leaving: func() { s.flows.inside.leaving(a.life) },
		Ended:   func(ctx context.Context, identities []string) error { return d.deleteNodes(ctx, n, identities) },
		Logger:  d.log.With("component", fleetName),
	})
	listener, err := a.listen(loopback, "of the gateway")
	if err != nil {
		return nil, nil, err
	}
	targets := &targets{ctx: a.life, fleet: f}
	gateway := traffic.NewGateway(traffic.GatewayOptions{Client: client, Targets: targets, Network: fleet.Network, External: n.TakesCommands, Logger: d.log.With("component", "gateway")})
	s = &running{
		cluster: c, topology: a.topology, version: c.Cluster().Version, link: a.link, fleet: f, nodes: n, gateway: listener.Addr().String(),
		faults: a.faults, mqttFaults: a.mqttFaults,
		apiFaults: apifault.New(apifault.Options{
			Dir: string(d.o.Dir), Kubeconfig: a.controllerKubeconfig(), Faults: a.faults, GroupOf: d.groupOf(f, n), Kill: d.killController,
		}),
		flows: &flows{here: traffic.NewGenerator(traffic.GeneratorOptions{Gateway: gateway, Targets: targets, Lost: d.lost}), inside: noAgent{}},
	}
	services := []graph.Step{
		d.service("the gateway", func(ctx context.Context) error { return serve(ctx, listener, gateway) }),
		d.service("the gateway's watch", gateway.Start),
		d.service("the generator", s.flows.here.Start),
		d.service("the watch of Nodes", s.nodes.Start),
		d.service("the guard of the cluster", c.Guard),
		d.service("the proxy of the API", s.apiFaults.Start),
	}
	if launch := a.launcher(); launch != nil {
		agent := d.newAgent(launch)
		s.flows.inside = &inside{Remote: agent, services: client.CoreV1(), fleet: f, gateway: gateway}
		services = append(services, d.service("the agent", agent.Start))
	}
	var more []graph.Step
	if s.runner, more, err = a.runner(s, gateway); err != nil {
		return nil, nil, err
	}
	return s, append(append(services, more...), a.basesSteps(s, client)...), nil
}

// service is a step that starts a part which needs the API for as long as it lives.
func (d *Daemon) service(what string, start func(context.Context) error) graph.Step {
	return graph.Service(graph.Step{Needs: []graph.Condition{cluster.Answers}}, start, func(err error) {
		d.log.Error("a part of the sandbox ended", "part", what, "err", err)
	})
}

// runner makes what runs the controllers, and the steps that start them.
func (a *assembly) runner(s *running, gateway *traffic.Gateway) (ControllerRunner, []graph.Step, error) {
	d, c, controller := a.d, a.cluster, a.config.Spec.Controller
	admit := "Granting the controller its rights"
	told := host.Sandbox{
		Dir: d.o.Dir, Broker: a.link, ClientPrefix: clientPrefix, Gateway: s.gateway, Env: a.config.Spec.Env, Speed: a.config.Spec.Speed, Kubeconfig: a.controllerKubeconfig(),
	}
	if a.crowded() {
		told.NodeLease = crowdNodeLease
	}
	needs := []graph.Condition{rightsGranted, brokerListens, basesMayCome, runnerFollows}
	var (
		r     ControllerRunner
		steps []graph.Step
	)
	switch {
	case a.topology.Controllers != thisMachine:
		inside, more, err := a.inside(gateway)
		if err != nil {
			return nil, nil, err
		}
		r, steps = inside, more
		if a.topology.Controllers == otherCluster {
			admit = "" // the manifests of the Deployment include its permissions
		} else {
			needs = append(needs, imageLoaded)
		}
	case len(controller.Command) > 0:
		admit = ""
		r = a.onHost(s, &host.Command{Sandbox: told})
	default:
		token := rand.Text()
		if err := state.WriteFile(d.o.Dir.HeartbeatToken(), []byte(token)); err != nil {
			return nil, nil, fmt.Errorf("writing the token of heartbeats: %w", err)
		}
		own := &host.Controller{
			Token: token, Sandbox: told, Path: d.o.Programs.Controller, Host: c.Properties().Host, KubeletClientCA: c.Properties().KubeletClientCA, Serving: c.Serving,
		}
		r = a.onHost(s, own)
	}
	follow := d.service("the runner of controllers", r.Start)
	follow.Gives = []graph.Condition{runnerFollows}
	name := "Starting module-controller"
	if n := *controller.Replicas; n > 1 {
		name = "Starting " + plain.Count(n, "module-controller")
	}
	return r, append(steps, follow,
		graph.Step{Name: admit, Needs: []graph.Condition{cluster.Answers}, Gives: []graph.Condition{rightsGranted},
			Run: func(ctx context.Context) error {
				if admit != "" {
					if err := c.Admit(ctx); err != nil {
						return err
					}
				}
				return c.Sweep(ctx)
			},
			Undo: func(ctx context.Context) error { return c.Dismiss(ctx, s.fleet.Known()) },
		},
		graph.Step{Name: name, Needs: needs, Gives: []graph.Condition{controllersReady},
			Run:  func(ctx context.Context) error { return d.setControllers(ctx, control.ControllerRequest{}) },
			Undo: func(ctx context.Context) error { return r.End(ctx, c.Properties().Ephemeral) },
		},
	), nil
}

// inside makes what runs the controllers in the cluster, and the steps of what they need on this
// machine. In a cluster of the user's they need nothing here.
func (a *assembly) inside(gateway *traffic.Gateway) (*incluster.Runner, []graph.Step, error) {
	d, c := a.d, a.cluster
	o := incluster.RunnerOptions{Config: c.Cluster().Config, Log: d.o.Dir.Log(runner.Name), Env: a.config.Spec.Env, Changed: d.controllerChanged}
	var steps []graph.Step
	if a.topology.Controllers == ownNodes {
		p := c.Properties()
		proxy, serving, err := a.openCommands(p.Host, gateway)
		if err != nil {
			return nil, nil, err
		}
		o.Broker = func() (incluster.Broker, error) { return incluster.BrokerOf(a.link) }
		o.Own = &incluster.Own{Nodes: p.Nodes, Proxy: proxy, KubeletClientCA: p.KubeletClientCA, Serving: c.Serving, Heartbeats: a.relay.Set}
		steps = append(steps, d.service("the proxy for commands", serving))
	} else {
		if a.external == nil {
			return nil, nil, errNoBroker
		}
		label, err := d.o.Dir.Label()
		if err != nil {
			return nil, nil, err
		}
		o.Image, o.ClientIDPrefix, o.Owner = a.config.Spec.Controller.Image, a.clientIDPrefix, label
		o.Broker = func() (incluster.Broker, error) { return incluster.BrokerAt(a.external) }
	}
	r, err := incluster.NewRunner(o)
	return r, steps, err
}

func (a *assembly) onHost(s *running, p host.Program) *host.Runner {
	return host.New(host.Options{Program: p, ClientIDPrefix: a.clientIDPrefix, Supervisor: a.d.supervisor, Heartbeats: a.relay.Set, Lead: s.apiFaults.Lead})
}

// controllerKubeconfig is the kubeconfig of the controllers: what rights a command of the user's needs,
// only its author knows.
func (a *assembly) controllerKubeconfig() string {
	if len(a.config.Spec.Controller.Command) > 0 {
		return a.cluster.Cluster().Kubeconfig
	}
	return a.d.o.Dir.ControllerKubeconfig()
}

// basesSteps bring the sandbox's own bases up: what they run in at once, themselves when
// controllers listen.
func (a *assembly) basesSteps(s *running, client kubernetes.Interface) []graph.Step {
	d, number := a.d, *a.config.Spec.Bases.Count
	prepare := "" // in this process it takes no time
	if a.pods != nil {
		prepare = "Starting " + plain.Count(a.pods.Number(number), "Pod") + " of bases"
	}
	start := graph.Service(graph.Step{Needs: []graph.Condition{heartsBeat, brokerListens, podsFollowed}, Gives: []graph.Condition{basesMayCome}}, s.fleet.Start,
		func(err error) { d.log.Error("a part of the sandbox ended", "part", "the fleet", "err", err) })
	var prepared *fleet.Prepared // nil before it is, and once they have started
	wait := graph.Step{Name: waitingForNodes(number), Needs: []graph.Condition{connected}, Run: func(ctx context.Context) error {
		err := d.waitNodes(ctx, s)
		if err == nil && a.populated != nil {
			close(a.populated)
		}
		return err
	}}
	if a.populated == nil {
		wait.Needs = append(wait.Needs, cluster.Complete)
	}
	return append(a.podsSteps(client, number), start,
		graph.Step{Name: prepare, Needs: []graph.Condition{basesMayCome}, Gives: []graph.Condition{basesPrepared},
			Run: func(ctx context.Context) (err error) {
				prepared, err = s.fleet.Prepare(ctx, fleet.Set{}, number)
				return err
			},
			Undo: func(context.Context) error {
				if prepared != nil {
					prepared.Discard()
				}
				return nil
			},
		},
		graph.Step{Name: "Connecting " + plain.Count(number, "base"), Needs: []graph.Condition{controllersReady, basesPrepared}, Gives: []graph.Condition{connected},
			Run: func(ctx context.Context) error {
				p := prepared
				prepared = nil
				members, err := p.Start()
				if err != nil {
					return err
				}
				return s.fleet.WaitConnected(ctx, members...)
			},
		},
		wait,
	)
}

// controllerChanged tells of a controller in the cluster.
func (d *Daemon) controllerChanged(name string, state supervise.State, message string) {
	d.streams.component(time.Now(), name, state, message)
}

func waitingForNodes(n int) string {
	return fmt.Sprintf("Waiting for %s to be Ready", plain.Count(n, "Node"))
}

// waitNodes waits until every base of the sandbox's own has a Ready Node; what becomes of others,
// their owners watch. It is the controller that makes them, so its log tells why they are not.
func (d *Daemon) waitNodes(ctx context.Context, s *running) error {
	err := s.nodes.Wait(ctx, func() []string { return identities(s.fleet.Group("")) })
	return runner.WithLog(err, d.o.Dir.Log(runner.Name))
}
