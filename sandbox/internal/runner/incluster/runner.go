package incluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"

	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// RunnerOptions of a Runner.
type RunnerOptions struct {
	// Config reaches the cluster as an administrator. Required.
	Config *rest.Config
	// Log is the file that gets what the controllers log. Required.
	Log string
	// Env is the environment that bases share with the controller. Required.
	Env string
	// ClientIDPrefix is the prefix of the CLIENT_ID of each controller: state.Dir.ClientIDPrefix. Default: no prefix.
	ClientIDPrefix string
	// Owner is the value of cluster.SandboxLabel of the objects: state.Dir.Label. Required without Own.
	Owner string
	// Broker says where the bases are; it is asked when controllers start. Required.
	Broker func() (Broker, error)
	// Own is what a cluster of this machine offers. nil = the cluster is the user's: its nodes pull
	// Image, the bases are reached over MQTT alone, and there are no logs and exec.
	Own *Own
	// Image of the Pods. Required without Own; with it the nodes have one, see Load.
	Image string
	// Changed is told of every change of a controller, in order; it must not block. Required.
	Changed func(name string, state supervise.State, message string)
}

// Own is what a cluster whose nodes are containers of this machine offers. All fields are required.
type Own struct {
	Nodes cluster.Nodes
	// Proxy is the URL, with its password, of the HTTP proxy by which commands reach bases.
	Proxy string
	// KubeletClientCA names the authority behind the certificate with which the API server calls
	// for logs and exec.
	KubeletClientCA string
	// Serving issues a certificate for hosts.
	Serving func(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// Heartbeats is told where a controller receives heartbeats over HTTP, host:port/token; empty =
	// nowhere.
	Heartbeats func(controller, addr string)
}

// BrokerOf is a broker of the sandbox's, which speaks TLS and listens.
func BrokerOf(b runner.Broker) (Broker, error) {
	host, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		return Broker{}, fmt.Errorf("reading the broker's address: %w", err)
	}
	ca, err := os.ReadFile(b.CAFile())
	if err != nil {
		return Broker{}, fmt.Errorf("reading the broker's authority: %w", err)
	}
	login := b.Controller()
	return Broker{Host: host, Port: port, Username: login.User, Password: login.Password, CA: ca}, nil
}

// BrokerAt is the user's broker, as Pods reach it.
func BrokerAt(e *broker.External) (Broker, error) {
	host, port, err := net.SplitHostPort(e.Addr())
	if err != nil {
		return Broker{}, fmt.Errorf("reading the broker's address: %w", err)
	}
	return Broker{Host: host, Port: port, Username: e.Username, Password: e.Password, CA: e.CA, Cert: e.Cert, Key: e.Key}, nil
}

// Runner runs module controllers as a Deployment of the cluster. Ensure and End are called one
// after the other; the methods of its Part may be called concurrently.
type Runner struct {
	o          RunnerOptions
	controller *Controller
	log        *os.File
	kubelet    Kubelet // made once: another certificate would start the Pods again
	token      string  // of heartbeats; so is this
}

// NewRunner returns a runner without controllers. Start closes what it has opened.
func NewRunner(o RunnerOptions) (*Runner, error) {
	log, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the controller's log: %w", err)
	}
	r := &Runner{o: o, log: log, token: rand.Text()}
	options := Options{Config: o.Config, Owner: o.Owner, Log: log, Changed: r.changed}
	if o.Own != nil {
		options.Containers = o.Own.Nodes
	}
	r.controller, err = New(options)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return r, nil
}

// changed tells of a controller, and leads heartbeats to where it is now.
func (r *Runner) changed(c Change) {
	name := runner.NameOf(c.Number)
	if r.o.Own != nil {
		heartbeats := c.Heartbeats
		if heartbeats != "" {
			heartbeats += "/" + r.token
		}
		r.o.Own.Heartbeats(name, heartbeats)
	}
	r.o.Changed(name, c.State, c.Message)
}

// Start follows the Pods and their logs until ctx ends. It can be called once.
func (r *Runner) Start(ctx context.Context) error {
	defer func() { _ = r.log.Close() }() // each line is written by then
	return r.controller.Start(ctx)
}

// Ensure brings the controllers to a configuration and blocks until their Pods are ready. Start runs.
func (r *Runner) Ensure(ctx context.Context, c v1alpha1.Controller) error {
	s, err := r.settings(c)
	if err != nil {
		return err
	}
	return runner.WithLog(r.controller.Ensure(ctx, s), r.o.Log)
}

func (r *Runner) settings(c v1alpha1.Controller) (Settings, error) {
	at, err := r.o.Broker()
	if err != nil {
		return Settings{}, err
	}
	s := Settings{Replicas: *c.Replicas, Env: r.o.Env, ClientIDPrefix: r.o.ClientIDPrefix, Image: r.o.Image, Variables: c.Env, Broker: at}
	if r.o.Own == nil {
		return s, nil
	}
	if err := r.certify(); err != nil {
		return Settings{}, err
	}
	s.Proxy, s.Token, s.Kubelet = r.o.Own.Proxy, r.token, r.kubelet
	return s, nil
}

// certify makes what the controllers serve logs and exec with, once.
func (r *Runner) certify() error {
	if r.kubelet.Cert != nil {
		return nil
	}
	clientCA, err := os.ReadFile(r.o.Own.KubeletClientCA)
	if err != nil {
		return fmt.Errorf("reading the authority of the API server: %w", err)
	}
	if r.kubelet.Cert, r.kubelet.Key, _, err = r.o.Own.Serving(runner.Name); err != nil {
		return err
	}
	r.kubelet.ClientCA = clientCA
	return nil
}

// End removes the controllers from a cluster of the user's; those of another one go with it.
func (r *Runner) End(ctx context.Context, _ bool) error {
	if r.o.Own != nil {
		return nil
	}
	return r.controller.Forget(ctx)
}

// Part shows the controllers.
func (r *Runner) Part() component.Part { return part{r} }

// Remove takes a controller that an earlier daemon has deployed out of a cluster that is used as it
// is: it would go on to hold the Leases of bases. It blocks until its Pods have ended.
func Remove(ctx context.Context, config *rest.Config) error {
	c, err := New(Options{Config: config})
	if err != nil {
		return err
	}
	return c.Remove(ctx)
}

// Load gives the nodes the image of the controller's program, whose one layer lies in dir.
func Load(ctx context.Context, nodes cluster.Nodes, program, dir string) error {
	built, err := BuildImage(program, dir)
	if err != nil {
		return err
	}
	return nodes.Load(ctx, built)
}

type part struct{ r *Runner }

// Components are the controllers.
func (p part) Components(context.Context) []component.Component {
	var all []component.Component
	for _, r := range p.r.controller.Replicas() {
		all = append(all, component.Component{
			Name: runner.NameOf(r.Number), State: string(r.State), Ready: r.Ready, Reason: r.Reason, Pod: r.Pod, StartedAt: r.Since,
			Log: p.r.o.Log,
		})
	}
	return all
}

// Down names those that are not ready; one that somebody has paused stays so.
func (p part) Down(context.Context) []string {
	var names []string
	for _, r := range p.r.controller.Replicas() {
		if !r.Ready && r.State != supervise.Paused {
			names = append(names, runner.NameOf(r.Number))
		}
	}
	return names
}

// Act does something to a controller, named as a component or by its Pod. What is killed the kubelet
// starts again.
func (p part) Act(ctx context.Context, name string, action component.Action) error {
	c := p.r.controller
	number, err := c.Find(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, component.ErrUnknown)
	}
	switch action {
	case component.Kill:
		return c.Kill(ctx, number)
	case component.Pause:
		return c.Pause(ctx, number)
	case component.Resume:
		return c.Resume(ctx, number)
	case component.Stop:
		return c.Stop(ctx, number)
	case component.Start:
		return c.StartAgain(ctx, number)
	default:
		return c.Restart(ctx, number)
	}
}

// Replica is 0: which Pod is which is known to the cluster.
func (r *Runner) Replica(string) int { return 0 }
