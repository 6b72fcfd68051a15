package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// callTimeout is the timeout of calls to the process. It limits how long a call blocks when the process is paused.
const callTimeout = 5 * time.Second

var errUnreachable = errors.New("the process of the base does not respond")

// Base is a base that runs in another process. It has the methods of fakebase.Base, with the same guarantees. In
// addition, the methods fail if the process does not respond. All methods are safe for concurrent use.
type Base struct {
	*mirror
	o Options

	state   sync.Mutex // guards the fields below
	current *incarnation
	started bool
	running bool // Start was called and has not returned
}

// incarnation is one run of the base in a process, from the creation of the base until the process ends.
type incarnation struct {
	process       rpc.Client
	read          *rpc.ReadCounter // counts the messages received from the process
	stopFollowing context.CancelFunc
	followDone    chan struct{} // closed when the message stream has ended
}

// ProcessInfo describes a process that calls Serve.
type ProcessInfo struct {
	// Version is the version of the binary.
	Version string `json:"version"`
	// Address is the IP address at which other machines can reach the process. It is empty if there is none.
	Address string `json:"address"`
	// ClockOffset is the time by which the clock of the process is ahead of the local clock; see
	// rpc.Client.ClockOffset.
	ClockOffset time.Duration `json:"-"`
}

// FetchProcessInfo returns information about a process that calls Serve.
func FetchProcessInfo(ctx context.Context, transport http.RoundTripper) (ProcessInfo, error) {
	process := &rpc.Client{Transport: transport, Unreachable: errUnreachable}
	info, err := processInfo.Call(ctx, process, rpc.Empty{})
	if err == nil {
		info.ClockOffset, err = process.ClockOffset(ctx)
	}
	if err != nil {
		return info, fmt.Errorf("requesting information about the process of bases: %w", err)
	}
	return info, nil
}

// New creates a base in a process. The transport, for example a stdio.Process, sends requests to the process. The
// base does nothing until Start is called. The error lists all invalid options. If the base is not started, the
// caller must call Discard or end the process.
func New(ctx context.Context, transport http.RoundTripper, o Options) (*Base, error) {
	b := &Base{o: o}
	initial, l, err := createBase(ctx, transport, o)
	if err != nil {
		return nil, err
	}
	b.mirror = newMirror(initial, l.read, o.clockOffset())
	b.follow(ctx, l)
	return b, nil
}

// Recreate creates the base in another process after its process was lost and Start has returned an error. The base
// keeps its identity and its faults, but has no modules, as after a crash. It can then be started again. The base
// reports ip as its IP address; if ip is empty, it reports the previous address.
func (b *Base) Recreate(ctx context.Context, transport http.RoundTripper, ip string) error {
	b.state.Lock()
	running, previous := b.running, b.current
	b.state.Unlock()
	if running {
		return fmt.Errorf("recreating base %q: %w", b.Identity(), fakebase.ErrStarted)
	}
	previous.stopFollowing()
	<-previous.followDone
	o := b.o
	o.IP = cmp.Or(ip, o.IP)
	o.Identity, o.InitialDelay, o.Faults = b.Identity(), 0, nil
	for _, f := range b.Faults() {
		o.Faults = append(o.Faults, f.Fault)
	}
	initial, l, err := createBase(ctx, transport, o)
	if err != nil {
		return err
	}
	b.reset(initial, l.read, o.clockOffset())
	b.follow(ctx, l)
	b.state.Lock()
	defer b.state.Unlock()
	b.started = false
	return nil
}

func createBase(ctx context.Context, transport http.RoundTripper, o Options) (snapshot, *incarnation, error) {
	l := &incarnation{
		process: rpc.Client{Transport: transport, Unreachable: errUnreachable},
		read:    &rpc.ReadCounter{}, followDone: make(chan struct{}),
	}
	initial, err := makeBase.Call(ctx, &l.process, o)
	if err != nil {
		return initial, nil, fmt.Errorf("creating base %q: %w", o.Identity, err)
	}
	l.process.Path = "/" + initial.ID
	return initial, l, nil
}

// follow reads the messages about the base until the stream ends.
func (b *Base) follow(ctx context.Context, l *incarnation) {
	// The stream lasts as long as the base, not as long as the context of the caller.
	ctx, l.stopFollowing = context.WithCancel(context.WithoutCancel(ctx))
	b.state.Lock()
	b.current = l
	b.state.Unlock()
	go func() {
		defer close(l.followDone)
		defer l.stopFollowing()
		reason := "the process has ended"
		if err := follow.Call(ctx, &l.process, rpc.Empty{}, b.apply); err != nil {
			reason += ": " + err.Error()
		}
		b.markEnded(reason)
	}()
}

func (b *Base) currentIncarnation() *incarnation {
	b.state.Lock()
	defer b.state.Unlock()
	return b.current
}

// Discard deletes a base that has not been started. It blocks for at most 5 s, until the process has deleted the
// base.
func (b *Base) Discard(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l := b.currentIncarnation()
	_, err := stop.Call(ctx, &l.process, rpc.Empty{})
	if err == nil {
		_, err = run.Call(ctx, &l.process, rpc.Empty{}) // returns immediately, because the base was stopped
	}
	l.stopFollowing()
	<-l.followDone
	return err
}

// Start runs the base until ctx is done, and then returns nil. It returns an error if the base cannot run, as
// fakebase.Base does, or if the process is lost. If the process is lost, IsProcessLost returns true for the error,
// and Recreate can create the base again. Start must be called at most once per process.
func (b *Base) Start(ctx context.Context) error {
	l, err := b.markStarted()
	if err != nil {
		return err
	}
	defer b.markStopped()
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		limit, done := context.WithTimeout(runCtx, callTimeout)
		defer done()
		_, _ = stop.Call(limit, &l.process, rpc.Empty{}) // the response to Run shows the result
		<-limit.Done()
		l.stopFollowing()
		cancel()
	})()
	_, err = run.Call(runCtx, &l.process, rpc.Empty{})
	if IsProcessLost(err) {
		l.stopFollowing()
	}
	<-l.followDone
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("running base %q: %w", b.Identity(), err)
	}
	return nil
}

// IsProcessLost reports whether an error returned by Start means that the base process is lost. Any other error means
// that the base could not run.
func IsProcessLost(err error) bool {
	reported := (*rpc.Error)(nil)
	return err != nil && !errors.As(err, &reported) && !errors.Is(err, fakebase.ErrStarted)
}

func (b *Base) markStarted() (*incarnation, error) {
	b.state.Lock()
	defer b.state.Unlock()
	if b.started {
		return nil, fmt.Errorf("starting base %q: %w", b.Identity(), fakebase.ErrStarted)
	}
	b.started, b.running = true, true
	return b.current, nil
}

func (b *Base) markStopped() {
	b.state.Lock()
	defer b.state.Unlock()
	b.running = false
}

// Inject injects a fault, which takes effect immediately, and returns the fault ID.
func (b *Base) Inject(f fault.Fault) (string, error) { return call(context.Background(), b, inject, f) }

// Clear clears the faults with the given IDs, or all faults if no ID is given. It returns the number of cleared
// faults, which is 0 if the process does not respond.
func (b *Base) Clear(ids ...string) int {
	n, _ := call(context.Background(), b, clearFaults, ids)
	return n
}

// Restart implements fakebase.Base.Restart.
func (b *Base) Restart(identity string) error {
	b.state.Lock()
	running := b.running
	b.state.Unlock()
	if !running {
		return fmt.Errorf("restarting base as %q: %w", identity, fakebase.ErrNotRunning)
	}
	_, err := call(context.Background(), b, restart, identity)
	return err
}

// WebAddr returns the address (host:port) of the listener for module traffic. The listener is open as soon as the
// base is created.
func (b *Base) WebAddr(context.Context) (string, error) { return b.Status().WebAddr, nil }

// HTTPAddr returns the address (host:port) of the current or last arklet HTTP server. It is empty if no server has
// started yet.
func (b *Base) HTTPAddr() string {
	b.mu.Lock()
	addr := b.httpAddr
	b.mu.Unlock()
	if addr != "" || b.o.HTTP == nil {
		return addr
	}
	current, err := call(context.Background(), b, status, rpc.Empty{}) // opening the server is not an event
	if err != nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.httpAddr = b.reachableAddr(current.HTTPAddr)
	return b.httpAddr
}

// Sync blocks until all earlier events have been delivered. Call it before you compare the events with another
// observation of the base.
func (b *Base) Sync(ctx context.Context) error {
	_, err := call(ctx, b, status, rpc.Empty{})
	return err
}

// call calls a method of the base. It returns after all events that preceded the response have been delivered.
func call[In, Out any](ctx context.Context, b *Base, m method[In, Out], in In) (Out, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout,
		fmt.Errorf("the process of base %q did not respond within %s", b.Identity(), callTimeout))
	defer cancel()
	l := b.currentIncarnation()
	a, err := m.Call(ctx, &l.process, in)
	if err == nil {
		err = l.read.Wait(ctx, a.Count)
	}
	return a.Answer, err
}
