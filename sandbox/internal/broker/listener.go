package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/valve"
)

// errDown is returned while the broker does not accept connections.
var errDown = errors.New("the broker is down")

// acceptPause is how long to wait before the next attempt after Accept has failed, for example because too many files
// are open.
const acceptPause = 100 * time.Millisecond

// ListenOptions are the options of a listener.
type ListenOptions struct {
	// Addr is the listen address. Default: 127.0.0.1:0, a free port.
	Addr string
	// TLS is the TLS configuration of the TCP listener. Default: plain TCP.
	TLS *tls.Config
	// View applies faults to the connections. Default: no faults.
	View *mqttfault.Injector
	// Logger is the logger of the listener. Default: nothing is logged.
	Logger *slog.Logger
}

// listener accepts TCP connections and in-memory connections from this process. It can pause or close all of its
// connections.
type listener struct {
	tcp   net.Listener
	serve func(ctx context.Context, conn net.Conn, memory bool) // serves a connection until it closes or ctx ends
	valve *valve.Valve
	view  *mqttfault.Injector
	log   *slog.Logger
	life  context.Context // context that ends when run ends
	end   context.CancelFunc

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	wg     sync.WaitGroup
}

// listen opens the port. The listener accepts connections after run is called.
func listen(o ListenOptions) (*listener, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	tcp, err := supervise.Listen(o.Addr)
	if err != nil {
		return nil, err
	}
	if o.TLS != nil {
		tcp = tls.NewListener(tcp, o.TLS)
	}
	l := &listener{tcp: tcp, valve: valve.New(nil), view: o.View, log: o.Logger, conns: map[net.Conn]struct{}{}}
	l.life, l.end = context.WithCancel(context.Background())
	return l, nil
}

// run accepts connections until ctx ends. Then it closes all connections. mochi must not find any connection when it
// stops: to disconnect clients, v2.7.9 takes a read lock twice, which blocks indefinitely if a client disconnects in
// between.
func (l *listener) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = l.tcp.Close() })()
	for {
		conn, err := l.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil {
			l.log.Warn("could not accept connections", "addr", l.Addr(), "err", err)
			time.Sleep(acceptPause)
			continue
		}
		_ = l.admit(conn, false)
	}
	l.end()
	l.mu.Lock()
	l.closed = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// admit starts to serve a connection in a new goroutine.
func (l *listener) admit(conn net.Conn, memory bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return errDown
	}
	conn = l.valve.Wrap(conn)
	if l.view != nil {
		conn = l.view.Wrap(conn)
	}
	l.conns[conn] = struct{}{}
	l.wg.Go(func() {
		l.serve(l.life, conn, memory)
		_ = conn.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, conn)
	})
	return nil
}

// Addr returns the host:port of the TCP listener.
func (l *listener) Addr() string { return l.tcp.Addr().String() }

// Dial opens a connection for a base in this process. It does not block. The connection uses plain MQTT, even if the
// port uses TLS. Dial fails after run has ended.
func (l *listener) Dial(context.Context) (net.Conn, error) {
	base, broker := net.Pipe()
	if err := l.admit(broker, true); err != nil {
		return nil, err
	}
	return base, nil
}

// Pause stops all data transfer until Resume. Connections stay open and new connections are accepted, but no client
// receives a response, as if the broker process were suspended.
func (l *listener) Pause() { l.valve.Set(true) }

// Resume ends a pause and delivers the data that was held back.
func (l *listener) Resume() { l.valve.Set(false) }
