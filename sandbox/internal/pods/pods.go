package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

// atOnce is how many bases are made at a time: each waits for one answer of its Pod.
const atOnce = 32

// Options of Pods.
type Options struct {
	// Config reaches the cluster, with the right to change StatefulSets and to execute in Pods of the
	// namespace. Required.
	Config *rest.Config
	// Sandbox is the value of a label that only objects of this sandbox have: state.Dir.Label. Required.
	Sandbox string
	// Image has the program /fakebase, and Pull reports whether nodes may pull it. Required.
	Image string
	Pull  corev1.PullPolicy
	// AgentImage has the program /koupsandbox, from which requests are sent. Default: there is no agent.
	AgentImage string
	// PerPod is how many bases a Pod runs. A base that has a Pod of its own also has its address. Required.
	PerPod int
	// Broker is where Pods reach the broker, as tcp://host:port or ssl://host:port. Required.
	Broker string
	// BrokerCA is the authority of an ssl broker, BrokerCert and BrokerKey a client certificate for
	// it, all in PEM. Default: the system's authorities, and no certificate.
	BrokerCA, BrokerCert, BrokerKey []byte
	// Heartbeats is the URL to which Pods send heartbeats over HTTP, each base to its host name there; see
	// fleet.Fleet.Beat. Default: bases in Pods cannot have the tunnel http.
	Heartbeats string
	// Log gets what the bases have to say. It is written to concurrently. Default: nobody gets it.
	Log io.Writer
	// Changed is told of every change of a Pod, those of one in order. It must not block. Default:
	// nothing is reported.
	Changed func(pod string, state supervise.State, message string)

	// host is the address on which bases listen. Default: all addresses.
	host string
	// version is what the program in the image must be of. Default: that of this program.
	version string
	// dial opens a connection to a Pod; tests replace it.
	dial func(ctx context.Context, pod string) (connection, error)
}

// connection is one to the program in a Pod.
type connection interface {
	http.RoundTripper
	// Ping blocks until the program has answered, or ctx ends.
	Ping(ctx context.Context) error
	// Done is closed when the connection has ended; Err says why.
	Done() <-chan struct{}
	Err() error
	// Close ends it, and blocks until it has ended.
	Close() error
}

// Pods is a runtime of bases. Its methods may be called concurrently.
type Pods struct {
	o      Options
	client kubernetes.Interface

	ensuring sync.Mutex // held by whoever changes the StatefulSet

	mu     sync.Mutex // guards what follows
	launch func(*pod) // nil while Start does not run
	all    []*pod     // by ordinal
	wg     sync.WaitGroup
}

var _ fleet.Runtime = (*Pods)(nil)

// New returns Pods that are not there yet: see Ensure. It does not call the cluster.
func New(o Options) (*Pods, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the cluster: %w", err)
	}
	return newPods(o, client), nil
}

func newPods(o Options, client kubernetes.Interface) *Pods {
	if o.Changed == nil {
		o.Changed = func(string, supervise.State, string) {}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.version = cmp.Or(o.version, version.String())
	p := &Pods{o: o, client: client}
	if p.o.dial == nil {
		p.o.dial = p.exec
	}
	return p
}

// Start keeps the connections to the Pods until ctx ends, and returns nil when they have ended. It
// can be called once.
func (p *Pods) Start(ctx context.Context) error {
	p.mu.Lock()
	p.launch = func(x *pod) { p.wg.Go(func() { x.run(ctx) }) }
	for _, x := range p.all {
		p.launch(x)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.launch = nil
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

// Number is how many Pods so many bases need.
func (p *Pods) Number(bases int) int { return (bases + p.o.PerPod - 1) / p.o.PerPod }

// grow knows of so many Pods from now on.
func (p *Pods) grow(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.all) < number {
		x := newPod(p, len(p.all))
		p.all = append(p.all, x)
		if p.launch != nil {
			p.launch(x)
		}
	}
}

// Adapt implements fleet.Runtime. Bases that share a Pod listen for module traffic on any free port.
func (p *Pods) Adapt(o *fakebase.Options, webPort int) error {
	if o.HTTP != nil && p.o.Heartbeats == "" {
		return errors.New("tunnel http: the Pods of this cluster cannot send heartbeats to this machine; use mqtt, " +
			"or the runtime process")
	}
	if p.o.PerPod > 1 {
		webPort = 0
	}
	o.Web.Addr = net.JoinHostPort(p.o.host, strconv.Itoa(webPort))
	if o.MQTT != nil {
		o.MQTT.Dial, o.MQTT.Broker = nil, p.o.Broker
	}
	if o.HTTP != nil {
		// Commands name no base. With a fixed port, the next base in a Pod would execute the commands to
		// the base before it.
		o.HTTP.Addr = net.JoinHostPort(p.o.host, "0")
		if o.HTTP.HeartbeatEndpoint != "" {
			o.HTTP.HeartbeatEndpoint = p.o.Heartbeats
		}
	}
	return nil
}

// AtOnce implements fleet.Runtime.
func (p *Pods) AtOnce() int { return atOnce }

// Open takes a place in the first Pod that has one, and blocks until that Pod answers. There is one
// more Pod if all are full.
func (p *Pods) Open(ctx context.Context, hostName string) (fleet.Place, error) {
	x := p.take()
	for x == nil {
		if err := p.Ensure(ctx, len(p.list())+1); err != nil {
			return nil, err
		}
		x = p.take()
	}
	if _, err := x.await(ctx); err != nil {
		x.give()
		return nil, fmt.Errorf("starting base %s: %w", hostName, err)
	}
	return newPlace(x, hostName), nil
}

// take takes a place; nil = there is none.
func (p *Pods) take() *pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.all {
		if x.used < p.o.PerPod {
			x.used++
			return x
		}
	}
	return nil
}

func (x *pod) give() {
	x.pods.mu.Lock()
	defer x.pods.mu.Unlock()
	x.used--
}
