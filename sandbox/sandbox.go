package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/daemon"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// endTime is how long to wait for a daemon with nothing to clean up to exit before the daemon and its processes
	// are killed.
	endTime = 15 * time.Second
	// stopPoll is the polling interval while a sandbox is shutting down.
	stopPoll = 100 * time.Millisecond
	// spareTime is added to daemon.StopTimeout when Down waits for the daemon.
	spareTime = 5 * time.Second
)

type (
	// Event reports the progress of an up.
	Event = progress.Event
	// Client is a client for the control API of a running sandbox.
	Client = control.Client
	// Status is the status of a sandbox.
	Status = control.Status
	// Base is the status of one simulated base of a sandbox.
	Base = control.Base
	// AddRequest is a request to add bases.
	AddRequest = control.AddRequest
	// RemoveRequest is a request to remove bases.
	RemoveRequest = control.RemoveRequest
	// RestartRequest is a request to restart a base.
	RestartRequest = control.RestartRequest
	// Action is an action on a component: kill, pause, resume, restart, stop or start.
	Action = supervise.Action
	// ActRequest is a request to perform an action on a component.
	ActRequest = control.ActRequest
	// ControllerRequest describes the desired configuration of the module controllers.
	ControllerRequest = control.ControllerRequest
	// FaultSelector selects faults.
	FaultSelector = control.FaultSelector
	// WatchRequest selects the events that Client.Watch reports.
	WatchRequest = control.WatchRequest
	// Error is an error that the daemon has returned. Its Code is an HTTP status code.
	Error = control.Error
	// Component is the status of one component of a sandbox.
	Component = control.Component
	// Result is the result of Up.
	Result = control.UpResult
)

// ErrNotUp is wrapped in the error for a sandbox whose daemon is not running.
var ErrNotUp = errors.New("not up")

// Options configures Up.
type Options struct {
	// Home is the parent directory of the state directories of all sandboxes. Required.
	Home string
	// Config is the configuration of the sandbox, completed by v1alpha1.Complete. Required.
	Config *v1alpha1.Sandbox
	// KeepBases keeps the current number of bases if the sandbox is running. Default: Up changes it to the number in
	// Config.
	KeepBases bool
	// BrokerPassword is the password of the external broker. Default: the content of spec.broker.passwordFile.
	BrokerPassword string
	// Binaries contains the paths of the binaries to run. Required.
	Binaries Binaries
	// DownOnClose takes the sandbox down when the process exits or Close is called, provided that this Up has started
	// the sandbox. Default: the sandbox continues to run.
	DownOnClose bool
	// Progress is called for each progress event. Default: progress is not reported.
	Progress func(Event)
}

// Sandbox is a running sandbox. It embeds a Client of the sandbox daemon.
type Sandbox struct {
	*Client
	// Name is the name of the sandbox.
	Name string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Result is the result of the Up that returned this Sandbox. It is nil if the Sandbox was returned by Open.
	Result *Result

	process     *process // nil if this Up did not start the daemon
	releaseHold func()   // ends the call of Hold; see Options.DownOnClose
}

// Close closes the connections to the daemon. It also takes the sandbox down if Options.DownOnClose requires this.
func (s *Sandbox) Close() {
	if s.releaseHold != nil {
		s.releaseHold()
	}
	s.Client.Close()
}

func (s *Sandbox) hold(ctx context.Context) error {
	ctx, s.releaseHold = context.WithCancel(context.WithoutCancel(ctx))
	held, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Hold(ctx, func() { close(held) }) }()
	select {
	case <-held:
		return nil
	case err := <-ended:
		return fmt.Errorf("opening the connection that keeps the sandbox running: %w", err)
	}
}

// Wait blocks until the daemon exits, and returns the daemon's error. If this Up did not start the daemon, Wait
// blocks until ctx is done. It returns nil if ctx is done first.
func (s *Sandbox) Wait(ctx context.Context) error {
	var ended chan struct{} // nil if the daemon was already running
	if s.process != nil {
		ended = s.process.done
	}
	select {
	case <-ended:
		return s.process.err
	case <-ctx.Done():
		return nil
	}
}

// Up creates a sandbox, or reconciles a running sandbox with the configuration, and blocks until everything is ready.
// If Up fails or ctx is done, it stops everything that it has started, except a cluster from an earlier run, which it
// keeps. After a failure, it keeps the logs, and the error contains their path. If the sandbox is shutting down, Up
// first waits until it has stopped. During another Up of the same sandbox, the error wraps state.ErrBusy. If
// koupsandbox has not created the state directory, the error wraps state.ErrNotOwned, and Up changes nothing.
func Up(ctx context.Context, o Options) (*Sandbox, error) {
	home := state.Home(o.Home)
	name := o.Config.Metadata.Name
	if o.Progress == nil {
		o.Progress = func(Event) {}
	}
	dir := home.Dir(name)
	if _, err := dir.Owned(); err != nil {
		return nil, err
	}
	unlock, client, status, err := lockAndReach(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s := &Sandbox{Client: client, Name: name, Kubeconfig: dir.Kubeconfig()}
	if s.Client != nil {
		if err := checkVersion(name, status); err != nil {
			s.Close()
			return nil, err
		}
		s.Result, err = s.Up(ctx, control.UpRequest{Config: o.Config, KeepBases: o.KeepBases}, o.Progress)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("%w\nthe sandbox was already running and keeps its state; see: koupsandbox status",
				err)
		}
		return s, nil
	}
	steps := progress.New(o.Progress)
	request := control.UpRequest{KeepBases: o.KeepBases, BrokerPassword: o.BrokerPassword, OwnEnv: ownEnv(o.Config)}
	var notes []string
	o.Config, notes, err = resolve(ctx, dir, o.Config)
	if err != nil {
		return nil, err
	}
	request.Config = o.Config
	found := foundCluster(dir, o.Config)
	if err := prepare(ctx, dir, o, steps); err != nil {
		return nil, err
	}
	for _, note := range notes {
		steps.Note(note)
	}
	err = steps.Step(ctx, "Starting daemon", func(ctx context.Context) (err error) {
		s.process, err = launch(ctx, dir, o)
		return err
	})
	if err == nil {
		s.Client = control.NewClient(dir.SocketPath())
		s.Result, err = s.Up(ctx, request, o.Progress)
		if err == nil && o.DownOnClose {
			err = s.hold(ctx)
		}
		if err != nil {
			s.Close()
		}
	}
	if err != nil {
		return nil, cleanUp(ctx, dir, s, found, err)
	}
	return s, nil
}

// foundCluster reports whether the sandbox will reuse a cluster from an earlier run.
func foundCluster(dir state.Dir, config *v1alpha1.Sandbox) bool {
	keepsCluster := func(s *v1alpha1.Sandbox) bool {
		return daemon.EffectiveProvider(s) == v1alpha1.ProviderKind || s.Spec.Durable
	}
	earlier, err := effective(dir)
	return err == nil && keepsCluster(earlier) && keepsCluster(config)
}

// prepare stops the processes that an earlier run has left, checks the binaries, and creates the state directory.
func prepare(ctx context.Context, dir state.Dir, o Options, steps *progress.Steps) error {
	ended, err := supervise.CleanStale(ctx, dir.Run())
	if err != nil {
		return fmt.Errorf("cleaning up an earlier run: %w", err)
	}
	if dir.InUse() {
		steps.Note(fmt.Sprintf("an earlier run was not stopped with down; stopped its remaining processes (%d)",
			len(ended)))
	}
	if err := checkBinaries(o.Binaries, o.Config); err != nil {
		return err
	}
	if err := checkVersions(ctx, o.Binaries); err != nil {
		return err
	}
	return dir.Create()
}

// cleanUp stops everything that a failed or canceled up has started, and returns the error to show to the user. If
// found is true, the up has reused the cluster of an earlier run, and cleanUp keeps the cluster and the state
// directory.
func cleanUp(ctx context.Context, dir state.Dir, s *Sandbox, found bool, cause error) error {
	cancelled := ctx.Err() != nil
	// The cleanup continues after the end of the command's context.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if s.process != nil {
		s.process.end(ctx)
	}
	_, err := supervise.CleanStale(ctx, dir.Run())
	if err != nil && !found {
		return errors.Join(cause, err, keptError(dir, s.Name)) // only the run records identify the processes
	}
	if found {
		return errors.Join(fmt.Errorf(
			"%w\neverything that was started has been stopped; the objects of the earlier run and %s are "+
				"kept: try again, "+
				"or remove them with: koupsandbox down --name %s",
			cause, dir, s.Name), err)
	}
	if dir.InUse() { // a killed daemon leaves more than processes
		if _, removeErr := removeObjects(ctx, dir); removeErr != nil {
			return errors.Join(cause, err, removeErr) // keep the state directory for a down
		}
	}
	err = errors.Join(err, dir.Remove(!cancelled))
	if !cancelled {
		cause = fmt.Errorf("%w\neverything that was started has been stopped; the logs are in %s", cause, dir.Logs())
	}
	return errors.Join(cause, err)
}

// reach returns a client for the daemon of the sandbox, and the status of the sandbox. If no daemon responds, both
// are nil. If ctx is done first, reach returns its cause as an error, because a daemon may be running.
func reach(ctx context.Context, dir state.Dir) (*Client, *Status, error) {
	path := dir.SocketPath()
	if path == "" {
		return nil, nil, context.Cause(ctx)
	}
	client := control.NewClient(path)
	status, err := client.Status(ctx, false)
	if err != nil {
		client.Close()
		return nil, nil, context.Cause(ctx)
	}
	return client, status, nil
}

// lockAndReach locks the sandbox and then calls reach. If the sandbox is shutting down, lockAndReach waits until the
// sandbox has stopped. It waits without the lock, because the command that stops the sandbox needs the lock.
func lockAndReach(ctx context.Context, home state.Home, dir state.Dir) (unlock func(), c *Client, s *Status,
	err error) {
	for wait := false; ; wait = true {
		unlock, err = home.Lock(ctx, dir.Name(), wait)
		if err != nil {
			return nil, nil, nil, err
		}
		c, s, err = reach(ctx, dir)
		if err == nil && (c == nil || s.Phase != control.Stopping) {
			return unlock, c, s, nil
		}
		unlock()
		if err != nil {
			return nil, nil, nil, err // a daemon may be running, so nothing is stopped
		}
		c.Close()
		select {
		case <-time.After(stopPoll):
		case <-ctx.Done():
			return nil, nil, nil, context.Cause(ctx)
		}
	}
}

// Open returns a running sandbox. If the sandbox is not running or is shutting down, the error wraps ErrNotUp. Open
// also fails if an incompatible version of koupsandbox has started the sandbox.
func Open(ctx context.Context, home, name string) (*Sandbox, error) {
	dir := state.Home(home).Dir(name)
	if err := dir.CheckOwner(); err != nil {
		return nil, err
	}
	client, status, err := reach(ctx, dir)
	switch {
	case err != nil:
		return nil, err
	case client != nil:
		err := checkVersion(name, status)
		if err == nil && status.Phase == control.Stopping {
			err = fmt.Errorf("sandbox %q is %w: it is shutting down; start it again with: koupsandbox up --name %s",
				name, ErrNotUp, name)
		}
		if err != nil {
			client.Close()
			return nil, err
		}
		return &Sandbox{Client: client, Name: name, Kubeconfig: dir.Kubeconfig()}, nil
	case dir.InUse():
		return nil, fmt.Errorf("sandbox %q is %w: its daemon is not running; start it with: koupsandbox up --name %s",
			name, ErrNotUp, name)
	default:
		return nil, fmt.Errorf("sandbox %q is %w; create it with: koupsandbox up --name %s", name, ErrNotUp, name)
	}
}

// DownOptions configures Down.
type DownOptions struct {
	// Home is the parent directory of the state directories of all sandboxes. Required.
	Home string
	// Name is the name of the sandbox. Required.
	Name string
	// KeepLogs keeps the logs in the state directory. Default: Down removes all files.
	KeepLogs bool
	// Force makes Down remove the state directory even if processes or objects could not be removed. Force is called
	// with an error that lists them. Default: Down returns the error and keeps the state directory.
	Force func(left error)
}

// Down stops a sandbox and removes its state directory. It reports whether the sandbox existed. If the daemon is not
// running, Down uses the run records. Down interrupts an Up of the same sandbox, which then fails. If a process, an
// object in a cluster or a kind cluster cannot be removed, Down keeps the state directory, so that you can repeat
// Down. With Force, it removes the directory nevertheless. If koupsandbox has not created the directory, the error
// wraps state.ErrNotOwned, and Down changes nothing.
func Down(ctx context.Context, o DownOptions) (bool, error) {
	home := state.Home(o.Home)
	dir := home.Dir(o.Name)
	if owned, err := dir.Owned(); !owned {
		return false, err
	}
	reaching, cancel := context.WithTimeout(ctx, endTime)
	client, status, err := reach(reaching, dir) // if the daemon does not answer, CleanStale kills it
	cancel()
	if ctx.Err() != nil {
		return false, err
	}
	err = nil
	if client != nil {
		asking, cancel := context.WithTimeout(ctx, daemon.StopTimeout(status.BaseCount)+spareTime)
		err = client.Down(asking) // a daemon that does not end is killed below
		cancel()
		client.Close()
		if errors.Is(err, control.ErrUnreachable) {
			client, err = nil, nil // the daemon has ended by itself, for example because its client was killed
		}
	}
	waiting, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	unlock, lockErr := home.Lock(waiting, o.Name, true)
	if lockErr != nil {
		return true, errors.Join(err, lockErr)
	}
	defer unlock()
	used := dir.InUse()
	if _, cleanErr := supervise.CleanStale(ctx, dir.Run()); cleanErr != nil {
		if o.Force == nil { // only the run records identify the processes
			return used, errors.Join(err, cleanErr, keptError(dir, o.Name))
		}
		o.Force(cleanErr)
	}
	if used && (client == nil || err != nil) {
		all, removeErr := removeObjects(ctx, dir)
		switch {
		case removeErr == nil && all:
			err = nil
		case removeErr != nil && o.Force != nil:
			o.Force(errors.Join(err, removeErr))
			err = nil
		case removeErr != nil:
			return used, errors.Join(err, removeErr, keptError(dir, o.Name))
		}
	}
	return used, errors.Join(err, dir.Remove(o.KeepLogs))
}

func keptError(dir state.Dir, name string) error {
	return fmt.Errorf("the records of the sandbox are kept in %s, so that you can run down again; "+
		"to abandon the remaining objects, run: koupsandbox down --name %s --force", dir, name)
}

// removeObjects removes the objects of a sandbox without using its daemon. all reports whether it is certain that no
// objects remain, which is never the case in an existing cluster or on an external broker.
func removeObjects(ctx context.Context, dir state.Dir) (all bool, err error) {
	config, err := effective(dir)
	if err != nil {
		return false, err
	}
	all = daemon.EffectiveProvider(config) == v1alpha1.ProviderKind && config.Spec.Broker.URL == ""
	return all, daemon.CleanUp(ctx, dir, config)
}

func effective(dir state.Dir) (*v1alpha1.Sandbox, error) {
	text, err := os.ReadFile(dir.Config())
	var config v1alpha1.Sandbox
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the effective configuration: %w", err)
	}
	return &config, nil
}
