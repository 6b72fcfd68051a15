package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/container"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// containerPlatform is a platform in whose network an engine can run containers.
type containerPlatform interface {
	Engine() *kind.Engine
}

func inContainers(config *v1alpha1.Sandbox) bool {
	return config.Spec.Bases.Runtime == v1alpha1.RuntimeContainer
}

// onNetwork tells whether others than this machine's processes use the broker, in
// the network of the cluster's nodes.
func onNetwork(config *v1alpha1.Sandbox) bool { return inCluster(config) || inContainers(config) }

// unreachable says what is at odds with a cluster that has no way to this machine.
func unreachable(config *v1alpha1.Sandbox) error {
	advice := "keep the bases here, with --base-runtime process"
	if inCluster(config) {
		advice = "keep the controller here, with --controller host"
	}
	return errors.New("this machine and the cluster do not reach each other, as with an engine in a virtual machine: " + advice)
}

func containerOptions(dir state.Dir, config *v1alpha1.Sandbox, engine *kind.Engine) container.Options {
	return container.Options{Engine: engine, Network: kind.Network, Sandbox: config.Metadata.Name, Dir: string(dir)}
}

// openContainers finds the engine that runs containers, if there is one, and removes
// what an earlier daemon has left there.
func (d *Daemon) openContainers(ctx context.Context) error {
	s := d.now()
	p, ok := s.platform.(containerPlatform)
	if !ok {
		return nil
	}
	o := containerOptions(d.o.Dir, s.config, p.Engine())
	o.Program = d.o.Programs.Base
	if onNetwork(s.config) {
		log, err := os.OpenFile(d.o.Dir.Log(fleetName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("opening the bases' log: %w", err)
		}
		o.Log = log
		d.made(func(s *sandbox) { s.baseLog = log })
	}
	engine := container.New(o)
	d.made(func(s *sandbox) { s.containers = engine })
	return engine.Sweep(ctx)
}

// containersOf tells the fleet where containers run and reach a broker; nil = nowhere.
func (d *Daemon) containersOf(m *mqtt) (*fleet.Containers, error) {
	s := d.now()
	if _, ok := s.platform.(containerPlatform); !ok || !onNetwork(s.config) {
		return nil, nil
	}
	ca, err := os.ReadFile(m.caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the broker's authority: %w", err)
	}
	heartbeats, err := d.hearts.open(d.life, s.platform.Host())
	if err != nil {
		return nil, err
	}
	return &fleet.Containers{Run: d.runContainer, Broker: "ssl://" + m.addr, BrokerCA: ca, Heartbeats: heartbeats}, nil
}

func (d *Daemon) runContainer(ctx context.Context, hostName string) (fleet.Container, error) {
	c, err := d.now().containers.Run(ctx, hostName)
	if err != nil {
		return nil, err // and no interface with a nil in it
	}
	return c, nil
}

// heartbeats finds who takes those of a base in a container.
func (d *Daemon) heartbeats(hostName string) (http.RoundTripper, error) {
	f := d.now().fleet
	if f == nil {
		return nil, notUp()
	}
	return f.Beat(hostName)
}
