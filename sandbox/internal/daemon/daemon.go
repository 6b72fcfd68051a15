package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// idleTime is how long a daemon waits for its first up request before it exits.
	idleTime = 10 * time.Second
	// downTime is the timeout for stopping a sandbox, plus downTimeEach for each base. After the timeout, the
	// processes are killed. downTime includes the 15 s after which the Lease of a killed controller expires.
	downTime, downTimeEach = 25 * time.Second, 10 * time.Millisecond
	// daemonName is the name of the daemon in its run record and in the list of components.
	daemonName = "daemon"
)

var (
	errDown        = errors.New("the sandbox is shutting down")
	errAbandoned   = errors.New("the command that started the sandbox disconnected")
	errUpFailed    = errors.New("the sandbox is shutting down because up failed")
	errClusterKept = errors.New("the cluster existed before the sandbox and was kept")
)

// Binaries contains the paths of the sandbox binaries. An empty path means that the binary was not found.
type Binaries struct {
	// Daemon is the path of koupsandbox, or of another binary with the same hidden commands. The daemon also runs
	// this binary on a node, to send requests from there.
	Daemon string
	// ControlPlane is the path of koup-controlplane. Required for the provider embedded.
	ControlPlane string
	// Controller is the path of module-controller.
	Controller string
	// Base is the path of fakebase. Required for bases in Pods.
	Base string
}

// Options are the options of a Daemon.
type Options struct {
	// Dir is the state directory of the sandbox, which must exist. Required.
	Dir state.Dir
	// Binaries are the binaries to run. Required.
	Binaries Binaries
	// Logger is the logger of the daemon. Default: log messages are discarded.
	Logger *slog.Logger

	// open creates the Cluster of the sandbox. Default: the cluster of the configured provider. Tests replace it.
	open func(clusterOptions) (Cluster, error)
	// client returns an API client that reads many objects efficiently. Default: cluster.NewClient, which uses
	// protobuf. Tests replace it.
	client func(*cluster.Cluster) (kubernetes.Interface, error)
}

// Daemon runs one sandbox.
type Daemon struct {
	o          Options
	log        *slog.Logger
	supervisor *supervise.Supervisor
	startedAt  time.Time

	// changeLock is held exclusively by up, down and scaling. An action on a component acquires it in shared mode,
	// because one action may have to start the broker that another action waits for.
	changeLock *semaphore.Weighted
	// ending is cancelled when the shutdown begins, with the cause errDown, errAbandoned or errUpFailed.
	ending      context.Context
	requestStop context.CancelCauseFunc
	// stopped is closed when the shutdown is complete.
	stopped chan struct{}
	stopErr error // must only be read after stopped is closed

	mu            sync.Mutex // guards the following fields
	phase         control.Phase
	config        *v1alpha1.Sandbox                // effective configuration; never modified; nil before the first up
	controllers   control.ControllerRequest        // last applied controller request
	componentSets [setCount]supervise.ComponentSet // each is nil until it is created
	assembly      *assembly                        // nil until all parts exist
	repairs       pendingRepairs
	undo          []func(context.Context) error

	up  chan struct{} // closed when the first up begins
	hub eventHub
	// faultCount is the number of fault IDs that were generated.
	faultCount atomic.Int64
}

// The indexes of Daemon.componentSets. The status lists the sets in this order, after the daemon itself.
const (
	brokerSet = iota
	basesSet
	podsSet
	clusterSet
	runnerSet
	setCount
)

// New returns a daemon. It does not start the daemon.
func New(o Options) *Daemon {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.open == nil {
		o.open = openCluster
	}
	if o.client == nil {
		o.client = cluster.NewClient
	}
	d := &Daemon{
		o:          o,
		log:        o.Logger,
		startedAt:  time.Now(),
		changeLock: semaphore.NewWeighted(exclusiveWeight),
		stopped:    make(chan struct{}),
		phase:      control.Idle,
		up:         make(chan struct{}),
	}
	d.ending, d.requestStop = context.WithCancelCause(context.Background())
	d.supervisor = supervise.New(supervise.Options{Dir: o.Dir.Run(), Logger: o.Logger, OnChange: d.componentChanged})
	return d
}

// Start serves the control API until the sandbox shuts down, ctx ends, the first up fails, or no up request arrives
// within idleTime. It then stops the sandbox, and blocks until the sandbox has stopped. Start can be called only
// once.
func (d *Daemon) Start(ctx context.Context) error {
	path, err := d.o.Dir.NewSocketPath()
	if err != nil {
		return err
	}
	listener, err := control.Listen(path)
	if err != nil {
		return err
	}
	if err := supervise.RecordSelf(d.o.Dir.Run(), daemonName); err != nil {
		return errors.Join(fmt.Errorf("writing the run record of the daemon: %w", err), listener.Close())
	}
	server := control.NewServer(d.api())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	d.log.Info("daemon started", "dir", string(d.o.Dir), "pid", os.Getpid())

	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	select {
	case <-d.up:
	case <-idle.C:
		d.log.Warn("no up request received; shutting down", "after", idleTime)
		d.requestStop(errDown)
	case <-d.ending.Done():
	case <-ctx.Done():
	}
	select {
	case <-d.ending.Done():
	case <-ctx.Done():
	case err = <-served:
		served <- err
	}
	d.requestStop(errDown)
	d.stop(ctx)
	err = d.stopErr

	// Let pending responses finish. Event streams end with d.ending.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if shutErr := server.Shutdown(last); shutErr != nil {
		err = errors.Join(err, server.Close())
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving the control API: %w", serveErr))
	}
	if err == nil && errors.Is(d.stopCause(), errAbandoned) {
		err = d.o.Dir.Remove(false) // the command that would remove it has disconnected
	}
	d.log.Info("daemon ended", "err", err)
	return err
}

// untilStop returns a context that ends when ctx ends or the sandbox shuts down.
func (d *Daemon) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(d.ending, func() { cancel(d.stopCause()) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// acquire acquires changeLock with the weight share. It returns a context that also ends when the sandbox shuts down,
// and a function that releases the lock.
func (d *Daemon) acquire(ctx context.Context, share int64) (context.Context, func(), error) {
	ctx, cancel := d.untilStop(ctx)
	if err := d.changeLock.Acquire(ctx, share); err != nil {
		err = context.Cause(ctx)
		cancel()
		return nil, nil, err
	}
	release := func() {
		cancel()
		d.changeLock.Release(share)
	}
	if d.ending.Err() != nil { // Acquire may succeed even if ctx has ended
		release()
		return nil, nil, d.stopCause()
	}
	return ctx, release, nil
}

// The weights with which changeLock is acquired in shared and in exclusive mode.
const (
	sharedWeight    = 1
	exclusiveWeight = 1 << 20
)

// Up creates the sandbox, or reconciles a running sandbox with the request. It blocks until the sandbox is ready.
func (d *Daemon) Up(ctx context.Context, r control.UpRequest, sink func(progress.Event)) (*control.UpResult, error) {
	v1alpha1.SetDefaults(r.Config)
	if errs := v1alpha1.Validate(r.Config); len(errs) > 0 {
		return nil, badRequest("%v", errs.ToAggregate())
	}
	result, err := d.exclusiveUp(ctx, r, sink)
	if err != nil && d.ending.Err() != nil { // a failed first up stops everything
		<-d.stopped
		err = errors.Join(err, d.stopErr)
	}
	return result, err
}

func (d *Daemon) exclusiveUp(ctx context.Context, r control.UpRequest, sink func(progress.Event)) (*control.UpResult,
	error) {
	ctx, release, err := d.acquire(ctx, exclusiveWeight)
	if err != nil {
		return nil, err
	}
	defer release()
	steps := progress.New(func(e progress.Event) {
		d.log.Info("step", "kind", string(e.Kind), "step", e.Step, "elapsed", e.Elapsed, "err", e.Error)
		sink(e)
	})

	result := &control.UpResult{}
	if d.phaseNow() == control.Running {
		result.Already = true
		result.Changes, err = d.ensure(ctx, steps, r)
	} else {
		d.setPhase(control.Starting)
		close(d.up)
		err = d.bringUp(ctx, steps, r)
		if err != nil {
			d.requestStop(errUpFailed)
		} else {
			d.setPhase(control.Running)
			go debug.FreeOSMemory() // release the memory of the startup phase in the background
		}
	}
	if err != nil {
		return nil, err
	}
	result.Status = d.Status(ctx, false)
	return result, nil
}

// Down shuts down the sandbox and blocks until it has stopped. The daemon then exits.
func (d *Daemon) Down() error {
	d.requestStop(errDown)
	<-d.stopped
	return d.stopErr
}

// Hold calls held and blocks until the sandbox shuts down. If ctx ends first, Hold shuts down the sandbox.
func (d *Daemon) Hold(ctx context.Context, held func()) {
	held()
	select {
	case <-ctx.Done():
		d.log.Info("shutting down: the command that started the sandbox disconnected")
		d.requestStop(errAbandoned)
	case <-d.ending.Done():
	}
}

// StopTimeout returns the timeout for stopping a sandbox with the given number of bases.
func StopTimeout(bases int) time.Duration { return downTime + time.Duration(bases)*downTimeEach }

// stop runs the undo functions. The caller must have cancelled d.ending, which aborts changes in progress.
func (d *Daemon) stop(ctx context.Context) {
	_ = d.changeLock.Acquire(context.WithoutCancel(ctx), exclusiveWeight) // never released
	bases := 0
	if s, ok := d.assembled(); ok {
		bases = len(s.fleet.StartedIdentities())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout(bases))
	defer cancel()
	d.mu.Lock()
	undo := d.undo
	d.mu.Unlock()
	var errs []error
	for _, f := range slices.Backward(undo) {
		errs = append(errs, f(ctx))
	}
	errs = append(errs, d.supervisor.StopAll(ctx)) // includes processes without an undo function
	d.stopErr = errors.Join(errs...)
	close(d.stopped)
}

func (d *Daemon) setComponents(place int, p supervise.ComponentSet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.componentSets[place] = p
}

func (d *Daemon) allComponentSets() []supervise.ComponentSet {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.componentSets[:]), func(p supervise.ComponentSet) bool { return p == nil })
}

// assembled returns the parts of the sandbox, which may not be started yet. ok reports whether the parts exist.
func (d *Daemon) assembled() (s *assembly, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.assembly, d.assembly != nil
}

// requireUp returns the parts of the sandbox. It returns a conflict error before the first up has succeeded, and after
// the shutdown has begun.
func (d *Daemon) requireUp() (*assembly, error) {
	switch d.phaseNow() {
	case control.Running:
		s, _ := d.assembled()
		return s, nil
	case control.Stopping:
		return nil, conflict("the sandbox is shutting down")
	default:
		return nil, conflict("the sandbox is not up yet")
	}
}

// configNow returns the effective configuration, which must not be modified.
func (d *Daemon) configNow() *v1alpha1.Sandbox {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
}

func (d *Daemon) stopCause() error { return context.Cause(d.ending) }

func (d *Daemon) phaseNow() control.Phase {
	if d.ending.Err() != nil {
		return control.Stopping
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase
}

func (d *Daemon) setPhase(p control.Phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = p
}
