// Package httptunnel carries arklet messages over HTTP (protocol 4).
//
// A base registers by its heartbeats and is then asked at the address that it named. Each base has
// its own queue: one that hangs holds up nobody else.
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

	"github.com/koupleless/koupsandbox/controller/internal/door"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// ErrStopped says that a command was not sent because the tunnel has ended.
var ErrStopped = errors.New("the HTTP tunnel has stopped")

// Defaults of Options.
const (
	// DefaultAddr is where bases send their heartbeats to (Module Controller V2 document 5.4).
	DefaultAddr             = ":7777"
	DefaultOperationTimeout = 5 * time.Minute
	// DefaultConnections is the default of the maximum number of connections. They use about 270 MB of memory
	// if each is sending a body, with 32 MiB of bodies in total. They use about 660 MB if each has sent the
	// largest header.
	DefaultConnections = 4096
)

// Options configure a Tunnel. A zero value means its default.
type Options struct {
	// Addr is where heartbeats are received, host:port; empty means DefaultAddr.
	Addr string
	// TLS serves heartbeats over TLS; nil serves plain HTTP, which is all that a base of today speaks.
	// If its ClientAuth verifies certificates, the identity of a base is the name of its certificate.
	TLS *tls.Config
	// Token is what a base must send, as "Authorization: Bearer TOKEN" or as the first part of the
	// path; empty asks for none.
	Token string
	// Connections are how many bases have open at once; 0 means 4,096. One more takes the place of
	// another, by the rules of package door.
	Connections int
	// Networks are those in which a base may name another address than the one that it speaks from.
	Networks tunnel.Networks
	// OperationTimeout is how long install, uninstall and switch may take in all; 0 means 5 min.
	OperationTimeout time.Duration
	// Speed divides how long a question may take.
	Speed pace.Speed
	// Dial connects to the arklet of a base; nil dials the address itself, for at most 5 s.
	// Simulated bases have addresses that lead nowhere, and need it.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy is http://[user:password@]host[:port] of an HTTP proxy that connects to bases, by
	// CONNECT; nil connects directly. It is not used when Dial is set.
	Proxy *url.URL
	// Logger is where the start and trouble with connections go; nil discards them.
	Logger *slog.Logger
}

// Tunnel is the HTTP side of the controller. All its methods may be called concurrently.
type Tunnel struct {
	opts      Options
	handler   tunnel.Handler
	transport *http.Transport
	baselines chan struct{} // holds those that are being answered

	mu       sync.Mutex
	listener net.Listener
	stopped  bool
	queries  map[query]*call // under way, with the one that waits for its turn, nil if none
	running  map[string]int  // operations under way by base
	cancels  map[*call]context.CancelFunc
	calls    sync.WaitGroup
}

// New prepares a tunnel that tells handler what bases say. Nothing is opened before Listen or
// Start.
func New(opts Options, handler tunnel.Handler) *Tunnel {
	opts.Addr = cmp.Or(opts.Addr, DefaultAddr)
	opts.Connections = cmp.Or(opts.Connections, DefaultConnections)
	opts.OperationTimeout = cmp.Or(opts.OperationTimeout, DefaultOperationTimeout)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Dial == nil && opts.Proxy != nil {
		opts.Dial = ThroughProxy(opts.Proxy)
	}
	if opts.Dial == nil {
		opts.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	t := &Tunnel{
		handler: handler, baselines: make(chan struct{}, tunnel.Baselines),
		queries: map[query]*call{}, running: map[string]int{}, cancels: map[*call]context.CancelFunc{},
	}
	opts.Dial = door.LimitReads(opts.Dial, allAnswers, t.evictedAnswer)
	t.opts, t.transport = opts, newTransport(opts)
	return t
}

// Key names the tunnel.
func (t *Tunnel) Key() tunnel.Key { return tunnel.HTTP }

// Listen takes the address, so that one that is taken already stops the start. Connections wait
// until Start serves them. A second call does nothing.
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
	l = door.Limit(l, door.Limits{Connections: t.opts.Connections, Bytes: allBodies, Evicted: t.evicted})
	if t.opts.TLS != nil {
		l = tls.NewListener(l, t.opts.TLS)
	}
	t.listener = l
	return nil
}

// Addr is where the tunnel listens, with the port that a port of 0 became; it is empty before
// Listen.
func (t *Tunnel) Addr() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

// What a client may take, so that one that sends nothing holds nothing.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	// answerTimeout leaves time for choosing a baseline, which reads many objects.
	answerTimeout = time.Minute
	idleTimeout   = time.Minute
	maxHeader     = 1 << 10 // net/http adds 4 KiB
	// stopTimeout is how long requests that were read may take to be answered at the end.
	stopTimeout = 5 * time.Second
)

// Start serves until ctx ends; commands that are under way then are given up, and Unanswered. It
// returns when nothing of the tunnel runs any more. A tunnel is started once.
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
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:          slog.NewLogLogger(t.opts.Logger.Handler(), slog.LevelDebug),
	}
	t.opts.Logger.Info("receiving heartbeats over HTTP", "addr", t.Addr(), "tls", t.opts.TLS != nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.listener) }()
	var err error
	select {
	case <-ctx.Done():
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close() // whoever is left does not read its answer
		}
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = ended
		}
	case err = <-served:
		err = fmt.Errorf("receiving heartbeats over HTTP on %s: %w", t.Addr(), err)
	}
	t.stop()
	return err
}

// stop gives up what is under way and waits for it.
func (t *Tunnel) stop() {
	t.mu.Lock()
	t.stopped = true
	for _, cancel := range t.cancels {
		cancel()
	}
	t.mu.Unlock()
	t.calls.Wait()
}
