// Package httptunnel carries arklet messages over HTTP (protocol 4).
//
// A base registers by its heartbeats, and gets commands at the address that it reports. Each base has its own queue.
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
	"github.com/koupleless/koupsandbox/controller/internal/door"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// ErrStopped reports a command that was not sent because the tunnel has stopped.
var ErrStopped = errors.New("the HTTP tunnel has stopped")

const (
	// DefaultAddr is where bases send their heartbeats to (Module Controller V2 document 5.4).
	DefaultAddr = ":7777"
	// connections is the maximum number of open connections for heartbeats. They use about 270 MB of memory if each is
	// sending a body, and about 660 MB if each has sent the largest header.
	connections = 4096
)

// Options configure a Tunnel. A zero value means its default.
type Options struct {
	// Addr is where heartbeats are received, host:port; default DefaultAddr.
	Addr string
	// TLS serves heartbeats over TLS; default plain HTTP, which real bases use. If its ClientAuth verifies
	// certificates, the identity of a base is the name of its certificate.
	TLS *tls.Config
	// Token is required from bases, as "Authorization: Bearer TOKEN" or as the first part of the path; default none.
	Token string
	// Networks are those in which a base may report another address than the one it sends from.
	Networks tunnel.Networks
	// OperationTimeout is the maximum duration of install, uninstall and switch; default 5 min.
	OperationTimeout time.Duration
	// Speed divides the maximum duration of a query.
	Speed pace.TimeScale
	// Dial connects to a base; default a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy is http://[user:password@]host[:port] of an HTTP proxy that connects to bases by CONNECT; default none.
	// It is not used with Dial.
	Proxy  *url.URL
	Logger *slog.Logger
}

// Tunnel is the HTTP tunnel. Its methods may be called concurrently.
type Tunnel struct {
	opts      Options
	handler   tunnel.Handler
	transport *http.Transport
	baselines chan struct{} // holds those that are being answered

	mu       sync.Mutex
	listener net.Listener
	queries  map[query]*call // under way, with the one that waits for its turn, nil if none
	running  map[string]int  // operations under way by base
	calls    sync.WaitGroup
	ctx      context.Context // of all calls
	cancel   context.CancelFunc
}

// New returns a Tunnel that passes messages to handler. It opens nothing before Listen or Start.
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
		handler: handler, baselines: make(chan struct{}, tunnel.Baselines),
		queries: map[query]*call{}, running: map[string]int{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	opts.Dial = door.LimitReads(opts.Dial, allAnswers, t.evicted("answers"))
	t.opts, t.transport = opts, newTransport(opts)
	return t
}

// Key implements the interface of a tunnel.
func (t *Tunnel) Key() tunnel.Key { return tunnel.HTTP }

// Listen opens the address, so that a start fails if it is in use. Connections wait until Start. A second call does
// nothing.
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
	l = door.Limit(l, door.Limits{
		Connections: connections, Bytes: allBodies, Evicted: t.evicted("connections or request bodies"),
	})
	if t.opts.TLS != nil {
		l = tls.NewListener(l, t.opts.TLS)
	}
	t.listener = l
	return nil
}

// Addr returns the address of the listener; empty before Listen.
func (t *Tunnel) Addr() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

// Limits for a client.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	// answerTimeout includes the selection of a baseline.
	answerTimeout = time.Minute
	idleTimeout   = time.Minute
	maxHeader     = 1 << 10 // net/http adds 4 KiB
	// stopTimeout limits the requests that are still answered at the end.
	stopTimeout = 5 * time.Second
)

// Start serves until ctx ends; pending commands are Unanswered then. It returns when nothing runs any more. Call it
// once.
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
	err := door.Serve(ctx, server, t.listener, stopTimeout)
	t.stop()
	if err != nil {
		return fmt.Errorf("receiving heartbeats over HTTP: %w", err)
	}
	return nil
}

func (t *Tunnel) stop() {
	t.mu.Lock() // a call begins with the lock held
	t.cancel()
	t.mu.Unlock()
	t.calls.Wait()
}
