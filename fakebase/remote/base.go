package remote

import (
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

// callTime is how long the process of a base may take to answer: one that is paused never does.
const callTime = 5 * time.Second

var errUnreachable = errors.New("the process of the base does not answer")

// Base is a base in another process. It has the methods of a fakebase.Base, with the same promises,
// and errors where that process does not answer. They may be called concurrently.
type Base struct {
	*mirror
	process rpc.Client
	http    bool // it has the HTTP tunnel

	stopFollowing context.CancelFunc
	followed      chan struct{} // closed when nothing is read any more

	state   sync.Mutex // guards what follows
	started bool
	running bool // Start has not returned
}

// Address asks a process that calls Serve for the address at which others reach it.
func Address(ctx context.Context, transport http.RoundTripper) (string, error) {
	ip, err := address.Call(ctx, &rpc.Client{Transport: transport, Unreachable: errUnreachable}, rpc.None{})
	if err != nil {
		return "", fmt.Errorf("asking for the address of a base: %w", err)
	}
	return ip, nil
}

// New tells the process behind transport, such as a stdio.Process, which base to
// be. It does nothing until Start. The error names every option that is wrong. When the
// base is no longer needed, or not at all, the process must be ended.
func New(ctx context.Context, transport http.RoundTripper, o Options) (*Base, error) {
	b := &Base{process: rpc.Client{Transport: transport, Unreachable: errUnreachable}, http: o.HTTP != nil, followed: make(chan struct{})}
	now, err := makeBase.Call(ctx, &b.process, o)
	if err != nil {
		return nil, fmt.Errorf("making base %q: %w", o.Identity, err)
	}
	b.mirror = newMirror(now)
	// The stream goes on as long as the base, which the caller's context does not bound.
	ctx, b.stopFollowing = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(b.followed)
		defer b.stopFollowing()
		why := "its process has ended"
		if err := follow.Call(ctx, &b.process, rpc.None{}, b.apply); err != nil {
			why += ": " + err.Error()
		}
		b.end(why)
	}()
	return b, nil
}

// Start runs the base until ctx ends, and then returns nil. An error means that it could not run,
// as that of fakebase.Base, or that its process has ended; then it cannot be had back. At most one
// Start per Base.
func (b *Base) Start(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.over()
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() {
		limit, done := context.WithTimeout(life, callTime)
		defer done()
		_, _ = stop.Call(limit, &b.process, rpc.None{}) // what counts is that Run is answered
		<-limit.Done()
		b.stopFollowing()
		cut()
	})()
	_, err := run.Call(life, &b.process, rpc.None{})
	if refused := (*rpc.Error)(nil); err != nil && !errors.As(err, &refused) {
		b.stopFollowing()
	}
	<-b.followed
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("running base %q: %w", b.Identity(), err)
	}
	return nil
}

func (b *Base) begin() error {
	b.state.Lock()
	defer b.state.Unlock()
	if b.started {
		return fmt.Errorf("starting base %q: %w", b.Identity(), fakebase.ErrStarted)
	}
	b.started, b.running = true, true
	return nil
}

func (b *Base) over() {
	b.state.Lock()
	defer b.state.Unlock()
	b.running = false
}

// Inject adds a fault, whose effect begins at once, and returns its id.
func (b *Base) Inject(f fault.Fault) (string, error) { return ask(context.Background(), b, inject, f) }

// Clear takes faults away by id, all of them if none is given, and tells how
// many there were; none when the process does not answer.
func (b *Base) Clear(ids ...string) int {
	n, _ := ask(context.Background(), b, clearFaults, ids)
	return n
}

// Restart starts the base's process again, as that of fakebase.Base.
func (b *Base) Restart(identity string) error {
	b.state.Lock()
	running := b.running
	b.state.Unlock()
	if !running {
		return fmt.Errorf("restarting base as %q: %w", identity, fakebase.ErrNotRunning)
	}
	_, err := ask(context.Background(), b, restart, identity)
	return err
}

// WebAddr returns host:port of the listener for module traffic.
func (b *Base) WebAddr(ctx context.Context) (string, error) {
	if addr := b.Status().WebAddr; addr != "" {
		return addr, nil
	}
	addr, err := ask(ctx, b, webAddr, rpc.None{})
	return b.reachable(addr), err
}

// HTTPAddr is host:port of the arklet HTTP server, or of the last one; empty =
// there has been none.
func (b *Base) HTTPAddr() string {
	b.mu.Lock()
	addr := b.httpAddr
	b.mu.Unlock()
	if addr != "" || !b.http {
		return addr
	}
	now, err := ask(context.Background(), b, status, rpc.None{}) // it is opened without an event
	if err != nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.httpAddr = b.reachable(now.HTTPAddr)
	return b.httpAddr
}

// Sync blocks until everything that has happened so far has been told. It is for
// whoever hears from the base in another way.
func (b *Base) Sync(ctx context.Context) error {
	_, err := ask(ctx, b, status, rpc.None{})
	return err
}

// ask asks the base for something, and returns when all that happened before the
// answer has been told.
func ask[In, Out any](ctx context.Context, b *Base, m method[In, Out], in In) (Out, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime,
		fmt.Errorf("the process of base %q did not answer within %s", b.Identity(), callTime))
	defer cancel()
	a, err := m.Call(ctx, &b.process, in)
	if err == nil {
		err = b.read.Wait(ctx, a.Count)
	}
	return a.Answer, err
}
