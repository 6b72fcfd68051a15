package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// atOnce is how many containers are started at a time: an engine is not faster with
// more.
const atOnce = 4

// Base is a simulated base, of this process or another. Its methods are those of
// fakebase.Base, which says what they do.
type Base interface {
	Start(ctx context.Context) error
	Status() fakebase.Status
	Identity() string
	Faults() []fakebase.FaultStatus
	Inject(f fakebase.Fault) (string, error)
	Clear(ids ...string) int
	Restart(identity string) error
	Watch(fn func(fakebase.Event)) (now fakebase.Status, stop func())
	Trace(fn func(fakebase.Trace)) (stop func())
	WebAddr(ctx context.Context) (string, error)
	HTTPAddr() string
}

// Container is a running container whose process calls remote.Serve, and answers.
type Container interface {
	http.RoundTripper
	// IP is its address, at which this machine and the other containers reach it.
	IP() string
	// Close ends the container and blocks until it is gone.
	Close() error
}

// Containers are where bases run that are no part of this process.
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
	// Web is where modules serve in a container. Default: :8080, as Services name it.
	Web string
	// Arklet is where arklet listens in a container. Default: :0, any free port. An engine gives
	// the address of a base that is gone to the next one, and commands name no base: with the same
	// port, what a controller still sends to the old one, the new one would execute.
	Arklet string
}

// containerSettings makes of the options of a base in this process those of one in
// a container.
func (f *Fleet) containerSettings(o *fakebase.Options) error {
	c := f.o.Containers
	if c == nil {
		return errors.New("runtime container: this sandbox has no network for containers; bring it up with --provider kind --base-runtime container, or use process")
	}
	o.Web.Addr = cmp.Or(c.Web, ":8080")
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

// roomFor tells whether so many bases of a set may be added. f.mu is held.
func (f *Fleet) roomFor(s Set, count int) error {
	if s.Spec.Runtime == v1alpha1.RuntimeContainer && f.containers+count > v1alpha1.MaxContainers {
		return fmt.Errorf("%w: there are %d in containers, and a sandbox has at most %d; use the runtime process for more",
			ErrInvalid, f.containers, v1alpha1.MaxContainers)
	}
	return nil
}

// makeContainers makes bases in containers of their own, a few at a time.
func (f *Fleet) makeContainers(ctx context.Context, s Set, options fakebase.Options, members []*Member) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, m := range members {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			c, err := f.o.Containers.Run(ctx, m.HostName)
			if err != nil {
				return err
			}
			m.container, m.IP = c, c.IP()
			o := f.settle(m, s, options, time.Duration(i)*stagger)
			if o.HTTP != nil && o.HTTP.HeartbeatEndpoint != "" {
				o.HTTP.HeartbeatEndpoint += "/" + m.HostName
			}
			b, err := remote.New(ctx, c, remote.Options{Options: o, BrokerCA: f.o.Containers.BrokerCA})
			if err != nil {
				return fmt.Errorf("making base %s: %w", m.HostName, err)
			}
			m.Base, m.remote = b, b
			return nil
		})
	}
	return group.Wait()
}

// failure says in short why a base has ended by itself; the log has the rest.
func failure(err error) error {
	if exit := new(stdio.ExitError); errors.As(err, &exit) {
		return fmt.Errorf("its container has ended: %w", exit.Err)
	}
	return err
}

// close ends the container of a member.
func (f *Fleet) close(m *Member) {
	if err := m.container.Close(); err != nil {
		f.o.Logger.Error("container did not end well", "base", m.HostName, "err", err)
	}
}
