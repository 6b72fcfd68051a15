package daemon

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/pods"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// phase is one phase of bringing up a sandbox. It blocks until the phase is complete or ctx ends.
type phase func(ctx context.Context) error

// phases returns a phase that brings up the whole sandbox. Bases connect last, when the controllers are ready,
// because a base reports some data only when it connects.
func (b *bringUp) phases() phase {
	return inOrder(
		b.prepareCluster,
		concurrentPhases(b.startAPI, b.checkBroker, b.loadControllerImage),
		b.openBroker,
		b.assemble,
		b.startServices,
		concurrentPhases(
			b.completeCluster,
			inOrder(
				concurrentPhases(b.admitControllers, b.startFleet),
				concurrentPhases(b.startControllers, b.prepareBases),
				b.connectBases,
			),
		),
		b.waitForNodes,
	)
}

func inOrder(phases ...phase) phase {
	return func(ctx context.Context) error {
		for _, p := range phases {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := p(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// concurrentPhases returns a phase that runs the given phases concurrently. The first failure cancels the other phases.
func concurrentPhases(phases ...phase) phase {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, p := range phases {
			group.Go(func() error { return p(ctx) })
		}
		return group.Wait()
	}
}

type bringUp struct {
	*assembly // filled in by the phases
	d         *Daemon
	steps     *progress.Steps
	request   control.UpRequest
	config    *v1alpha1.Sandbox
	client    kubernetes.Interface // API client of the cluster
	external  *broker.External     // nil without an external broker
	pods      *pods.Pods           // nil if no base runs in a Pod
	// podImage is the image for bases in Pods, which is loaded onto the nodes; nil if the nodes pull the image.
	podImage *image.Image
	services []service
	prepared []*fleet.Prepared
	// listenerCtx is the context of listeners that are opened on demand.
	listenerCtx context.Context
	// clientIDPrefix is the prefix of the controllers' CLIENT_ID.
	clientIDPrefix string
}

type service struct {
	name  string
	start func(context.Context) error
}

// bringUp runs the first up. If it fails, the caller must call stop, which reverts the phases that have run.
func (d *Daemon) bringUp(ctx context.Context, steps *progress.Steps, r control.UpRequest) error {
	b := &bringUp{d: d, steps: steps, request: r, config: r.Config, assembly: &assembly{}}
	if b.config.Spec.Controller.Location == "" && EffectiveProvider(b.config) != v1alpha1.ProviderKind {
		b.config.Spec.Controller.Location = v1alpha1.LocationHost
	}
	if err := d.saveConfig(b.config); err != nil {
		return err
	}
	var err error
	b.cluster, err = d.o.open(clusterOptions{
		dir: d.o.Dir, config: b.config, programs: d.o.Binaries, supervisor: d.supervisor, notify: steps.Note,
		log: d.log,
	})
	if err != nil {
		return err
	}
	d.setComponents(clusterSet, b.cluster.ComponentSet())
	err = b.phases()(ctx)
	if ctx.Err() != nil { // report the reason of the cancellation, not its effect on a phase
		return context.Cause(ctx)
	}
	return err
}

func (b *bringUp) prepareCluster(ctx context.Context) error {
	return b.runSteps(ctx, b.cluster.Steps().Prepare)
}

func (b *bringUp) startAPI(ctx context.Context) error {
	return b.runSteps(ctx, b.cluster.Steps().Start)
}

func (b *bringUp) completeCluster(ctx context.Context) error {
	return b.runSteps(ctx, b.cluster.Steps().Complete)
}

// runSteps runs steps of bringing up a cluster, and registers their undo functions. A failed up does not undo the
// steps in an adopted cluster.
func (b *bringUp) runSteps(ctx context.Context, steps []cluster.Step) error {
	d := b.d
	for _, s := range steps {
		if s.Undo != nil {
			d.onStop(func(ctx context.Context) error {
				if b.cluster.Properties().Adopted && errors.Is(d.stopCause(), errUpFailed) {
					return errClusterKept
				}
				return s.Undo(ctx)
			})
		}
		if err := b.runStep(ctx, s.Name, s.Run); err != nil {
			return err
		}
	}
	return nil
}

// checkBroker checks the external broker before controllers and bases connect to it.
func (b *bringUp) checkBroker(ctx context.Context) error {
	spec := b.config.Spec
	if spec.Broker.URL == "" {
		return nil
	}
	return b.runStep(ctx, "Checking broker "+spec.Broker.URL, func(ctx context.Context) (err error) {
		b.external, err = broker.NewExternal(spec.Broker, b.request.BrokerPassword)
		if err != nil {
			return err
		}
		o := broker.CheckOptions{Env: spec.Env, ClientPrefix: clientPrefix}
		if !b.request.OwnEnv && !spec.Broker.Consent {
			o.IdleWait = broker.IdleWait
		}
		return b.external.Check(ctx, o)
	})
}

// loadControllerImage loads the controller image onto the nodes. It does nothing if the controllers cannot run on
// these nodes.
func (b *bringUp) loadControllerImage(ctx context.Context) error {
	nodes, location := b.cluster.Properties().Nodes, b.config.Spec.Controller.Location
	binary := b.d.o.Binaries.Controller
	possible := location == v1alpha1.LocationCluster || location == "" && incluster.CheckBinary(binary) == nil
	if nodes == nil || !possible {
		return nil
	}
	return incluster.Load(ctx, nodes, binary, string(b.d.o.Dir))
}

// openBroker decides where the controllers run, and opens the broker link at an address that controllers and bases
// can reach.
func (b *bringUp) openBroker(ctx context.Context) error {
	d := b.d
	return b.runStep(ctx, "Starting broker", func(ctx context.Context) (err error) {
		b.config = resolveLocation(b.config, b.cluster.Properties(), d.o.Binaries.Controller, b.steps.Note)
		if err := d.saveConfig(b.config); err != nil {
			return err
		}
		b.topology = newTopology(b.config, b.cluster.Properties())
		b.link, err = b.newBrokerLink()
		if err != nil {
			return err
		}
		d.onStop(func(context.Context) error { return b.link.Close() })
		return b.link.Open(ctx)
	})
}

func (b *bringUp) startServices(ctx context.Context) error {
	for _, s := range b.services {
		b.d.startService(ctx, s)
	}
	return nil
}

// admitControllers grants the controllers their permissions, and removes the objects that an earlier, killed daemon
// left in the cluster.
func (b *bringUp) admitControllers(ctx context.Context) error {
	b.d.onStop(func(ctx context.Context) error { return b.cluster.CleanUp(ctx, b.fleet.StartedIdentities()) })
	if len(b.config.Spec.Controller.Command) > 0 || b.topology.Controllers == otherCluster {
		return b.cluster.RemoveLeftovers(ctx) // a custom command and the Deployment have permissions of their own
	}
	return b.runStep(ctx, "Granting permissions to the controller",
		inOrder(b.cluster.AuthorizeController, b.cluster.RemoveLeftovers))
}

// startFleet starts the fleet and creates the Pods for bases. If no bases run in Pods, it removes the Pods that an
// earlier daemon left in the cluster.
func (b *bringUp) startFleet(ctx context.Context) error {
	label, err := b.d.o.Dir.Label()
	if err != nil {
		return err
	}
	removePods := func(ctx context.Context) error { return pods.Remove(ctx, b.client, label) }
	if b.pods == nil {
		err = removePods(ctx)
	} else {
		b.d.onStop(removePods)
		err = b.createPods(ctx)
	}
	if err != nil {
		return err
	}
	b.d.startService(ctx, service{"fleet", b.fleet.Start})
	return nil
}

func (b *bringUp) createPods(ctx context.Context) error {
	if b.podImage != nil {
		if err := b.cluster.Properties().Nodes.Load(ctx, b.podImage); err != nil {
			return err
		}
	}
	agent := b.config.Spec.Fleet.AgentImage != ""
	if agent {
		if err := b.pods.EnsureAgent(ctx); err != nil {
			return err
		}
	}
	if err := b.pods.Ensure(ctx, b.pods.PodCount(b.config.Spec.BaseCount())); err != nil {
		return err
	}
	b.d.startService(ctx, service{"Pods of bases", b.pods.Start})
	if agent {
		return b.runStep(ctx, "Starting the traffic agent", b.pods.WaitAgent)
	}
	return nil
}

func (b *bringUp) startControllers(ctx context.Context) error {
	name := "Starting module-controller"
	if n := *b.config.Spec.Controller.Replicas; n > 1 {
		name = "Starting " + plain.Count(n, "module-controller")
	}
	b.d.onStop(func(ctx context.Context) error { return b.runner.StopAll(ctx, b.cluster.Properties().Ephemeral) })
	return b.runStep(ctx, name, func(ctx context.Context) error {
		return b.d.setControllers(ctx, control.ControllerRequest{})
	})
}

// prepareBases prepares the bases and blocks until their Pods are ready. Bases in the daemon process need no Pods.
func (b *bringUp) prepareBases(ctx context.Context) error {
	prepare := func(ctx context.Context) error {
		for _, set := range b.config.Spec.Bases {
			prepared, err := b.fleet.Prepare(ctx, fleet.Set{Name: set.Name}, *set.Count)
			if err != nil {
				return err
			}
			b.prepared = append(b.prepared, prepared)
		}
		return nil
	}
	b.d.onStop(func(context.Context) error {
		for _, p := range b.prepared {
			p.Discard()
		}
		return nil
	})
	if b.pods == nil {
		return prepare(ctx)
	}
	return b.runStep(ctx, "Starting "+plain.Count(b.pods.PodCount(b.config.Spec.BaseCount()), "Pod")+" for bases",
		prepare)
}

func (b *bringUp) connectBases(ctx context.Context) error {
	return b.runStep(ctx, "Connecting "+plain.Count(b.config.Spec.BaseCount(), "base"),
		func(ctx context.Context) error {
			var members []*fleet.Member
			for len(b.prepared) > 0 {
				first := b.prepared[0]
				b.prepared = b.prepared[1:]
				started, err := first.Start()
				if err != nil {
					return err
				}
				members = append(members, started...)
			}
			return b.fleet.WaitConnected(ctx, members...)
		})
}

func (b *bringUp) waitForNodes(ctx context.Context) error {
	return b.runStep(ctx, waitingForNodes(b.config.Spec.BaseCount()),
		func(ctx context.Context) error { return b.d.waitNodes(ctx, b.assembly) })
}

func waitingForNodes(n int) string {
	return fmt.Sprintf("Waiting for %s to be Ready", plain.Count(n, "Node"))
}

// waitNodes waits until every base outside groups has a Ready Node. The error includes the last log lines of the
// controller, because the controller creates the Nodes.
func (d *Daemon) waitNodes(ctx context.Context, s *assembly) error {
	err := s.nodes.Wait(ctx, func() []string { return identities(s.fleet.Group("")) })
	return runner.WithLog(err, d.o.Dir.Log(runner.Name))
}

func (b *bringUp) runStep(ctx context.Context, name string, run func(context.Context) error) error {
	return b.d.runStep(ctx, b.steps, name, run)
}

// runStep runs one step with the step timeout from the configuration.
func (d *Daemon) runStep(ctx context.Context, steps *progress.Steps, name string,
	run func(context.Context) error) error {
	limited, cancel := d.withStepTimeout(ctx)
	defer cancel()
	return steps.Step(limited, name, func(limited context.Context) error {
		err := run(limited)
		if err != nil && ctx.Err() != nil { // the step was cancelled
			return fmt.Errorf("cancelled: %w", context.Cause(ctx))
		}
		return err
	})
}

// withStepTimeout returns a context that ends after the step timeout from the configuration.
func (d *Daemon) withStepTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := d.configNow().Spec.Wait.Duration
	return context.WithTimeoutCause(ctx, wait, fmt.Errorf("timed out after %s (see --wait)", wait))
}

// startService starts a service in the background. stop cancels the service and waits until it has returned.
func (d *Daemon) startService(ctx context.Context, s service) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	d.onStop(func(context.Context) error {
		end()
		<-ended
		return nil
	})
	go func() {
		defer close(ended)
		if err := s.start(ctx); err != nil {
			d.log.Error("service failed", "service", s.name, "err", err)
		}
	}()
}

// onStop registers an undo function. stop calls the registered functions in reverse order. Call onStop before the
// action that undo reverts, because an action that fails may be partly complete.
func (d *Daemon) onStop(undo func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undo = append(d.undo, undo)
}

// saveConfig stores the effective configuration in memory and in the state directory.
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
