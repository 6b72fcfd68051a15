package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// atOnce is how many containers are started at a time: an engine is not faster with
// more.
const atOnce = 4

// Container is a running container whose process calls remote.Serve, and answers.
type Container interface {
	http.RoundTripper
	// IP is its address, at which this machine and the other containers reach it.
	IP() string
	// Close ends the container and blocks until it is gone.
	Close() error
}

// Containers runs each base in a container of its own.
type Containers struct {
	// Run starts a container for the base of a host name and blocks until its process answers. It
	// may be called concurrently. Required.
	Run func(ctx context.Context, hostName string) (Container, error)
	// Broker is where containers reach the broker, as ssl://host:port, and BrokerCA the
	// authority to trust, in PEM. Required.
	Broker   string
	BrokerCA []byte
	// Heartbeats is the URL under which they send heartbeats over HTTP, each to its
	// host name there; see Fleet.Beat. Default: nobody gets them.
	Heartbeats string
	// Web is the address at which modules serve in a container. Default: the web port of the base on all
	// interfaces.
	Web string
	// Arklet is where arklet listens in a container. Default: :0, any free port. An engine gives
	// the address of a base that is gone to the next one, and commands name no base: with the same
	// port, what a controller still sends to the old one, the new one would execute.
	Arklet string
}

var _ Runtime = (*Containers)(nil)

// Adapt is that of Runtime.
func (c *Containers) Adapt(o *fakebase.Options) error {
	o.Web.Addr = cmp.Or(c.Web, o.Web.Addr)
	if o.MQTT != nil {
		o.MQTT.Dial, o.MQTT.Broker = nil, c.Broker
	}
	if o.HTTP != nil {
		o.HTTP.Addr = cmp.Or(c.Arklet, ":0")
		if o.HTTP.HeartbeatEndpoint != "" {
			o.HTTP.HeartbeatEndpoint = c.Heartbeats
		}
	}
	return nil
}

// Max is that of Runtime.
func (c *Containers) Max() int { return v1alpha1.MaxContainers }

// AtOnce is that of Runtime.
func (c *Containers) AtOnce() int { return atOnce }

// Open starts a container.
func (c *Containers) Open(ctx context.Context, hostName string) (Place, error) {
	running, err := c.Run(ctx, hostName)
	if err != nil {
		return nil, err
	}
	return &contained{Container: running, c: c, hostName: hostName}, nil
}

// contained is the place of a base in a container.
type contained struct {
	Container
	c        *Containers
	hostName string
	base     *remote.Base
}

func (p *contained) New(ctx context.Context, o fakebase.Options) (Base, error) {
	if o.HTTP != nil && o.HTTP.HeartbeatEndpoint != "" {
		o.HTTP.HeartbeatEndpoint += "/" + p.hostName
	}
	ahead, err := remote.Ahead(ctx, p.Container) // an engine in a virtual machine has another clock
	if err != nil {
		return nil, err
	}
	b, err := remote.New(ctx, p.Container, remote.Options{Options: o, BrokerCA: p.c.BrokerCA, Ahead: func() time.Duration { return ahead }})
	if err != nil {
		return nil, err // and no interface with a nil in it
	}
	p.base = b
	return b, nil
}

// Inside is empty: the cluster routes the base's address as it is.
func (p *contained) Inside() string { return "" }

func (p *contained) Sync(ctx context.Context) error { return p.base.Sync(ctx) }

// failure says in short why a base has ended by itself; the log has the rest.
func failure(err error) error {
	if exit := new(stdio.ExitError); errors.As(err, &exit) {
		return fmt.Errorf("its container has ended: %w", exit.Err)
	}
	return err
}
