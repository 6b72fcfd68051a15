// Package httptunnel implements the HTTP tunnel, which exchanges arklet messages with bases over HTTP (protocol 4).
//
// A base registers with its heartbeats. The tunnel sends commands to the address that the base reports.
package httptunnel

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// ErrStopped means that a command was not sent because the tunnel has stopped.
var ErrStopped = errors.New("the HTTP tunnel has stopped")

const (
	// DefaultAddr is the default address on which the tunnel listens for heartbeats (Module Controller V2 document
	// 5.4).
	DefaultAddr = ":7777"
	// connections is the maximum number of open connections for heartbeats. The connections use about 270 MB of
	// memory if all clients are sending a body, and about 660 MB if all clients have sent a header of the maximum
	// size.
	connections = 4096
)

// Options configure a Tunnel. The zero value of a field selects its default.
type Options struct {
	// Addr is the address on which the tunnel listens for heartbeats, as host:port; default DefaultAddr.
	Addr string
	// TLS is the TLS configuration of the listener for heartbeats. If it is nil, the listener uses plain HTTP, as
	// real bases do. If ClientAuth verifies certificates, the certificate of a base must be valid for the identity of
	// the base.
	TLS *tls.Config
	// Token is the token that bases must send, as "Authorization: Bearer TOKEN" or as the first segment of the path;
	// empty means none.
	Token string
	// Networks are the networks in which a base may report an address other than its source address.
	Networks tunnel.Networks
	// OperationTimeout is the maximum duration of an install, uninstall or switch command; default 5 min.
	OperationTimeout time.Duration
	// TimeScale divides the maximum duration of queries, which is not in Options.
	TimeScale pace.TimeScale
	// Dial connects to a base; default net.Dialer.DialContext.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy is the URL of an HTTP proxy that supports CONNECT, in the form http://[user:password@]host[:port]; nil
	// means no proxy. It is ignored if Dial is set.
	Proxy  *url.URL
	Logger *slog.Logger
}

// Tunnel is the HTTP tunnel. Its methods are safe for concurrent use.
type Tunnel struct {
	opts      Options
	handler   tunnel.Handler
	transport *http.Transport
	baselines chan struct{} // limits the number of concurrent baseline queries

	mu       sync.Mutex
	listener net.Listener
	queries  map[query]*call // queries in flight; the value is the query to send next, or nil
	running  map[string]int  // number of operations in flight, by base
	calls    sync.WaitGroup
	ctx      context.Context // context of all requests to bases
	cancel   context.CancelFunc
}

// New returns a Tunnel that passes messages to handler. It does not open a listener or connections.
func New(opts Options, handler tunnel.Handler) *Tunnel {
	opts.Addr = cmp.Or(opts.Addr, DefaultAddr)
	opts.OperationTimeout = cmp.Or(opts.OperationTimeout, api.InstallTimeout)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Dial == nil && opts.Proxy != nil {
		opts.Dial = ThroughProxy(opts.Proxy)
	}
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	t := &Tunnel{
		handler: handler, baselines: make(chan struct{}, tunnel.MaxBaselineQueries),
		queries: map[query]*call{}, running: map[string]int{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	opts.Dial = connlimit.LimitReads(opts.Dial, allAnswers, t.evicted("answers"))
	t.opts, t.transport = opts, newTransport(opts)
	return t
}

// Key returns tunnel.HTTP.
func (t *Tunnel) Key() tunnel.Key { return tunnel.HTTP }

// Listen opens the listener, so that the controller fails to start if the address is in use. Connections are accepted
// after Start is called. A second call of Listen does nothing.
func (t *Tunnel) Listen(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listener != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", t.opts.Addr)
	if err != nil {
		return fmt.Errorf("listening for heartbeats over HTTP: %w", err)
	}
	l = connlimit.NewListener(l, connlimit.Limits{
		Connections: connections, Bytes: allBodies, OnEvict: t.evicted("connections or request bodies"),
	})
	if t.opts.TLS != nil {
		l = tls.NewListener(l, t.opts.TLS)
	}
	t.listener = l
	return nil
}

// Addr returns the address of the listener. It is empty before Listen is called.
func (t *Tunnel) Addr() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

// Limits for the connections of a client.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	// answerTimeout is the maximum time for answering a request, including the selection of a baseline.
	answerTimeout = time.Minute
	idleTimeout   = time.Minute
	maxHeader     = 1 << 10 // net/http adds 4 KiB
	// stopTimeout is how long to wait for in-flight requests when the tunnel stops.
	stopTimeout = 5 * time.Second
)

// Start serves heartbeats until ctx is done. Then it calls Handler.Unanswered for each pending command, and returns
// after all goroutines have ended. Call it once.
func (t *Tunnel) Start(ctx context.Context) error {
	if err := t.Listen(ctx); err != nil {
		return err
	}
	server := &http.Server{
		Handler:           t.routes(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext: func(ctx context.Context,
			c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(t.opts.Logger.Handler(), slog.LevelDebug),
	}
	t.opts.Logger.Info("receiving heartbeats over HTTP", "addr", t.Addr(), "tls", t.opts.TLS != nil)
	err := connlimit.Serve(ctx, server, t.listener, stopTimeout)
	t.stop()
	if err != nil {
		return fmt.Errorf("receiving heartbeats over HTTP: %w", err)
	}
	return nil
}

func (t *Tunnel) stop() {
	t.mu.Lock() // Send starts calls with the lock held
	t.cancel()
	t.mu.Unlock()
	t.calls.Wait()
}
