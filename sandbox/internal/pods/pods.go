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

// maxConcurrent limits how many slots are opened concurrently. Opening a slot waits for a response from its Pod.
const maxConcurrent = 32

// Options configures Pods, the runtime.
type Options struct {
	// Config is the client configuration for the cluster. The client must have permission to change StatefulSets and
	// to execute commands in Pods in the namespace default. Required.
	Config *rest.Config
	// Sandbox is the value of the label cluster.SandboxLabel, which identifies the objects of this sandbox; see
	// state.Dir.Label. Required.
	Sandbox string
	// Image is an image that contains the binary /fakebase. Pull is its image pull policy. Required.
	Image string
	Pull  corev1.PullPolicy
	// AgentImage is an image that contains the binary /koupsandbox, which runs the traffic agent. Default: no traffic
	// agent.
	AgentImage string
	// PerPod is the number of bases per Pod. If it is 1, each base has the address of its Pod. Required.
	PerPod int
	// Broker is the broker URL that bases in Pods use: tcp://host:port or ssl://host:port. Required.
	Broker string
	// BrokerCA is the CA certificate of a broker with an ssl URL. BrokerCert and BrokerKey are the client certificate
	// and its key. All are in PEM format. Default: the CA certificates of the system, and no client certificate.
	BrokerCA, BrokerCert, BrokerKey []byte
	// Heartbeats is the URL to which bases in Pods send HTTP heartbeats. Each base appends its host name; see
	// fleet.Fleet.HeartbeatTransport. Default: bases in Pods cannot use the HTTP tunnel.
	Heartbeats string
	// Log receives the standard error of the binaries in Pods. Writes can be concurrent. Default: the output is
	// discarded.
	Log io.Writer
	// OnChange is called when a Pod becomes available or unavailable. The calls for a Pod are in order. OnChange must
	// not block. Default: changes are not reported.
	OnChange func(pod string, state supervise.State, message string)

	// host is the address on which the bases listen in their Pods. Default: all addresses.
	host string
	// version is the version with which the binary in the image must be compatible, see version.CheckCompatible.
	// Default: the version of this binary.
	version string
	// dial connects to a Pod. Default: Pods.exec. Tests replace it.
	dial func(ctx context.Context, pod string) (connection, error)
}

// connection is a connection to the binary that runs in a Pod.
type connection interface {
	http.RoundTripper
	// Ping blocks until the binary has responded or ctx ends.
	Ping(ctx context.Context) error
	// Done returns a channel that is closed when the connection has ended. Err then returns the reason.
	Done() <-chan struct{}
	Err() error
	// Close closes the connection and blocks until it has ended.
	Close() error
}

// Pods is a fleet.Runtime that runs bases in Pods. Its methods may be called concurrently.
type Pods struct {
	o      Options
	client kubernetes.Interface

	ensureMu sync.Mutex // held during changes to the StatefulSet

	mu     sync.Mutex // guards the following fields
	runPod func(*pod) // nil while Start is not running
	all    []*pod     // the Pods, by ordinal
	wg     sync.WaitGroup
}

var _ fleet.Runtime = (*Pods)(nil)

// New returns a runtime without Pods. It does not call the cluster; see Ensure.
func New(o Options) (*Pods, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the cluster: %w", err)
	}
	return newPods(o, client), nil
}

func newPods(o Options, client kubernetes.Interface) *Pods {
	if o.OnChange == nil {
		o.OnChange = func(string, supervise.State, string) {}
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

// Start connects to the Pods, and keeps the connections open until ctx ends. It returns nil after the connections
// have ended. Call Start once.
func (p *Pods) Start(ctx context.Context) error {
	p.mu.Lock()
	p.runPod = func(x *pod) { p.wg.Go(func() { x.run(ctx) }) }
	for _, x := range p.all {
		p.runPod(x)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.runPod = nil
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

// PodCount returns the number of Pods that are needed for a number of bases.
func (p *Pods) PodCount(bases int) int { return (bases + p.o.PerPod - 1) / p.o.PerPod }

// addPods adds Pods to the list until it contains replicas Pods.
func (p *Pods) addPods(replicas int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.all) < replicas {
		x := newPod(p, len(p.all))
		p.all = append(p.all, x)
		if p.runPod != nil {
			p.runPod(x)
		}
	}
}

// Adapt implements fleet.Runtime. Bases that share a Pod listen for module traffic on free ports instead of webPort.
func (p *Pods) Adapt(o *fakebase.Options, webPort int) error {
	if o.HTTP != nil && p.o.Heartbeats == "" {
		return errors.New("the HTTP tunnel is not available: the Pods of this cluster cannot send heartbeats to this " +
			"machine; use the tunnel mqtt, or the runtime process")
	}
	if p.o.PerPod > 1 {
		webPort = 0
	}
	o.Web.Addr = net.JoinHostPort(p.o.host, strconv.Itoa(webPort))
	if o.MQTT != nil {
		o.MQTT.Dial, o.MQTT.Broker = nil, p.o.Broker
	}
	if o.HTTP != nil {
		// Commands do not name the base. With a fixed port, a base would execute the commands to the previous base in
		// its Pod.
		o.HTTP.Addr = net.JoinHostPort(p.o.host, "0")
		if o.HTTP.HeartbeatEndpoint != "" {
			o.HTTP.HeartbeatEndpoint = p.o.Heartbeats
		}
	}
	return nil
}

// Concurrency implements fleet.Runtime.
func (p *Pods) Concurrency() int { return maxConcurrent }

// Open implements fleet.Runtime. It takes a slot in the first Pod with a free slot, and adds a Pod if all Pods are
// full. It blocks until the Pod is connected.
func (p *Pods) Open(ctx context.Context, hostName string) (fleet.Slot, error) {
	x := p.takeSlot()
	for x == nil {
		if err := p.Ensure(ctx, len(p.list())+1); err != nil {
			return nil, err
		}
		x = p.takeSlot()
	}
	if _, err := x.waitConnected(ctx); err != nil {
		x.releaseSlot()
		return nil, fmt.Errorf("starting base %s: %w", hostName, err)
	}
	return newSlot(x, hostName), nil
}

// takeSlot takes a slot in the first Pod with a free slot, and returns the Pod. It returns nil if all Pods are full.
func (p *Pods) takeSlot() *pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.all {
		if x.usedSlots < p.o.PerPod {
			x.usedSlots++
			return x
		}
	}
	return nil
}

func (x *pod) releaseSlot() {
	x.pods.mu.Lock()
	defer x.pods.mu.Unlock()
	x.usedSlots--
}
