package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/port"
	"github.com/koupleless/koupsandbox/sandbox/internal/valve"
)

// dialTime bounds the way to the user's broker for those who come through TCP, as paho does for a
// base.
const dialTime = 30 * time.Second

// RelayOptions of a Relay.
type RelayOptions struct {
	// Addr to listen on. Default: 127.0.0.1:0, any free port.
	Addr string
	// TLS of the listener. Default: nil, plain TCP.
	TLS *tls.Config
	// To is the user's broker. Required.
	To *External
	// View disturbs the connections. Default: nothing does.
	View *mqttfault.View
	// Logger for what the relay has to say. Default: nothing is logged.
	Logger *slog.Logger
}

// Relay stands in for the sandbox's own broker when the user has one: each
// connection to it becomes one to that broker, and bytes pass untouched. To cut or
// to stall it does to controller and bases what the end or the halt of the broker
// would do, and nothing to the broker's other users. All methods may be called
// concurrently.
type Relay struct {
	to       *External
	listener net.Listener
	valve    *valve.Valve
	view     *mqttfault.View
	log      *slog.Logger

	mu      sync.Mutex
	closed  bool
	conns   map[*link]struct{}
	trouble error // of the last dial
	carrier sync.WaitGroup
}

// NewRelay opens the listening socket, so that Addr is known; nothing is served
// before Start.
func NewRelay(o RelayOptions) (*Relay, error) {
	listener, err := port.Listen(cmp.Or(o.Addr, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("opening the port of the relay to the broker: %w", err)
	}
	if o.TLS != nil {
		listener = tls.NewListener(listener, o.TLS)
	}
	r := &Relay{to: o.To, listener: listener, valve: valve.New(nil), view: o.View, log: o.Logger, conns: map[*link]struct{}{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// Start serves until ctx ends; then it cuts all connections and returns nil. It
// can be called once.
func (r *Relay) Start(ctx context.Context) error {
	defer r.carrier.Wait()
	defer context.AfterFunc(ctx, r.close)()
	accept(r.listener, r.log, func(near net.Conn) { r.carrier.Go(func() { r.carry(ctx, near) }) })
	r.close()
	return nil
}

// carry joins a connection to one of the broker until either ends.
func (r *Relay) carry(ctx context.Context, near net.Conn) {
	defer func() { _ = near.Close() }() // what could be sent was sent
	dialling, cancel := context.WithTimeout(ctx, dialTime)
	far, err := r.Dial(dialling)
	cancel()
	if err != nil {
		return // Dial has logged it
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far) // how it ended, both ends see by themselves
		_ = near.Close()
	})
	_, _ = io.Copy(far, near) // as above
	_ = far.Close()
	back.Wait()
}

// Addr is the host:port that the relay listens on.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Dial connects to the broker, for a base of the same process. It fails after the
// relay has ended.
func (r *Relay) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := r.to.Dial(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		if err == nil {
			_ = conn.Close() // nobody has used it
		}
		return nil, errDown
	}
	if err == nil || ctx.Err() == nil {
		r.note(err)
	}
	if err != nil {
		return nil, err
	}
	conn = r.valve.Through(conn)
	if r.view != nil {
		conn = r.view.Through(conn, v1alpha1.FromBroker)
	}
	link := &link{Conn: conn, relay: r}
	r.conns[link] = struct{}{}
	return link, nil
}

// note takes down whether the broker can be reached. r.mu is held.
func (r *Relay) note(err error) {
	switch {
	case err != nil && r.trouble == nil:
		r.log.Warn("the broker cannot be reached", "broker", r.to.URL(), "err", err)
	case err == nil && r.trouble != nil:
		r.log.Info("the broker can be reached again", "broker", r.to.URL())
	}
	r.trouble = err
}

// Stats is nil: the counters of the user's broker are not ours to read.
func (r *Relay) Stats() *Stats { return nil }

// Trouble says why the broker could not be reached the last time; nil if it could.
func (r *Relay) Trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble
}

// Pause lets nothing pass any more until Resume: connections stay and new ones are
// made, but nothing is said on them.
func (r *Relay) Pause() { r.valve.Set(true) }

// Resume lets everything pass again, what has waited first.
func (r *Relay) Resume() { r.valve.Set(false) }

// close cuts everything.
func (r *Relay) close() {
	r.mu.Lock()
	r.closed = true
	conns := r.conns
	r.conns = map[*link]struct{}{}
	r.mu.Unlock()
	_ = r.listener.Close() // it ends Accept; there is nothing to do about an error
	for conn := range conns {
		conn.cut.Store(true)
		_ = conn.Close() // as above
	}
}

// link is a connection to the broker that its relay knows of.
type link struct {
	net.Conn
	relay *Relay
	cut   atomic.Bool
}

// Read ends as at the end of the broker when the relay has cut the connection:
// some clients take the error of a closed one for their own doing.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err != nil && l.cut.Load() {
		err = io.EOF
	}
	return n, err
}

// Close closes at once.
func (l *link) Close() error {
	l.relay.mu.Lock()
	delete(l.relay.conns, l)
	l.relay.mu.Unlock()
	return l.Conn.Close()
}
