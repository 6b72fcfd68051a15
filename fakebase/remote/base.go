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

// callTime is the timeout of calls. A paused process does not answer.
const callTime = 5 * time.Second

var errUnreachable = errors.New("the process of the base does not answer")

// Base is a base in another process. It has the methods of a fakebase.Base, with the same promises,
// and errors where that process does not answer. They may be called concurrently.
type Base struct {
	*mirror
	o Options

	state   sync.Mutex // guards what follows
	life    *life
	started bool
	running bool // Start has not returned
}

// life is a base in one process.
type life struct {
	process       rpc.Client
	read          *rpc.Mark // of the messages
	stopFollowing context.CancelFunc
	followed      chan struct{} // closed when nothing is read any more
}

// Address asks a process that calls Serve for the address at which others reach it.
func Address(ctx context.Context, transport http.RoundTripper) (string, error) {
	ip, err := address.Call(ctx, &rpc.Client{Transport: transport, Unreachable: errUnreachable}, rpc.None{})
	if err != nil {
		return "", fmt.Errorf("asking for the address of a base: %w", err)
	}
	return ip, nil
}

// Version asks a process that calls Serve of which version its program is.
func Version(ctx context.Context, transport http.RoundTripper) (string, error) {
	v, err := version.Call(ctx, &rpc.Client{Transport: transport, Unreachable: errUnreachable}, rpc.None{})
	if err != nil {
		return "", fmt.Errorf("asking for the version of a base's program: %w", err)
	}
	return v, nil
}

// Ahead asks a process that calls Serve how far its clock is ahead of this machine's; see rpc.Client.Ahead.
func Ahead(ctx context.Context, transport http.RoundTripper) (time.Duration, error) {
	ahead, err := (&rpc.Client{Transport: transport, Unreachable: errUnreachable}).Ahead(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking for the time of a base: %w", err)
	}
	return ahead, nil
}

// New has the process behind transport, such as a stdio.Process, make a base, beside those that it
// has. The base does nothing until Start. The error names every option that is wrong. When the
// base is no longer needed before it has started, Discard it, or end the process.
func New(ctx context.Context, transport http.RoundTripper, o Options) (*Base, error) {
	b := &Base{o: o}
	now, l, err := begin(ctx, transport, o)
	if err != nil {
		return nil, err
	}
	b.mirror = newMirror(now, l.read, o.ahead())
	b.live(ctx, l)
	return b, nil
}

// Renew makes the base anew in another process, since its own is lost: Start has returned an error.
// It is then as after a crash: with its identity and its faults, and without its modules. Then it may
// be started again. It reports ip from then on; empty means the same address as before.
func (b *Base) Renew(ctx context.Context, transport http.RoundTripper, ip string) error {
	b.state.Lock()
	running, before := b.running, b.life
	b.state.Unlock()
	if running {
		return fmt.Errorf("making base %q anew: %w", b.Identity(), fakebase.ErrStarted)
	}
	before.stopFollowing()
	<-before.followed
	o := b.o
	o.IP = cmp.Or(ip, o.IP)
	o.Identity, o.InitialDelay, o.Faults = b.Identity(), 0, nil
	for _, f := range b.Faults() {
		o.Faults = append(o.Faults, f.Fault)
	}
	now, l, err := begin(ctx, transport, o)
	if err != nil {
		return err
	}
	b.renew(now, l.read, o.ahead())
	b.live(ctx, l)
	b.state.Lock()
	defer b.state.Unlock()
	b.started = false
	return nil
}

func begin(ctx context.Context, transport http.RoundTripper, o Options) (snapshot, *life, error) {
	l := &life{
		process: rpc.Client{Transport: transport, Unreachable: errUnreachable},
		read:    &rpc.Mark{}, followed: make(chan struct{}),
	}
	now, err := makeBase.Call(ctx, &l.process, o)
	if err != nil {
		return now, nil, fmt.Errorf("making base %q: %w", o.Identity, err)
	}
	l.process.Path = "/" + now.ID
	return now, l, nil
}

// live follows what a base tells.
func (b *Base) live(ctx context.Context, l *life) {
	// The stream goes on as long as the base, which the caller's context does not bound.
	ctx, l.stopFollowing = context.WithCancel(context.WithoutCancel(ctx))
	b.state.Lock()
	b.life = l
	b.state.Unlock()
	go func() {
		defer close(l.followed)
		defer l.stopFollowing()
		why := "its process has ended"
		if err := follow.Call(ctx, &l.process, rpc.None{}, b.apply); err != nil {
			why += ": " + err.Error()
		}
		b.end(why)
	}()
}

func (b *Base) now() *life {
	b.state.Lock()
	defer b.state.Unlock()
	return b.life
}

// Discard forgets a base that has not started, and blocks until its process has, or 5 s.
func (b *Base) Discard(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	l := b.now()
	_, err := stop.Call(ctx, &l.process, rpc.None{})
	if err == nil {
		_, err = run.Call(ctx, &l.process, rpc.None{}) // it ends at once
	}
	l.stopFollowing()
	<-l.followed
	return err
}

// Start runs the base until ctx ends, and then returns nil. An error means that it could not run,
// as that of fakebase.Base, or that its process is lost, as Lost tells; then Renew has it back. At
// most one Start per process.
func (b *Base) Start(ctx context.Context) error {
	l, err := b.begin()
	if err != nil {
		return err
	}
	defer b.over()
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() {
		limit, done := context.WithTimeout(life, callTime)
		defer done()
		_, _ = stop.Call(limit, &l.process, rpc.None{}) // what counts is that Run is answered
		<-limit.Done()
		l.stopFollowing()
		cut()
	})()
	_, err = run.Call(life, &l.process, rpc.None{})
	if Lost(err) {
		l.stopFollowing()
	}
	<-l.followed
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("running base %q: %w", b.Identity(), err)
	}
	return nil
}

// Lost tells whether an error of Start means that the base's process is lost, and not that the base
// could not run.
func Lost(err error) bool {
	refused := (*rpc.Error)(nil)
	return err != nil && !errors.As(err, &refused) && !errors.Is(err, fakebase.ErrStarted)
}

func (b *Base) begin() (*life, error) {
	b.state.Lock()
	defer b.state.Unlock()
	if b.started {
		return nil, fmt.Errorf("starting base %q: %w", b.Identity(), fakebase.ErrStarted)
	}
	b.started, b.running = true, true
	return b.life, nil
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

// WebAddr returns host:port of the listener for module traffic, which is open from the start.
func (b *Base) WebAddr(context.Context) (string, error) { return b.Status().WebAddr, nil }

// HTTPAddr is host:port of the arklet HTTP server, or of the last one; empty =
// there has been none.
func (b *Base) HTTPAddr() string {
	b.mu.Lock()
	addr := b.httpAddr
	b.mu.Unlock()
	if addr != "" || b.o.HTTP == nil {
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
	l := b.now()
	a, err := m.Call(ctx, &l.process, in)
	if err == nil {
		err = l.read.Wait(ctx, a.Count)
	}
	return a.Answer, err
}
