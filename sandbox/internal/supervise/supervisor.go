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

// Spec describes how a component is started, checked and stopped.
type Spec struct {
	// Name is the name of the component and of its run record. It consists of letters, digits, dots and dashes.
	Name string
	// Path is the path of the binary. Args contains its arguments.
	Path string
	Args []string
	// Env contains environment variables in the form KEY=value. They are added to ComponentEnviron. If a key occurs
	// twice, the last value is used.
	Env []string
	// Dir is the working directory of the component; empty means the working directory of this process.
	Dir string
	// LogFile is the path of the file to which standard output and standard error of the component are appended. If
	// it is empty, the output is discarded.
	LogFile string
	// Metrics is the URL of the component's metrics, which Status returns. It is empty if the component has no
	// metrics.
	Metrics string
	// Ready is the readiness check. It returns nil if the component is ready, and otherwise an error with the reason.
	// If Ready is nil, the component is ready as soon as it is running.
	Ready func(context.Context) error
	// ReadyLog replaces Ready: the component is ready once it has logged a line that matches ReadyLog since it was
	// started. Requires LogFile.
	ReadyLog *regexp.Regexp
	// Group makes the Supervisor send signals to the whole process group of the component. When the process of the
	// component exits, the other processes in the group are killed.
	Group bool
	// StopSignal is the signal that asks the component to stop. Default: SIGTERM.
	StopSignal os.Signal
	// StopTimeout is how long a process may run after StopSignal before it is killed. Default: 5 s.
	StopTimeout time.Duration
}

func (s Spec) stopTimeout() time.Duration { return cmp.Or(s.StopTimeout, 5*time.Second) }

// pollPeriod is the interval between calls of Spec.Ready.
const pollPeriod = 20 * time.Millisecond

// Options configures a Supervisor.
type Options struct {
	// Dir is the directory of the run records. It is created if it does not exist. Required.
	Dir string
	// Logger logs each start and exit of a component. Default: nothing is logged.
	Logger *slog.Logger
	// OnChange is called when a component starts, exits, is paused or is resumed. It must not block. Default: changes
	// are not reported.
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

// component is a component with its current or last run. Each start replaces the field run.
type component struct {
	opMu sync.Mutex // held during Start, Stop and Restart

	spec Spec // spec and run are guarded by Supervisor.mu
	run  *run
}

// run is one run of a component's process, from start to exit.
type run struct {
	number        int // number of the run, in the order of all starts
	process       *os.Process
	start         string // start time of the process; see usage.start
	startedAt     time.Time
	logOffset     int64
	stopRequested atomic.Bool // whether Stop or Kill was called
	group         bool        // see Spec.Group
	logged        atomic.Bool // whether a line has matched Spec.ReadyLog

	reportMu     sync.Mutex // ensures that Stopping is not reported after Exited
	exitReported bool

	done chan struct{}
	exit string // how the process exited; valid after done is closed
}

// New returns a Supervisor without components.
func New(o Options) *Supervisor {
	return &Supervisor{
		dir:        o.Dir,
		logger:     cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		changed:    o.OnChange,
		components: map[string]*component{},
	}
}

// Start starts the process of a component and writes its run record. The process runs in its own process group, so
// that Ctrl-C on a terminal does not reach it. Start does not wait for readiness; see WaitReady. The process
// continues to run after ctx and the Supervisor have ended. Start returns an error if the component is already
// running.
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
		return fmt.Errorf("starting %s: it is already running as process %d", spec.Name, r.process.Pid)
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
		_ = r.process.Kill() // without a record, no later supervisor could end it
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
		defer func() { _ = log.Close() }() // the child process has its own descriptor
		cmd.Stdout, cmd.Stderr, r.logOffset = log, log, offset
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.process = cmd.Process
	// If the process has already ended, start stays empty, which matches no process.
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
	if r.group { // kill the remaining processes of the group; it may be empty
		_ = syscall.Kill(-r.process.Pid, syscall.SIGKILL)
	}
	defer close(r.done)
	r.reportMu.Lock()
	r.exitReported = true
	s.notify(name, Exited, r.exit)
	r.reportMu.Unlock()
	logExit := s.logger.Warn
	if r.stopRequested.Load() {
		logExit = s.logger.Info
	}
	logExit("component exited", "component", name, "pid", r.process.Pid, "exit", r.exit)
}

// reportStopping reports that a process is about to be stopped. A killed process may exit much later on a busy machine.
func (s *Supervisor) reportStopping(name string, r *run) {
	r.stopRequested.Store(true)
	r.reportMu.Lock()
	defer r.reportMu.Unlock()
	if !r.exitReported {
		s.notify(name, Stopping, "")
	}
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// WaitReady calls the readiness check of a component repeatedly, and blocks until the check succeeds. If the process
// exits or ctx ends first, WaitReady returns a *NotReadyError.
func (s *Supervisor) WaitReady(ctx context.Context, name string) error {
	spec, r, err := s.find(name)
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", name, err)
	}
	return s.WaitUntil(ctx, name, spec.readiness(r))
}

// WaitUntil is like WaitReady, but uses the readiness check ready. If ready is nil, WaitUntil only checks that the
// process is running.
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
	// attempt also ends with the process, so that a hanging check does not hide the exit
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
			return failed("exited: "+r.exit, nil)
		}
		if ready == nil {
			return nil
		}
		err := ready(attempt)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // keep the earlier error if ctx has cancelled this call
		}
		select {
		case <-tick.C:
		case <-r.done:
		case <-ctx.Done():
			return failed(last.Error(), context.Cause(ctx))
		}
	}
}

// Stop stops a component, blocks until its process has exited, and removes its run record. It kills a process that
// has not exited after StopTimeout, or when ctx ends. If the component is not running, Stop returns nil.
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

// Remove stops a component and removes the component, so that Status no longer returns it.
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
	s.reportStopping(spec.Name, r)
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

// send sends a signal to a process. If group is true, it sends the signal to the process group.
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

// endProcess sends sig to a process, then SIGCONT in case the process is paused. If the process has not exited after
// timeout, or when ctx ends, endProcess kills it. It blocks until the process has exited, which closes gone.
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
	<-gone // SIGKILL cannot be ignored
	return nil
}

// StopAll stops all components in reverse order of their start. After an error, it continues with the other
// components. It returns all errors joined.
func (s *Supervisor) StopAll(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Backward(s.names()) {
		errs = append(errs, s.Stop(ctx, name))
	}
	return errors.Join(errs...)
}

// Kill kills a component with SIGKILL and blocks until its process has exited. Status continues to return the
// component, as exited.
func (s *Supervisor) Kill(name string) error {
	_, r, err := s.find(name)
	if err == nil {
		s.reportStopping(name, r)
		err = ignoreDone(send(r.process, r.group, syscall.SIGKILL))
	}
	if err != nil {
		return fmt.Errorf("killing %s: %w", name, err)
	}
	<-r.done
	return nil
}

// Pause suspends a component with SIGSTOP and blocks until its process is suspended.
func (s *Supervisor) Pause(name string) error {
	return s.signal("pausing", name, syscall.SIGSTOP, Paused)
}

// Resume resumes a paused component and blocks until its process is running.
func (s *Supervisor) Resume(name string) error {
	return s.signal("resuming", name, syscall.SIGCONT, Running)
}

func (s *Supervisor) signal(doing, name string, sig os.Signal, now State) error {
	_, r, err := s.find(name)
	if err == nil {
		err = os.ErrProcessDone
		if !r.ended() {
			err = send(r.process, r.group, sig)
		}
		if err == nil {
			r.awaitState(now == Paused)
			s.notify(name, now, "")
		}
	}
	if errors.Is(err, os.ErrProcessDone) {
		err = errors.New("it is not running")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", doing, name, err)
	}
	return nil
}

// awaitState blocks after a signal until the process is suspended, if stopped is true, or is running again. It
// returns after signalTimeout at the latest, because another process may have sent a different signal.
func (r *run) awaitState(stopped bool) {
	for until := time.Now().Add(signalTimeout); time.Now().Before(until); time.Sleep(signalPoll) {
		if u, err := inspect(r.process.Pid); err != nil || u.start != r.start || u.stopped == stopped {
			return
		}
	}
}

const (
	signalTimeout = time.Second
	signalPoll    = time.Millisecond
)

// Restart stops a component and starts it again with the same Spec. It does not wait until the component is ready.
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

// current returns the most recent spec and run of a component. The run is nil if the component was never started.
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

// names returns the names of all components that have been started, in the order of their last start.
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
