package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// portAttempts is how often a controller is started with other ports when one was taken between
// picking and listening.
const portAttempts = 3

// Options of a Runner.
type Options struct {
	// Program is what is run. Required.
	Program Program
	// Supervisor runs it. Required.
	Supervisor *supervise.Supervisor
	// Heartbeats is called with the address at which a controller receives heartbeats over HTTP: host:port or
	// host:port/token. addr is empty if the controller receives none. Required.
	Heartbeats func(controller, addr string)
	// Token is the token in the path of heartbeats. Default: none.
	Token string
	// ClientIDPrefix is the prefix of the CLIENT_ID of each controller: state.Dir.ClientIDPrefix. Default: no prefix.
	ClientIDPrefix string
	// ProxyKubeconfig leads the n-th controller, from 1, to the API server through a proxy, and returns the
	// kubeconfig that it needs then, the same each time. Required for controllers with APIView.
	ProxyKubeconfig func(controller string, n int) (kubeconfig string, err error)
}

// Runner runs module controllers as processes of this machine. Ensure and End must not be called concurrently.
type Runner struct {
	supervise.Processes
	o Options

	mu       sync.Mutex
	replicas []*replica
	numbers  map[string]int // of all there have been, by client id
}

// replica is one of the controllers.
type replica struct {
	name string
	// clientID stays the same through restarts: Leases name it.
	clientID string

	mu sync.Mutex // held while it is started; guards what follows
	// instance is what it was started as.
	instance Instance
	// settings are what it was started with, ports apart; nil while it is not.
	settings any
}

// New returns a runner without controllers.
func New(o Options) *Runner {
	mine := func(name string) bool {
		rest, found := strings.CutPrefix(name, runner.Name)
		number, err := strconv.Atoi(strings.TrimPrefix(rest, "-"))
		return found && (rest == "" || err == nil && name == runner.ComponentName(number))
	}
	return &Runner{o: o, numbers: map[string]int{},
		Processes: supervise.Processes{Supervisor: o.Supervisor, Contains: mine}}
}

// Start blocks until ctx ends.
func (r *Runner) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ensure starts missing controllers, restarts those that have other settings or have ended, removes surplus ones, and
// blocks until all are ready.
func (r *Runner) Ensure(ctx context.Context, c v1alpha1.Controller) error {
	replicas, err := r.resize(ctx, *c.Replicas)
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	for i, x := range replicas {
		instance := Instance{Name: x.name, ClientID: x.clientID, Index: i + 1, Config: c}
		if c.APIView {
			instance.Kubeconfig, err = r.o.ProxyKubeconfig(x.name, i+1)
			if err != nil {
				return err
			}
		}
		settings, err := r.o.Program.Settings(instance)
		if err != nil {
			return err
		}
		if x.hasSettings(settings) && r.isRunning(ctx, x.name) {
			continue
		}
		group.Go(func() error { return r.start(gctx, x, instance, settings) })
	}
	return group.Wait()
}

// resize ends the controllers beyond a number, and adds missing ones, which do not run yet.
func (r *Runner) resize(ctx context.Context, want int) ([]*replica, error) {
	replicas := r.list()
	for _, x := range replicas[min(want, len(replicas)):] {
		if err := r.Supervisor.Remove(ctx, x.name); err != nil {
			return nil, err
		}
		r.o.Heartbeats(x.name, "")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replicas = r.replicas[:min(want, len(replicas))]
	for n := len(r.replicas) + 1; n <= want; n++ {
		x := &replica{name: runner.ComponentName(n), clientID: state.NewClientID(r.o.ClientIDPrefix)}
		r.replicas = append(r.replicas, x)
		r.numbers[x.clientID] = n
	}
	return slices.Clone(r.replicas), nil
}

func (r *Runner) list() []*replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.replicas)
}

// ReplicaNumber returns the number, from 1, of the controller with a client id, or 0 if no controller has had this
// client id. The client id may end with "-" and a random part, as the MQTT client id of the module controller
// does.
func (r *Runner) ReplicaNumber(clientID string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, found := r.numbers[clientID]
	if end := strings.LastIndexByte(clientID, '-'); !found && end >= 0 {
		return r.numbers[clientID[:end]]
	}
	return number
}

func (r *Runner) isRunning(ctx context.Context, name string) bool {
	all := r.Supervisor.Status(ctx, func(n string) bool { return n == name })
	return len(all) == 1 && all[0].State == supervise.Running
}

func (x *replica) hasSettings(settings any) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return reflect.DeepEqual(settings, x.settings)
}

// start starts a controller again and waits until it is ready.
func (r *Runner) start(ctx context.Context, x *replica, instance Instance, settings any) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.instance, x.settings = instance, nil
	if err := r.Supervisor.Stop(ctx, x.name); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		addrs, err := freePorts(Loopback, 3)
		if err != nil {
			return fmt.Errorf("finding free ports for %s: %w", x.name, err)
		}
		instance.Metrics, instance.Health, instance.Heartbeats = addrs[0], addrs[1], addrs[2]
		spec, err := r.o.Program.Process(instance)
		if err != nil {
			return err
		}
		if err := r.Supervisor.Start(ctx, spec); err != nil {
			return err
		}
		heartbeats := instance.Heartbeats
		if r.o.Token != "" {
			heartbeats += "/" + r.o.Token
		}
		r.o.Heartbeats(x.name, heartbeats)
		err = r.Supervisor.WaitReady(ctx, x.name)
		if attempt == portAttempts || !supervise.PortTaken(err, addrs...) {
			if err == nil {
				x.settings = settings
			}
			return err
		}
	}
}

// StopAll ends all controllers concurrently, and kills them if abruptly is true.
func (r *Runner) StopAll(ctx context.Context, abruptly bool) error {
	replicas := r.list()
	errs := make([]error, len(replicas))
	var ending sync.WaitGroup
	for i, x := range replicas {
		ending.Go(func() {
			if abruptly {
				if err := r.Supervisor.Kill(x.name); !errors.Is(err, supervise.ErrUnknown) {
					errs[i] = err
				}
			}
			errs[i] = errors.Join(errs[i], r.Supervisor.Stop(ctx, x.name))
		})
	}
	ending.Wait()
	return errors.Join(errs...)
}

// Act implements supervise.Part. A controller whose port another process has taken in the meantime gets other ports.
func (r *Runner) Act(ctx context.Context, name string, action supervise.Action) error {
	err := r.Processes.Act(ctx, name, action)
	replicas := r.list()
	i := slices.IndexFunc(replicas, func(x *replica) bool { return x.name == name })
	if i < 0 || !supervise.PortTaken(err) {
		return err
	}
	x := replicas[i]
	x.mu.Lock()
	instance, settings := x.instance, x.settings
	x.mu.Unlock()
	return r.start(ctx, x, instance, settings)
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // it has one
	return port
}
