package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
	"github.com/koupleless/koupsandbox/sandbox/internal/incluster"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

var errNoNodes = errors.New("the nodes of this provider cannot be given the controller's image: use --controller host")

// nodesPlatform is a platform whose nodes are the sandbox's own, so that a controller can run in them.
type nodesPlatform interface {
	incluster.Containers
	// Load gives an image to every node.
	Load(ctx context.Context, b *image.Built) error
}

func inCluster(config *v1alpha1.Sandbox) bool {
	return config.Spec.Controller.Location == v1alpha1.LocationCluster
}

// settleLocation decides where the controller runs if the configuration leaves that open: in the cluster, unless something speaks against it,
// which a person is told. The API of the platform answers.
func (d *Daemon) settleLocation(note func(string)) error {
	s := d.now()
	if s.config.Spec.Controller.Location != "" {
		return nil
	}
	settled := *s.config
	settled.Spec.Controller.Location = v1alpha1.LocationCluster
	if err := incluster.CheckProgram(d.o.Programs.Controller); err != nil {
		settled.Spec.Controller.Location = v1alpha1.LocationHost
		note("the controller runs on this machine: " + err.Error())
	} else if s.platform.Host() == "" {
		settled.Spec.Controller.Location = v1alpha1.LocationHost
		note("the controller runs on this machine: the cluster and this machine do not reach each other, as with an engine in a virtual machine")
	}
	v1alpha1.SetDefaults(&settled)
	d.made(func(s *sandbox) { s.config = &settled })
	return d.saveConfig(&settled)
}

// deployControllers brings the controllers in the cluster to a configuration and waits until their Pods are ready.
func (d *Daemon) deployControllers(ctx context.Context, config v1alpha1.Controller) error {
	c := d.now().deployed
	if c == nil {
		var err error
		if c, err = d.newDeployed(); err != nil {
			return err
		}
		select {
		case err := <-d.image:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("giving the controller's image to the nodes: %w", context.Cause(ctx))
		}
		d.made(func(s *sandbox) { s.deployed = c })
	}
	settings, err := d.deployedSettings(config)
	if err != nil {
		return err
	}
	return d.withLog(c.Ensure(ctx, settings))
}

// newDeployed makes the controller in the cluster, whose Pods are followed until the sandbox ends.
func (d *Daemon) newDeployed() (*incluster.Controller, error) {
	s := d.now()
	nodes, ok := s.platform.(nodesPlatform)
	if !ok {
		return nil, errNoNodes
	}
	log, err := os.OpenFile(d.o.Dir.Log(controllerName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the controller's log: %w", err)
	}
	c, err := incluster.New(incluster.Options{
		Config: s.platform.Cluster().Config, Containers: nodes, Log: log, Changed: d.replicaChanged,
	})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	d.parts.Go(func() {
		defer func() { _ = log.Close() }() // each line is written by then
		if err := c.Start(d.life); err != nil {
			d.log.Error("following the controller ended", "err", err)
		}
	})
	return c, nil
}

// replicaChanged tells of a controller in the cluster, and leads heartbeats to where it is now.
func (d *Daemon) replicaChanged(c incluster.Change) {
	d.hearts.set(incluster.NameOf(c.Number), c.Heartbeats)
	d.streams.component(timeline.Event{Time: time.Now(), Name: incluster.NameOf(c.Number), State: string(c.State), Message: c.Message})
}

// loadController gives the nodes the image of the controller's program.
func (d *Daemon) loadController(ctx context.Context) error {
	built, err := incluster.BuildImage(d.o.Programs.Controller, string(d.o.Dir))
	if err != nil {
		return err
	}
	nodes, ok := d.now().platform.(nodesPlatform)
	if !ok {
		return errNoNodes
	}
	return nodes.Load(ctx, built)
}

func (d *Daemon) deployedSettings(config v1alpha1.Controller) (incluster.Settings, error) {
	s := d.now()
	host, port, err := net.SplitHostPort(s.mqtt.addr)
	if err != nil {
		return incluster.Settings{}, fmt.Errorf("reading the broker's address: %w", err)
	}
	brokerCA, err := os.ReadFile(s.mqtt.caFile)
	if err != nil {
		return incluster.Settings{}, fmt.Errorf("reading the broker's authority: %w", err)
	}
	clientCA, err := os.ReadFile(s.platform.KubeletClientCA())
	if err != nil {
		return incluster.Settings{}, fmt.Errorf("reading the authority of the API server: %w", err)
	}
	if d.kubelet.Cert == nil { // another would start the Pods anew
		if d.kubelet.Cert, d.kubelet.Key, _, err = s.platform.Serving(controllerName); err != nil {
			return incluster.Settings{}, err
		}
		d.kubelet.ClientCA = clientCA
	}
	proxy, err := d.openCommands(s.platform.Host())
	if err != nil {
		return incluster.Settings{}, err
	}
	return incluster.Settings{
		Replicas: *config.Replicas, Env: s.config.Spec.Env, Variables: config.Env, Proxy: proxy, Kubelet: d.kubelet,
		Broker: incluster.Broker{Host: host, Port: port, Username: s.mqtt.controller.user, Password: s.mqtt.controller.password, CA: brokerCA},
	}, nil
}

// deployedComponents are the controllers in the cluster as components.
func (d *Daemon) deployedComponents(c *incluster.Controller) []control.Component {
	var all []control.Component
	for _, r := range c.Replicas() {
		all = append(all, control.Component{
			Name: incluster.NameOf(r.Number), State: string(r.State), Ready: r.Ready, Reason: r.Reason, Pod: r.Pod, StartedAt: r.Since,
			Log: d.o.Dir.Log(controllerName),
		})
	}
	return all
}

// actOnDeployed does something to a controller in the cluster. What is killed there the cluster starts again.
func (d *Daemon) actOnDeployed(ctx context.Context, c *incluster.Controller, number int, action control.Action) error {
	ctx, cancel := context.WithTimeout(ctx, d.now().config.Spec.Wait.Duration)
	defer cancel()
	switch action {
	case control.Kill:
		return c.Kill(ctx, number)
	case control.Pause:
		return c.Pause(ctx, number)
	case control.Resume:
		return c.Resume(ctx, number)
	case control.Stop:
		return c.Stop(ctx, number)
	case control.Start:
		return c.StartAgain(ctx, number)
	default:
		return c.Restart(ctx, number)
	}
}
