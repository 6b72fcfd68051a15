package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
	"github.com/koupleless/koupsandbox/sandbox/internal/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// deployedTime bounds the question how a controller in the cluster is.
const deployedTime = 2 * time.Second

var errUnreachable = errors.New("the cluster cannot reach this machine, whose engine is in a virtual machine: keep the controller here, with --controller host")

func inCluster(config *v1alpha1.Sandbox) bool {
	return config.Spec.Controller.Location == v1alpha1.LocationCluster
}

// imageTaker is a platform whose nodes can be given an image.
type imageTaker interface {
	Load(ctx context.Context, b *image.Built) error
}

// deployControllers brings the controller in the cluster to a configuration and waits until its Pods are ready.
func (d *Daemon) deployControllers(ctx context.Context, config v1alpha1.Controller) error {
	s := d.now()
	if s.deployed == nil {
		if err := d.loadController(ctx); err != nil {
			return err
		}
	}
	o, err := d.deployOptions(config)
	if err != nil {
		return err
	}
	c, err := incluster.New(o)
	if err != nil {
		return err
	}
	d.made(func(s *sandbox) { s.deployed = c })
	if s.deployed == nil {
		if err := d.followController(c); err != nil {
			return err
		}
	}
	return c.Ensure(ctx)
}

// loadController gives the nodes the image of the controller's program.
func (d *Daemon) loadController(ctx context.Context) error {
	nodes, ok := d.now().platform.(imageTaker)
	if !ok {
		return errors.New("the nodes of this provider cannot be given the controller's image: use --controller host")
	}
	built, err := incluster.BuildImage(d.o.Programs.Controller, string(d.o.Dir))
	if err != nil {
		return err
	}
	return nodes.Load(ctx, built)
}

func (d *Daemon) deployOptions(config v1alpha1.Controller) (incluster.Options, error) {
	s := d.now()
	host, port, err := net.SplitHostPort(s.mqtt.addr)
	if err != nil {
		return incluster.Options{}, fmt.Errorf("reading the broker's address: %w", err)
	}
	brokerCA, err := os.ReadFile(s.mqtt.caFile)
	if err != nil {
		return incluster.Options{}, fmt.Errorf("reading the broker's authority: %w", err)
	}
	clientCA, err := os.ReadFile(s.platform.KubeletClientCA())
	if err != nil {
		return incluster.Options{}, fmt.Errorf("reading the authority of the API server: %w", err)
	}
	if d.kubelet.Cert == nil { // another would start the Pods anew
		if d.kubelet.Cert, d.kubelet.Key, _, err = s.platform.Serving(controllerName); err != nil {
			return incluster.Options{}, err
		}
		d.kubelet.ClientCA = clientCA
	}
	return incluster.Options{
		Config: s.platform.Cluster().Config, Replicas: *config.Replicas, Env: s.config.Spec.Env, Settings: config.Env,
		Broker:  incluster.Broker{Host: host, Port: port, Username: s.mqtt.controller.user, Password: s.mqtt.controller.password, CA: brokerCA},
		Kubelet: d.kubelet,
	}, nil
}

// followController writes what the Pods log to the controller's log, until the sandbox ends.
func (d *Daemon) followController(c *incluster.Controller) error {
	log, err := os.OpenFile(d.o.Dir.Log(controllerName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the controller's log: %w", err)
	}
	d.parts.Go(func() {
		defer func() { _ = log.Close() }() // each line is written by then
		c.Follow(d.life, log)
	})
	return nil
}

// deployedComponent is the controller in the cluster as a component.
func (d *Daemon) deployedComponent(ctx context.Context, c *incluster.Controller) control.Component {
	ctx, cancel := context.WithTimeout(ctx, deployedTime)
	defer cancel()
	state := c.State(ctx)
	component := control.Component{
		Name: controllerName, State: string(supervise.Running), Ready: state.Ready == state.Wanted && state.Wanted > 0,
		StartedAt: state.Since, Log: d.o.Dir.Log(controllerName), Reason: state.Reason,
	}
	switch {
	case component.Ready:
	case state.Wanted == 0:
		component.State, component.Reason = string(supervise.Exited), "stopped"
	case state.Ready == 0:
		component.State = string(supervise.Exited)
	}
	return component
}

// actOnDeployed does something to the controller in the cluster. What is killed there the cluster starts again.
func (d *Daemon) actOnDeployed(ctx context.Context, c *incluster.Controller, action control.Action) error {
	ctx, cancel := context.WithTimeout(ctx, d.now().config.Spec.Wait.Duration)
	defer cancel()
	switch action {
	case control.Kill:
		return c.Kill(ctx)
	case control.Stop:
		return c.Scale(ctx, 0)
	case control.Start:
		return d.setControllers(ctx, d.now().controllers)
	case control.Restart:
		return c.Restart(ctx)
	default:
		return &control.Error{Code: http.StatusConflict, Message: fmt.Sprintf(
			"%s cannot be told to %s in the cluster: use kill, stop, start or restart, or --controller host", controllerName, action)}
	}
}
