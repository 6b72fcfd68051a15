package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Spec says how a component is started, recognised as ready, and stopped.
type Spec struct {
	// Name of the component and of its run record; letters, digits, dots and dashes.
	Name string
	// Path of the program, and its arguments.
	Path string
	Args []string
	// Env has variables in the form KEY=value, in addition to the variables of ComponentEnviron. If a key
	// occurs twice, the last value is used.
	Env []string
	// Dir to run in; empty means that of this process.
	Dir string
	// LogFile receives standard output and standard error, appended; empty means that they are discarded.
	LogFile string
	// Metrics is the URL of its metrics, for Status; empty if it has none.
	Metrics string
	// Ready returns nil when the component does its work, or what is missing; nil means ready as
	// soon as it runs.
	Ready func(context.Context) error
	// ReadyLog replaces Ready: the component is ready when it has logged a matching line since its start. It needs
	// LogFile.
	ReadyLog *regexp.Regexp
	// Group sends signals to the whole process group, and kills what is left of the group when the component ends.
	Group bool
	// StopSignal asks the component to end; nil means SIGTERM.
	StopSignal os.Signal
	// StopTimeout is how long Stop waits after StopSignal before SIGKILL; zero means 5 s.
	StopTimeout time.Duration
}

func (s Spec) stopTimeout() time.Duration { return cmp.Or(s.StopTimeout, 5*time.Second) }

// pollPeriod is the time between two calls of Spec.Ready.
const pollPeriod = 20 * time.Millisecond

// Options of a Supervisor.
type Options struct {
	// Dir holds the run records; it is made if it is missing. Required.
	Dir string
	// Logger is told of every start and exit; nil means silence.
	Logger *slog.Logger
	// OnChange is told when a component starts, ends, is paused or goes on; it must not block. Nil
	// means nobody is told.
	OnChange func(StateChange)
}

// Supervisor starts and stops components. Its methods may be called concurrently.
type Supervisor struct {
	dir     string
	logger  *slog.Logger
	changed func(StateChange)

	mu         sync.Mutex
	components map[string]*component
	starts     int
}

// component is one name; its run is replaced with every start.
type component struct {
	opMu sync.Mutex // held by Start, Stop and Restart from beginning to end

	spec Spec // guarded by Supervisor.mu, as is run
	run  *run
}

// run is one process, from its start to its end.
type run struct {
	number        int // in order of start
	process       *os.Process
	start         string // identity, see usage.start
	startedAt     time.Time
	logOffset     int64
	stopRequested atomic.Bool // Stop or Kill asked for the end
	group         bool        // see Spec.Group
	logged        atomic.Bool // a line that fits Spec.ReadyLog was seen

	done chan struct{}
	exit string // how it ended; read it after done is closed
}

// New returns a Supervisor with nothing started.
func New(o Options) *Supervisor {
	return &Supervisor{
		dir:        o.Dir,
		logger:     cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		changed:    o.OnChange,
		components: map[string]*component{},
	}
}

// Start starts spec in its own process group, which Ctrl-C on a terminal does not reach, and writes its run record. It
// does not wait until the component is ready. The process outlives ctx and the Supervisor. It is an error if the
// component already runs.
func (s *Supervisor) Start(ctx context.Context, spec Spec) error {
	if err := validName(spec.Name); err != nil {
		return err
	}
	s.mu.Lock()
	c := s.components[spec.Name]
	if c == nil {
		c = &component{}
		s.components[spec.Name] = c
	}
	s.mu.Unlock()

	c.opMu.Lock()
	defer c.opMu.Unlock()
	return s.start(ctx, c, spec)
}

func (s *Supervisor) start(ctx context.Context, c *component, spec Spec) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	if _, r := s.current(c); r != nil && !r.ended() {
		return fmt.Errorf("starting %s: it already runs as process %d", spec.Name, r.process.Pid)
	}
	r, err := launch(spec)
	if err != nil {
		return fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	s.mu.Lock()
	s.starts++
	r.number = s.starts
	c.spec, c.run = spec, r
	s.mu.Unlock()

	s.notify(spec.Name, Running, "")
	go s.wait(spec.Name, r)
	if err := writeRecord(s.dir, newRecord(spec, r)); err != nil {
		_ = r.process.Kill() // without a record nobody could find it after a crash
		<-r.done
		return fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	s.logger.Info("component started", "component", spec.Name, "pid", r.process.Pid)
	return nil
}

func launch(spec Spec) (*run, error) {
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append(ComponentEnviron(os.Environ()), spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	r := &run{startedAt: time.Now(), group: spec.Group, done: make(chan struct{})}
	if spec.LogFile != "" {
		log, offset, err := openLog(spec.LogFile)
		if err != nil {
			return nil, err
		}
		defer func() { _ = log.Close() }() // the child has its own copy
		cmd.Stdout, cmd.Stderr, r.logOffset = log, log, offset
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.process = cmd.Process
	// A process that has ended at once leaves its start time empty, which matches no process.
	u, err := inspect(r.process.Pid)
	if err != nil && !errors.Is(err, errNoProcess) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	r.start = u.start
	return r, nil
}

func openLog(path string) (*os.File, int64, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (s *Supervisor) wait(name string, r *run) {
	state, err := r.process.Wait()
	if err != nil {
		r.exit = err.Error()
	} else {
		r.exit = state.String()
	}
	if r.group { // those that it leaves behind; a group that is empty has no processes
		_ = syscall.Kill(-r.process.Pid, syscall.SIGKILL)
	}
	defer close(r.done)
	s.notify(name, Exited, r.exit)
	tell := s.logger.Warn
	if r.stopRequested.Load() {
		tell = s.logger.Info
	}
	tell("component exited", "component", name, "pid", r.process.Pid, "exit", r.exit)
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// WaitReady polls the component's Ready until it returns nil. When the process exits or ctx ends
// before that it returns a *NotReadyError.
func (s *Supervisor) WaitReady(ctx context.Context, name string) error {
	spec, r, err := s.find(name)
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", name, err)
	}
	return s.WaitUntil(ctx, name, spec.readiness(r))
}

// WaitUntil is WaitReady with another function in place of the component's Ready. nil waits until the process runs.
func (s *Supervisor) WaitUntil(ctx context.Context, name string, ready func(context.Context) error) error {
	spec, r, err := s.find(name)
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", name, err)
	}
	failed := func(reason string, cause error) error {
		return &NotReadyError{
			Name: name, Reason: reason, Exited: cause == nil, LogFile: spec.LogFile,
			LastLines: Tail(spec.LogFile, r.logOffset, lastLines),
			offset:    r.logOffset, cause: cause,
		}
	}
	// ends with the process too, so that a hanging Ready does not hide its exit
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.done:
			cancel()
		case <-attempt.Done():
		}
	}()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	var last error
	for {
		if r.ended() {
			return failed("it exited: "+r.exit, nil)
		}
		if ready == nil {
			return nil
		}
		err := ready(attempt)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // the error of a call that ctx cut off says less than the one before
		}
		select {
		case <-tick.C:
		case <-r.done:
		case <-ctx.Done():
			return failed(last.Error(), context.Cause(ctx))
		}
	}
}

// Stop ends the component, and removes its run record. It kills the process after StopTimeout, or when ctx ends. It is
// not an error if the component does not run.
func (s *Supervisor) Stop(ctx context.Context, name string) error {
	s.mu.Lock()
	c := s.components[name]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	c.opMu.Lock()
	defer c.opMu.Unlock()
	return s.stop(ctx, c)
}

// Remove is Stop, and removes the component from Status.
func (s *Supervisor) Remove(ctx context.Context, name string) error {
	if err := s.Stop(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.components, name)
	return nil
}

func (s *Supervisor) stop(ctx context.Context, c *component) error {
	spec, r := s.current(c)
	if r == nil {
		return nil
	}
	r.stopRequested.Store(true)
	err := endProcess(ctx, r.process, r.group, r.done, cmp.Or(spec.StopSignal, os.Signal(syscall.SIGTERM)),
		spec.stopTimeout())
	if err == nil {
		err = removeRecord(s.dir, spec.Name)
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", spec.Name, err)
	}
	return nil
}

func send(p *os.Process, group bool, sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !group || !ok {
		return p.Signal(sig)
	}
	err := syscall.Kill(-p.Pid, number)
	if errors.Is(err, syscall.ESRCH) {
		err = os.ErrProcessDone
	}
	return err
}

// endProcess signals p, continues it in case it is paused, and kills it when it has not gone after
// timeout.
func endProcess(ctx context.Context, p *os.Process, group bool, gone <-chan struct{}, sig os.Signal,
	timeout time.Duration) error {
	for _, sig := range []os.Signal{sig, syscall.SIGCONT} {
		if err := ignoreDone(send(p, group, sig)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	if err := ignoreDone(send(p, group, syscall.SIGKILL)); err != nil {
		return err
	}
	<-gone // SIGKILL cannot be refused
	return nil
}

// StopAll stops every component, the one started last first, and joins the errors.
func (s *Supervisor) StopAll(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Backward(s.names()) {
		errs = append(errs, s.Stop(ctx, name))
	}
	return errors.Join(errs...)
}

// Kill ends the component with SIGKILL, and waits for its end. Status lists it as exited.
func (s *Supervisor) Kill(name string) error {
	_, r, err := s.find(name)
	if err == nil {
		r.stopRequested.Store(true)
		err = ignoreDone(send(r.process, r.group, syscall.SIGKILL))
	}
	if err != nil {
		return fmt.Errorf("killing %s: %w", name, err)
	}
	<-r.done
	return nil
}

// Pause halts the component with SIGSTOP, and waits until it has stopped.
func (s *Supervisor) Pause(name string) error {
	return s.signal("pausing", name, syscall.SIGSTOP, Paused)
}

// Resume continues a paused component.
func (s *Supervisor) Resume(name string) error {
	return s.signal("resuming", name, syscall.SIGCONT, Running)
}

func (s *Supervisor) signal(doing, name string, sig os.Signal, now State) error {
	_, r, err := s.find(name)
	if err == nil {
		if r.ended() {
			err = os.ErrProcessDone
		} else if err = send(r.process, r.group, sig); err == nil {
			r.awaitState(now == Paused)
			s.notify(name, now, "")
		}
	}
	if errors.Is(err, os.ErrProcessDone) {
		err = errors.New("it does not run")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, name, err)
	}
	return nil
}

// awaitState waits until the process has stopped or continued after a signal. It returns after settleWithin, because another
// program may have sent another signal.
func (r *run) awaitState(halted bool) {
	for until := time.Now().Add(signalTimeout); time.Now().Before(until); time.Sleep(signalPoll) {
		if u, err := inspect(r.process.Pid); err != nil || u.start != r.start || u.stopped == halted {
			return
		}
	}
}

const (
	signalTimeout = time.Second
	signalPoll    = time.Millisecond
)

// Restart stops the component, and starts it with the same Spec. It does not wait until the component is ready.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	s.mu.Lock()
	c := s.components[name]
	s.mu.Unlock()
	if c == nil {
		return fmt.Errorf("restarting %s: %w", name, ErrUnknown)
	}
	c.opMu.Lock()
	defer c.opMu.Unlock()
	if err := s.stop(ctx, c); err != nil {
		return err
	}
	spec, r := s.current(c)
	if r == nil {
		return fmt.Errorf("restarting %s: %w", name, ErrUnknown)
	}
	return s.start(ctx, c, spec)
}

// current returns the component's last spec and run; run is nil if it never started.
func (s *Supervisor) current(c *component) (Spec, *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.spec, c.run
}

func (s *Supervisor) find(name string) (Spec, *run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.components[name]
	if c == nil || c.run == nil {
		return Spec{}, nil, ErrUnknown
	}
	return c.spec, c.run, nil
}

// names lists the components that were started, in the order of their last start.
func (s *Supervisor) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, c := range s.components {
		if c.run != nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(s.components[a].run.number, s.components[b].run.number)
	})
	return names
}
