package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// lastLines is how much of a component's log goes into an error.
const lastLines = 10

// bringUp makes everything, for the first time. What it has made when it fails
// is left to tearDown.
//
//	broker ────────────────────┐
//	API ── rights ── controller ┴── bases ── Nodes
//	   └── the rest of the platform ───────┘
//
// The image of a controller in the cluster is given to the nodes while the API starts.
// The bases connect when the controller is ready and listens: what a base says
// on connecting, it says once.
func (d *Daemon) bringUp(ctx context.Context, steps *progress.Steps, r control.UpRequest) error {
	config := r.Config
	if config.Spec.Controller.Location == "" && EffectiveProvider(config) != v1alpha1.ProviderKind {
		config.Spec.Controller.Location = v1alpha1.LocationHost
	}
	if err := d.saveConfig(config); err != nil {
		return err
	}
	platform, err := d.o.platform(d, config, steps.Note)
	if err != nil {
		return err
	}
	d.made(func(s *sandbox) { s.config, s.platform = config, platform })

	group, gctx := errgroup.WithContext(ctx)
	prepared := make(chan struct{}) // closed after the platform's first step, or when the API answers if the broker needs that
	rest := make(chan error, 1)
	mqttUp := make(chan struct{})
	group.Go(func() error {
		if err := d.bringUpBroker(gctx, steps, prepared, r); err != nil {
			return err
		}
		close(mqttUp)
		return nil
	})
	group.Go(func() error {
		api := platform.API()
		first := 0
		mayBeThere := config.Spec.Controller.Location != v1alpha1.LocationHost
		if mayBeThere || inContainers(config) { // the broker may have to listen on the cluster's network
			first = len(api) - 1
		}
		for i, s := range api {
			if err := d.step(gctx, steps, s.Name, s.Run); err != nil {
				return err
			}
			if i == 0 && mayBeThere {
				group.Go(func() error { d.image <- d.loadController(gctx); return nil })
			}
			if i == len(api)-1 {
				if err := d.settleLocation(steps.Note); err != nil {
					return err
				}
			}
			if i == first {
				close(prepared)
			}
		}
		if err := d.openContainers(gctx); err != nil {
			return err
		}
		group.Go(func() error {
			for _, s := range platform.Rest() {
				if err := d.step(gctx, steps, s.Name, s.Run); err != nil {
					rest <- err
					return err
				}
			}
			rest <- nil
			return nil
		})
		if err := d.bringUpController(gctx, steps, mqttUp); err != nil {
			return err
		}
		if err := d.scaleTo(gctx, steps, *config.Spec.Bases.Count); err != nil {
			return err
		}
		select { // Nodes get Ready only with the rest of the platform
		case err := <-rest:
			if err != nil {
				return err
			}
		case <-gctx.Done():
			return context.Cause(gctx)
		}
		return d.waitNodes(gctx, steps)
	})
	return group.Wait()
}

func (d *Daemon) saveConfig(config *v1alpha1.Sandbox) error {
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
	wait := d.now().config.Spec.Wait.Duration
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

func (d *Daemon) bringUpBroker(ctx context.Context, steps *progress.Steps, prepared <-chan struct{}, r control.UpRequest) error {
	if spec := d.now().config.Spec; spec.Broker.TLS || spec.Controller.Location == "" {
		select {
		case <-prepared:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s := d.now()
	o := mqttOptions{dir: d.o.Dir, config: s.config, platform: s.platform, log: d.log.With("component", brokerName), changed: d.brokerChanged}
	apart := ""
	if s.config.Spec.Broker.URL != "" {
		if err := d.step(ctx, steps, "Checking broker "+s.config.Spec.Broker.URL, func(ctx context.Context) (err error) {
			o.external, err = checkBroker(ctx, r)
			return err
		}); err != nil {
			return err
		}
		apart = "-" + strings.ToLower(rand.Text()[:8])
	}
	return d.step(ctx, steps, "Starting broker", func(ctx context.Context) error {
		m, err := newMQTT(ctx, o)
		if err != nil {
			return err
		}
		bases := s.config.Spec.Bases
		containers, err := d.containersOf(m)
		if err != nil {
			return errors.Join(err, m.stop())
		}
		f := fleet.New(fleet.Options{
			Own:         v1alpha1.BaseSet{BaseName: bases.Name, Version: bases.Version, Activation: bases.Activation, Runtime: bases.Runtime},
			ClusterName: bases.ClusterName, Env: s.config.Spec.Env,
			Apart: apart, Username: m.base.user, Password: m.base.password,
			Dial: m.dial,
			Beat: d.hearts, Containers: containers,
			Logger: d.log.With("component", fleetName),
		})
		d.parts.Go(func() {
			if err := f.Start(d.life); err != nil {
				d.log.Error("fleet ended", "err", err)
			}
		})
		d.made(func(s *sandbox) { s.mqtt, s.fleet = m, f })
		return nil
	})
}

// checkBroker tries the user's broker before anything of the sandbox speaks there.
func checkBroker(ctx context.Context, r control.UpRequest) (*broker.External, error) {
	spec := r.Config.Spec
	e, err := broker.NewExternal(spec.Broker, r.BrokerPassword)
	if err != nil {
		return nil, err
	}
	o := broker.CheckOptions{Env: spec.Env, ClientPrefix: clientPrefix}
	if !r.OwnEnv && !spec.Broker.Consent {
		o.AloneFor = broker.AloneFor
	}
	return e, e.Check(ctx, o)
}

func (d *Daemon) bringUpController(ctx context.Context, steps *progress.Steps, mqttUp <-chan struct{}) error {
	s := d.now()
	c := s.platform.Cluster()
	client, err := s.platform.Client()
	if err != nil {
		return err
	}
	nodes := newNodes(client, s.config.Spec.Env)
	d.made(func(s *sandbox) { s.nodes, s.version = nodes, c.Version })
	d.parts.Go(func() {
		if err := nodes.run(d.life); err != nil {
			d.log.Error("following the Nodes ended", "err", err)
		}
	})
	if p, ok := s.platform.(guardedPlatform); ok {
		d.parts.Go(func() { p.GuardNodes(d.life) })
	}
	if err := d.bringUpGateway(client); err != nil {
		return err
	}
	if err := d.step(ctx, steps, "Granting the controller its rights", func(ctx context.Context) error {
		kubeconfig, err := s.platform.Admit(ctx)
		d.made(func(s *sandbox) { s.kubeconfig = kubeconfig })
		if err != nil {
			return err
		}
		return removeEarlier(ctx, s.platform, client, s.config)
	}); err != nil {
		return err
	}
	select {
	case <-mqttUp:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	name := "Starting module-controller"
	if n := *s.config.Spec.Controller.Replicas; n > 1 {
		name = fmt.Sprintf("Starting %d module-controllers", n)
	}
	return d.step(ctx, steps, name, func(ctx context.Context) error {
		return d.setControllers(ctx, control.ControllerRequest{})
	})
}

// waitNodes waits until every base has a Ready Node. It is the controller that
// makes them, so its log tells why they are not.
func (d *Daemon) waitNodes(ctx context.Context, steps *progress.Steps) error {
	s := d.now()
	total := s.fleet.Count().Own // what becomes of others, their owners watch
	return d.step(ctx, steps, fmt.Sprintf("Waiting for %s to be Ready", count(total, "Node")), func(ctx context.Context) error {
		return d.withLog(s.nodes.wait(ctx, func() []string { return identities(s.fleet.Group("")) }))
	})
}

// withLog adds to an error the last that the controller has said.
func (d *Daemon) withLog(err error) error {
	log := d.o.Dir.Log(controllerName)
	if lines := state.Tail(log, lastLines); err != nil && len(lines) > 0 {
		err = fmt.Errorf("%w\nlast lines of %s:\n  %s", err, log, strings.Join(lines, "\n  "))
	}
	return err
}

// tearDown stops everything that was started. Nobody changes the sandbox any more.
func (d *Daemon) tearDown(ctx context.Context) error {
	s := d.now()
	// The controller first: the end of everything else would only alarm it.
	err := d.endControllers(ctx)
	var platformErr error
	d.parts.Go(func() {
		switch {
		case s.platform == nil:
		case d.leaves(s.platform):
			platformErr = errLeft
		default:
			platformErr = s.platform.Down(ctx)
		}
	})
	d.endLife()
	if s.mqtt != nil {
		err = errors.Join(err, s.mqtt.stop())
	}
	d.parts.Wait()
	d.hearts.wait()
	if s.baseLog != nil {
		err = errors.Join(err, s.baseLog.Close())
	}
	// What no part knows of, if anything.
	return errors.Join(err, platformErr, d.supervisor.StopAll(ctx))
}

// count writes "1 Node" or "3 Nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
