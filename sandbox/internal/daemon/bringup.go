package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/graph"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// What the steps of the daemon give, besides those of the cluster.
const (
	brokerChecked    graph.Condition = "the user's broker was tried"
	imageLoaded      graph.Condition = "the nodes have the controller's image"
	brokerListens    graph.Condition = "the broker listens"
	heartsBeat       graph.Condition = "heartbeats are relayed"
	podsFollowed     graph.Condition = "the Pods of bases are there"
	basesMayCome     graph.Condition = "the fleet runs"
	basesPrepared    graph.Condition = "what the bases run in has started"
	rightsGranted    graph.Condition = "the controller has its rights"
	runnerFollows    graph.Condition = "the runner follows the controllers"
	controllersReady graph.Condition = "the controllers are ready"
	connected        graph.Condition = "the bases are connected"
)

// bringUp makes everything, for the first time. What it has made when it fails is left to stop.
//
//	check the user's broker ─┐                        ┌─ rights ──────────┐
//	cluster: API answers ────┴─ broker ─ assemble ────┼─ fleet ───────────┴─ controllers ─ bases ─┬─ Nodes
//	   │  └─ load the controller's image ─────────────│─ prepare bases ────────────────────────┘  │
//	   └─ the rest of the cluster ────────────────────────────────────────────────────────────────┘
//
// The bases connect when the controllers are ready and listen: what a base says on connecting, it
// says once. Where they are a crowd, the rest of the cluster waits for their Nodes.
func (d *Daemon) bringUp(ctx context.Context, steps *progress.Steps, r control.UpRequest) error {
	config := r.Config
	if config.Spec.Controller.Location == "" && EffectiveProvider(config) != v1alpha1.ProviderKind {
		config.Spec.Controller.Location = v1alpha1.LocationHost
	}
	if err := d.saveConfig(config); err != nil {
		return err
	}
	b := &firstUp{d: d, steps: steps, request: r}
	var late []graph.Condition
	var nodeGrace time.Duration
	if b.crowded() {
		b.populated, late, nodeGrace = make(chan struct{}), []graph.Condition{cluster.Populated}, crowdNodeGrace
	}
	c, err := d.o.open(clusterOptions{
		dir: d.o.Dir, config: config, programs: d.o.Programs, supervisor: d.supervisor, late: late, nodeGrace: nodeGrace, note: steps.Note, log: d.log,
	})
	if err != nil {
		return err
	}
	d.show(clusterPart, c.Part())
	b.cluster = c
	if err := d.graph.Add(b.first()...); err != nil {
		return err
	}
	return d.graph.Run(ctx, func(ctx context.Context, s graph.Step) error {
		if s.Name == "" {
			return s.Run(ctx)
		}
		return d.step(ctx, steps, s.Name, s.Run)
	})
}

// crowd is from how many bases on an embedded cluster is complete only when their Nodes are there. While 10,000 came, an
// eighth of all processor time went into what Kubernetes' controller of EndpointSlices does for each new Node: it
// looks at all of them.
const crowd = 2000

// crowdNodeLease and crowdNodeGrace are for how long the Lease of a Node of a crowd is good, and how long Kubernetes waits for
// one. With the usual 40 s those of 10,000 Nodes are 500 writes a second, most of what two processors can do.
const (
	crowdNodeLease = 5 * time.Minute
	crowdNodeGrace = 330 * time.Second
)

func (b *firstUp) crowded() bool {
	spec := b.request.Config.Spec
	return EffectiveProvider(b.request.Config) == v1alpha1.ProviderEmbedded && max(*spec.Bases.Count, b.request.Expect) >= b.d.o.crowd
}

// firstUp is what the steps of one bring-up share. Each field is written by one step, and read by
// those that need what it gives.
type firstUp struct {
	d          *Daemon
	steps      *progress.Steps
	request    control.UpRequest
	cluster    Cluster
	external   *broker.External // the user's broker, if there is one
	link       *broker.Link
	topology   Topology
	faults     *fault.Set
	mqttFaults *mqttfault.View
	// populated is closed when the bases have their Nodes; nil where nothing of the cluster waits for that.
	populated chan struct{}
}

// first are the steps before it is known where the controllers run.
func (b *firstUp) first() []graph.Step {
	d := b.d
	all := b.cluster.Steps()
	for i := range all {
		if undo := all[i].Undo; undo != nil {
			all[i].Undo = func(ctx context.Context) error {
				if b.cluster.Properties().Adopted && errors.Is(d.ends(), errUpFailed) {
					return errLeft // an up that fails loses nothing that was there before
				}
				return undo(ctx)
			}
		}
	}
	if b.populated != nil {
		all = append(all, graph.Step{Gives: []graph.Condition{cluster.Populated}, Run: func(ctx context.Context) error {
			select {
			case <-b.populated:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}})
	}
	linkNeeds := []graph.Condition{cluster.Answers}
	if url := b.request.Config.Spec.Broker.URL; url != "" {
		all = append(all, graph.Step{Name: "Checking broker " + url, Gives: []graph.Condition{brokerChecked}, Run: b.checkBroker})
		linkNeeds = append(linkNeeds, brokerChecked)
	}
	if nodes := b.cluster.Properties().Nodes; nodes != nil && b.request.Config.Spec.Controller.Location != v1alpha1.LocationHost {
		all = append(all, graph.Step{Needs: []graph.Condition{cluster.Prepared}, Gives: []graph.Condition{imageLoaded}, Run: func(ctx context.Context) error {
			// Where the controller may yet come to run on this machine, a program without an image
			// is none.
			open := b.request.Config.Spec.Controller.Location == ""
			if program := d.o.Programs.Controller; !open || incluster.CheckProgram(program) == nil {
				return incluster.Load(ctx, nodes, program, string(d.o.Dir))
			}
			return nil
		}})
	}
	return append(all,
		graph.Step{Name: "Starting broker", Needs: linkNeeds, Gives: []graph.Condition{brokerListens}, Run: b.openBroker, Undo: b.closeBroker},
		graph.Step{Needs: []graph.Condition{brokerListens}, Run: func(ctx context.Context) error {
			all, err := b.assemble(ctx)
			if err != nil {
				return err
			}
			return d.graph.Add(all...)
		}})
}

// checkBroker tries the user's broker before anything of the sandbox speaks there.
func (b *firstUp) checkBroker(ctx context.Context) (err error) {
	spec := b.request.Config.Spec
	if b.external, err = broker.NewExternal(spec.Broker, b.request.BrokerPassword); err != nil {
		return err
	}
	o := broker.CheckOptions{Env: spec.Env, ClientPrefix: clientPrefix}
	if !b.request.OwnEnv && !spec.Broker.Consent {
		o.AloneFor = broker.AloneFor
	}
	return b.external.Check(ctx, o)
}

// openBroker decides where the controllers run, since the broker listens where they reach it, and
// opens the broker's port.
func (b *firstUp) openBroker(ctx context.Context) error {
	d := b.d
	config := resolveLocation(d.configNow(), b.cluster.Properties(), d.o.Programs.Controller, b.steps.Note)
	if err := d.saveConfig(config); err != nil {
		return err
	}
	b.topology = newTopology(config, b.cluster.Properties())
	at, err := b.topology.BrokerHost()
	if err != nil {
		return err
	}
	b.faults = fault.NewSet(d.streams.fault)
	b.mqttFaults = mqttfault.New(mqttfault.Options{Who: d.client, Faults: b.faults, Kill: d.killController})
	o := broker.LinkOptions{
		View: b.mqttFaults, Bypassed: b.topology.BrokerBypassed(),
		Host: at, Port: config.Spec.Broker.Port, Env: config.Spec.Env, ClientPrefix: clientPrefix, To: b.external, Note: d.o.Dir.Broker(),
		Logger: d.log.With("component", broker.Component), Changed: d.brokerChanged,
	}
	if config.Spec.Broker.TLS {
		o.Serving = b.cluster.Serving
	}
	link, err := broker.NewLink(o)
	if err != nil {
		return err
	}
	b.link = link
	return link.Open(ctx)
}

func (b *firstUp) closeBroker(context.Context) error {
	if b.link == nil {
		return nil
	}
	return b.link.Close()
}

// saveConfig notes the effective configuration, here and in the state folder.
func (d *Daemon) saveConfig(config *v1alpha1.Sandbox) error {
	d.mu.Lock()
	d.config = config
	d.mu.Unlock()
	text, err := yaml.Marshal(config)
	if err == nil {
		err = state.WriteFile(d.o.Dir.Config(), text)
	}
	if err != nil {
		return fmt.Errorf("writing the effective configuration: %w", err)
	}
	return nil
}

// step runs one step with the time limit of the configuration.
func (d *Daemon) step(ctx context.Context, steps *progress.Steps, name string, run func(context.Context) error) error {
	wait := d.configNow().Spec.Wait.Duration
	limited, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("not within %s (see --wait)", wait))
	defer cancel()
	return steps.Step(limited, name, func(limited context.Context) error {
		err := run(limited)
		if err != nil && ctx.Err() != nil { // this step is not to blame
			return fmt.Errorf("given up: %w", context.Cause(ctx))
		}
		return err
	})
}

// apart is what keeps the environments of bases apart from those of others on a broker of the user's.
func apart(config *v1alpha1.Sandbox) string {
	if config.Spec.Broker.URL == "" {
		return ""
	}
	return "-" + strings.ToLower(rand.Text()[:8])
}
