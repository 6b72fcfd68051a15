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
	// idleTime is how long a daemon waits for its first up.
	idleTime = 10 * time.Second
	// downTime is how long stopping may take before processes are killed, and downTimeEach how much longer for each base.
	// It includes the 15 s after which the Lease of a killed controller expires.
	downTime, downTimeEach = 25 * time.Second, 10 * time.Millisecond
	// daemonName is the name of the daemon's own run record, and of itself as a component.
	daemonName = "daemon"
)

var (
	errDown      = errors.New("the sandbox is being taken down")
	errAbandoned = errors.New("the command that the sandbox was for has gone")
	errUpFailed  = errors.New("the sandbox ends, because it could not be brought up")
	errLeft      = errors.New("the cluster that was there before stays")
)

// Programs are the paths of the programs of a sandbox. Empty = not found.
type Binaries struct {
	// Daemon is koupsandbox, or a program that has its hidden commands. It also runs in a node, to send requests from there.
	Daemon string
	// ControlPlane is koup-controlplane; required for the provider embedded.
	ControlPlane string
	// Controller is module-controller.
	Controller string
	// Base is fakebase; required for bases in Pods.
	Base string
}

// Options of a Daemon.
type Options struct {
	// Dir is the sandbox's state folder, which exists. Required.
	Dir state.Dir
	// Programs to run. Required.
	Binaries Binaries
	// Logger of the daemon. Default: nothing is logged.
	Logger *slog.Logger

	// open makes the cluster; tests replace it. Default: by the provider.
	open func(clusterOptions) (Cluster, error)
	// client makes a client for many objects; tests replace it. Default: cluster.NewClient.
	client func(*cluster.Cluster) (kubernetes.Interface, error)
}

// Daemon runs one sandbox.
type Daemon struct {
	o          Options
	log        *slog.Logger
	supervisor *supervise.Supervisor
	startedAt  time.Time

	// changes is held whole by up, down and scaling. An action on a component holds a share, because one action may have to
	// start the broker that another one waits for.
	changes *semaphore.Weighted
	// ending ends with the cause errDown, errAbandoned or errUpFailed when the end begins.
	ending context.Context
	end    context.CancelCauseFunc
	// stopped is closed when everything has been stopped.
	stopped chan struct{}
	stopErr error // read after stopped

	mu          sync.Mutex // guards what follows
	phase       control.Phase
	config      *v1alpha1.Sandbox         // the effective one; replaced as a whole; nil before the first up
	controllers control.ControllerRequest // what was asked of the controllers last
	parts       [partCount]supervise.Part // nil until they are made
	running     *running                  // nil until it has been assembled
	repairs     repairs
	undo        []func(context.Context) error

	up      chan struct{} // closed at the first up
	streams streams
	// faultsNamed is how many faults have got their ids here.
	faultsNamed atomic.Int64
}

// The parts of a sandbox in the order in which status lists them, after the daemon itself.
const (
	brokerPart = iota
	basesPart
	podsPart
	clusterPart
	runnerPart
	partCount
)

// New returns a daemon that has started nothing.
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
		o:         o,
		log:       o.Logger,
		startedAt: time.Now(),
		changes:   semaphore.NewWeighted(whole),
		stopped:   make(chan struct{}),
		phase:     control.Idle,
		up:        make(chan struct{}),
	}
	d.ending, d.end = context.WithCancelCause(context.Background())
	d.supervisor = supervise.New(supervise.Options{Dir: o.Dir.Run(), Logger: o.Logger, Changed: d.componentChanged})
	return d
}

// Start serves the control API until the sandbox is taken down, ctx ends, the first up fails, or none comes within 10 s.
// Then it stops everything, and returns. It can be called once.
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
		return errors.Join(fmt.Errorf("noting the daemon's process: %w", err), listener.Close())
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
		d.log.Warn("no command has asked for the sandbox")
		d.end(errDown)
	case <-d.ending.Done():
	case <-ctx.Done():
	}
	select {
	case <-d.ending.Done():
	case <-ctx.Done():
	case err = <-served:
		served <- err
	}
	d.end(errDown)
	d.stop(ctx)
	err = d.stopErr

	// Answers that are on their way get out; streams of events end with ending.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if shutErr := server.Shutdown(last); shutErr != nil {
		err = errors.Join(err, server.Close())
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving the control API: %w", serveErr))
	}
	if err == nil && errors.Is(d.ends(), errAbandoned) {
		err = d.o.Dir.Remove(false) // nobody else will
	}
	d.log.Info("daemon ended", "err", err)
	return err
}

// untilEnd returns a context that ends with ctx, and when the sandbox is taken down.
func (d *Daemon) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(d.ending, func() { cancel(d.ends()) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// acquire takes the right to change the sandbox. It returns the context of untilEnd.
func (d *Daemon) acquire(ctx context.Context, share int64) (context.Context, func(), error) {
	ctx, cancel := d.untilEnd(ctx)
	if err := d.changes.Acquire(ctx, share); err != nil {
		err = context.Cause(ctx)
		cancel()
		return nil, nil, err
	}
	release := func() {
		cancel()
		d.changes.Release(share)
	}
	if d.ending.Err() != nil { // Acquire may succeed all the same
		release()
		return nil, nil, d.ends()
	}
	return ctx, release, nil
}

// The shares of Daemon.changes.
const (
	aShare = 1
	whole  = 1 << 20
)

// Up brings the sandbox up, or a running one in line with the request.
func (d *Daemon) Up(ctx context.Context, r control.UpRequest, sink func(progress.Event)) (*control.UpResult, error) {
	v1alpha1.SetDefaults(r.Config)
	if errs := v1alpha1.Validate(r.Config); len(errs) > 0 {
		return nil, badRequest("%v", errs.ToAggregate())
	}
	result, err := d.exclusiveUp(ctx, r, sink)
	if err != nil && d.ending.Err() != nil { // a failed up leaves nothing running
		<-d.stopped
		err = errors.Join(err, d.stopErr)
	}
	return result, err
}

func (d *Daemon) exclusiveUp(ctx context.Context, r control.UpRequest, sink func(progress.Event)) (*control.UpResult,
	error) {
	ctx, release, err := d.acquire(ctx, whole)
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
			d.end(errUpFailed)
		} else {
			d.setPhase(control.Running)
			go debug.FreeOSMemory() // what only coming up needed; nobody waits for it
		}
	}
	if err != nil {
		return nil, err
	}
	result.Status = d.Status(ctx, false)
	return result, nil
}

// Down stops everything, and blocks until that is done. The daemon ends afterwards.
func (d *Daemon) Down() error {
	d.end(errDown)
	<-d.stopped
	return d.stopErr
}

// Hold blocks until the sandbox is taken down. When ctx ends first, Hold takes the sandbox down.
func (d *Daemon) Hold(ctx context.Context, held func()) {
	held()
	select {
	case <-ctx.Done():
		d.log.Info("takes the sandbox down, as the command that it was for has gone")
		d.end(errAbandoned)
	case <-d.ending.Done():
	}
}

// DownTime is how long a daemon with so many bases may take to stop everything.
func DownTime(bases int) time.Duration { return downTime + time.Duration(bases)*downTimeEach }

// stop undoes what the first up has begun. ending has ended, which cancels changes in progress.
func (d *Daemon) stop(ctx context.Context) {
	_ = d.changes.Acquire(context.WithoutCancel(ctx), whole) // for good; it fails with its context only
	d.setPhase(control.Stopping)
	bases := 0
	if s, ok := d.assembled(); ok {
		bases = len(s.fleet.Known())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DownTime(bases))
	defer cancel()
	d.mu.Lock()
	undo := d.undo
	d.mu.Unlock()
	var errs []error
	for _, f := range slices.Backward(undo) {
		errs = append(errs, f(ctx))
	}
	errs = append(errs, d.supervisor.StopAll(ctx)) // also processes that no undo knows
	d.stopErr = errors.Join(errs...)
	close(d.stopped)
}

func (d *Daemon) show(place int, p supervise.Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parts[place] = p
}

func (d *Daemon) shown() []supervise.Part {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.parts[:]), func(p supervise.Part) bool { return p == nil })
}

// assembled returns the parts of the sandbox when all are made. They may not run yet.
func (d *Daemon) assembled() (s *running, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running, d.running != nil
}

// isUp returns the parts of the sandbox, or an error unless the first up has succeeded.
func (d *Daemon) isUp() (*running, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase != control.Running {
		return nil, conflict("the sandbox is not up yet")
	}
	return d.running, nil
}

// configNow is the effective configuration; whoever changes it replaces it.
func (d *Daemon) configNow() *v1alpha1.Sandbox {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
}

func (d *Daemon) ends() error { return context.Cause(d.ending) }

func (d *Daemon) phaseNow() control.Phase {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase
}

func (d *Daemon) setPhase(p control.Phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = p
}
