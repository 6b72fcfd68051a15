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
	// endTime is how long a daemon that has nothing to remove may take to end, before it is killed with
	// all that it has started.
	endTime = 15 * time.Second
	// spareTime is how much longer a daemon that was told to end is waited for than it takes at most.
	spareTime = 5 * time.Second
)

type (
	// Event is one step of what goes on.
	Event = progress.Event
	// Client is the control API of a running sandbox.
	Client = control.Client
	// Status of a sandbox.
	Status = control.Status
	// Base is one simulated base of a sandbox.
	Base = control.Base
	// AddRequest asks Client for more bases.
	AddRequest = control.AddRequest
	// RemoveRequest names the bases that Client is to remove.
	RemoveRequest = control.RemoveRequest
	// RestartRequest says how Client is to restart a base.
	RestartRequest = control.RestartRequest
	// Action is what Client can do to a component: kill, pause, resume, restart, stop or start.
	Action = supervise.Action
	// ActRequest does something to a component.
	ActRequest = control.ActRequest
	// ControllerRequest says what module controllers Client is to provide.
	ControllerRequest = control.ControllerRequest
	// FaultSelector selects faults.
	FaultSelector = control.FaultSelector
	// WatchRequest says what a stream of Client's events is to tell.
	WatchRequest = control.WatchRequest
	// Error is a failure that the daemon reports; its Code is an HTTP status.
	Error = control.Error
	// Component is a part of a sandbox, as Status lists it.
	Component = control.Component
	// Result says what an Up has done.
	Result = control.UpResult
)

// ErrNotUp is returned, wrapped, for a sandbox without a running daemon.
var ErrNotUp = errors.New("not up")

// Options of Up.
type Options struct {
	// Home is the folder with the folders of all sandboxes. Required.
	Home string
	// Config says what to bring up; it has passed v1alpha1.Complete. Required.
	Config *v1alpha1.Sandbox
	// KeepBases keeps the number of bases of a running sandbox. Default: it becomes that of Config.
	KeepBases bool
	// BrokerPassword is that for the user's broker, spec.broker.url. Default: what is
	// in spec.broker.passwordFile.
	BrokerPassword string
	// Programs to run. Required.
	Binaries Binaries
	// DownOnClose takes a sandbox that this Up starts down when the process ends, or Close is called. Default: it stays up.
	DownOnClose bool
	// Progress gets the steps. Default: nothing is told.
	Progress func(Event)
}

// Sandbox is a sandbox that is up. It is a Client of its daemon.
type Sandbox struct {
	*Client
	// Name of the sandbox.
	Name string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Result of the Up that returned it; nil from Open.
	Result *Result

	process *process // nil when the daemon was there before
	letGo   func()   // of what DownOnClose holds
}

// Close ends the connections to the daemon.
func (s *Sandbox) Close() {
	if s.letGo != nil {
		s.letGo()
	}
	s.Client.Close()
}

func (s *Sandbox) hold(ctx context.Context) error {
	ctx, s.letGo = context.WithCancel(context.WithoutCancel(ctx))
	held, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Hold(ctx, func() { close(held) }) }()
	select {
	case <-held:
		return nil
	case err := <-ended:
		return fmt.Errorf("tying the sandbox to this command: %w", err)
	}
}

// Wait blocks until the daemon that this Up has started ends, and returns its error, or until ctx ends.
func (s *Sandbox) Wait(ctx context.Context) error {
	var ended chan struct{} // nil if the daemon runs since an earlier Up
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

// Up brings a sandbox up, or brings a running one in line with the configuration, and blocks until everything is ready.
// When it fails, or ctx ends, it stops what it has started. If it failed, it keeps the logs, and the error has their path.
// It keeps a cluster of an earlier run. A concurrent Up of the same name fails with state.ErrBusy. For a folder that
// koupsandbox has not created, Up returns state.ErrNotOwned and changes nothing.
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
	unlock, err := home.Lock(ctx, name, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s := &Sandbox{Name: name, Kubeconfig: dir.Kubeconfig()}
	var status *Status
	s.Client, status, err = reach(ctx, dir)
	if err != nil {
		return nil, err // a daemon may be running: stop nothing
	}
	if s.Client != nil {
		if err := fits(name, status); err != nil {
			s.Close()
			return nil, err
		}
		s.Result, err = s.Up(ctx, control.UpRequest{Config: o.Config, KeepBases: o.KeepBases}, o.Progress)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("%w\nthe sandbox was up before and is left as it is; see: koupsandbox status", err)
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
		return nil, undo(ctx, dir, s, found, err)
	}
	return s, nil
}

// foundCluster reports whether an earlier run has left a cluster that this configuration uses again.
func foundCluster(dir state.Dir, config *v1alpha1.Sandbox) bool {
	lasts := func(s *v1alpha1.Sandbox) bool {
		return daemon.EffectiveProvider(s) == v1alpha1.ProviderKind || s.Spec.Durable
	}
	earlier, err := effective(dir)
	return err == nil && lasts(earlier) && lasts(config)
}

// prepare ends the processes of an earlier run, checks the programs, and makes the state folder.
func prepare(ctx context.Context, dir state.Dir, o Options, steps *progress.Steps) error {
	ended, err := supervise.CleanStale(ctx, dir.Run())
	if err != nil {
		return fmt.Errorf("cleaning up after an earlier run: %w", err)
	}
	if dir.InUse() {
		steps.Note(fmt.Sprintf("an earlier run ended without a down; ended %d left-over processes of it", len(ended)))
	}
	if err := checkPrograms(o.Binaries, o.Config); err != nil {
		return err
	}
	if err := checkVersions(ctx, o.Binaries); err != nil {
		return err
	}
	return dir.Create()
}

// undo ends what a failed or cancelled up has started, and returns the error to show. If found is true, it keeps the
// cluster that existed before, and the folder.
func undo(ctx context.Context, dir state.Dir, s *Sandbox, found bool, cause error) error {
	cancelled := ctx.Err() != nil
	// The command's own context may have ended; ending things must not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if s.process != nil {
		s.process.end(ctx)
	}
	_, err := supervise.CleanStale(ctx, dir.Run())
	if err != nil && !found {
		return errors.Join(cause, err, kept(dir, s.Name)) // the run records are all that leads to the processes
	}
	if found {
		return errors.Join(fmt.Errorf(
			"%w\neverything that was started has been stopped, and what was there before is kept in %s: try again, "+
				"or give it up with: koupsandbox down --name %s",
			cause, dir, s.Name), err)
	}
	if dir.InUse() { // a daemon that was killed has left more than processes
		if _, forgetErr := forget(ctx, dir); forgetErr != nil {
			return errors.Join(cause, err, forgetErr) // the folder stays for a down
		}
	}
	err = errors.Join(err, dir.Remove(!cancelled))
	if !cancelled {
		cause = fmt.Errorf("%w\neverything that was started has been stopped; the logs are in %s", cause, dir.Logs())
	}
	return errors.Join(cause, err)
}

// reach returns a client of the sandbox's daemon and the daemon's status, or nil when no daemon answers.
// When ctx ends first, it returns the cause, because the daemon may run.
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

// Open returns a sandbox that is up, or ErrNotUp, wrapped. It is an error if another version of koupsandbox has brought
// the sandbox up.
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
		if err := fits(name, status); err != nil {
			client.Close()
			return nil, err
		}
		return &Sandbox{Client: client, Name: name, Kubeconfig: dir.Kubeconfig()}, nil
	case dir.InUse():
		return nil, fmt.Errorf("sandbox %q is %w: its daemon is gone; bring it up again with: koupsandbox up --name %s",
			name, ErrNotUp, name)
	default:
		return nil, fmt.Errorf("sandbox %q is %w; bring it up with: koupsandbox up --name %s", name, ErrNotUp, name)
	}
}

// DownOptions of Down.
type DownOptions struct {
	// Home is the folder with the folders of all sandboxes. Required.
	Home string
	// Name of the sandbox. Required.
	Name string
	// KeepLogs leaves the logs in the state folder. Default: everything goes.
	KeepLogs bool
	// Force is called with an error that lists the processes and objects that could not be removed; the folder
	// is removed nevertheless. Default: Down returns the error and keeps the folder.
	Force func(left error)
}

// Down stops a sandbox and removes its state folder. It reports whether there was a sandbox. Without the
// daemon, it uses the run records. A concurrent Up of the same sandbox fails. If a process, an object in a
// cluster or a kind cluster cannot be removed, Down keeps the folder, so that another Down tries again; with
// Force it removes the folder. For a folder that koupsandbox has not created, Down returns state.ErrNotOwned and
// changes nothing.
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
		asking, cancel := context.WithTimeout(ctx, daemon.DownTime(status.BaseCount)+spareTime)
		err = client.Down(asking) // a daemon that hangs is killed below
		cancel()
		client.Close()
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
		if o.Force == nil { // the run records are all that leads to the processes
			return used, errors.Join(err, cleanErr, kept(dir, o.Name))
		}
		o.Force(cleanErr)
	}
	if used && (client == nil || err != nil) {
		all, forgetErr := forget(ctx, dir)
		switch {
		case forgetErr == nil && all:
			err = nil
		case forgetErr != nil && o.Force != nil:
			o.Force(errors.Join(err, forgetErr))
			err = nil
		case forgetErr != nil:
			return used, errors.Join(err, forgetErr, kept(dir, o.Name))
		}
	}
	return used, errors.Join(err, dir.Remove(o.KeepLogs))
}

func kept(dir state.Dir, name string) error {
	return fmt.Errorf("the records of the sandbox are kept in %s, so that you can run down again; "+
		"to give up the remaining objects, run: koupsandbox down --name %s --force", dir, name)
}

// forget removes the objects of a sandbox without its daemon. all reports whether nothing else can be left; this is not
// known in an existing cluster or at an external broker.
func forget(ctx context.Context, dir state.Dir) (all bool, err error) {
	config, err := effective(dir)
	if err != nil {
		return false, err
	}
	all = daemon.EffectiveProvider(config) == v1alpha1.ProviderKind && config.Spec.Broker.URL == ""
	return all, daemon.Forget(ctx, dir, config)
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
