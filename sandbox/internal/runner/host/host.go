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

// portAttempts is the maximum number of attempts to start a controller. An attempt fails if another process takes one
// of its ports.
const portAttempts = 3

// Options configures a Runner.
type Options struct {
	// Program is the controller program that the Runner runs. Required.
	Program Program
	// Supervisor runs the processes of the controllers. Required.
	Supervisor *supervise.Supervisor
	// Heartbeats is called when the address changes at which a controller receives HTTP heartbeats. addr is host:port
	// or host:port/token. It is empty if the controller does not receive HTTP heartbeats. Required.
	Heartbeats func(controller, addr string)
	// Token is the token that heartbeats must contain in their path. Default: no token.
	Token string
	// ClientIDPrefix is the prefix of the CLIENT_ID of each controller; see state.Dir.ClientIDPrefix. Default: no
	// prefix.
	ClientIDPrefix string
	// ProxyKubeconfig returns the path of the kubeconfig with which the controller with the number n, from 1,
	// connects to the API proxy. It must return the same path in each call. Required for controllers with APIView.
	ProxyKubeconfig func(controller string, n int) (kubeconfig string, err error)
}

// Runner runs module controllers as processes on this machine. Ensure and StopAll must not be called concurrently.
type Runner struct {
	supervise.Processes
	o Options

	mu       sync.Mutex
	replicas []*replica
	numbers  map[string]int // number of every controller that was ever created, by client ID
}

// replica is one controller that a Runner runs.
type replica struct {
	name string
	// clientID does not change when the controller restarts, because Leases contain it.
	clientID string

	mu sync.Mutex // held while the controller is starting; guards the following fields
	// instance is the most recently started instance.
	instance Instance
	// settings contains the settings of the running instance. It is nil if no instance is running.
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

// Start blocks until ctx ends and returns nil. The supervisor monitors the controllers.
func (r *Runner) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ensure starts missing controllers, restarts controllers that have exited or whose settings have changed, and
// removes surplus controllers. It blocks until all controllers are ready.
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

// resize removes surplus controllers and adds missing controllers. It stops the removed controllers, but does not
// start the added ones.
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

// ReplicaNumber returns the number, from 1, of the controller with the given client ID, or 0 if the client ID is
// unknown. It also accepts an MQTT client ID of the module controller, which is the client ID followed by "-" and a
// random part.
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

// start starts a controller, or restarts a running controller, and blocks until it is ready.
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

// StopAll stops all controllers concurrently and blocks until they have exited. If abruptly is true, it kills them.
func (r *Runner) StopAll(ctx context.Context, abruptly bool) error {
	replicas := r.list()
	errs := make([]error, len(replicas))
	var stopping sync.WaitGroup
	for i, x := range replicas {
		stopping.Go(func() {
			if abruptly {
				if err := r.Supervisor.Kill(x.name); !errors.Is(err, supervise.ErrUnknown) {
					errs[i] = err
				}
			}
			errs[i] = errors.Join(errs[i], r.Supervisor.Stop(ctx, x.name))
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// Act implements supervise.ComponentSet. If an action fails because another process has taken a port of the
// controller, Act starts the controller with new ports.
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
	_, port, _ := net.SplitHostPort(addr) // all callers pass valid addresses
	return port
}
