package fakebase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// endpoint is an HTTP server that can be closed and opened again at the same address. Closing the server resets its
// connections, as the end of a process does.
type endpoint struct {
	handler http.Handler
	log     *slog.Logger
	listen  func(context.Context) (net.Listener, error) // opens the first listener

	addr atomic.Pointer[string] // address of the current or last listener; nil = none so far

	mu    sync.Mutex
	srv   *http.Server
	ln    net.Listener
	conns map[net.Conn]struct{}
}

// connKey is the context key under which the connection of a request is stored.
type connKey struct{}

// open starts listening, and serves requests on a goroutine that spawn starts. It has no effect if the endpoint is
// already open. If another program uses the previous address, open selects another address.
func (e *endpoint) open(ctx context.Context, spawn func(func()) bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv != nil {
		return nil
	}
	ln, err := e.relisten(ctx)
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	e.addr.Store(&addr)
	srv := &http.Server{
		Handler: e.handler, ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 30 * time.Second, DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: e.track,
	}
	e.conns = map[net.Conn]struct{}{}
	if !spawn(func() {
		if err := srv.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			e.log.Warn("could not serve HTTP", "addr", addr, "err", err)
		}
	}) {
		return ln.Close()
	}
	e.srv, e.ln = srv, ln
	return nil
}

func (e *endpoint) relisten(ctx context.Context) (net.Listener, error) {
	if addr := e.address(); addr != "" {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err == nil {
			return ln, nil
		}
		e.log.Warn("could not listen on the previous address; selecting another address", "addr", addr, "err", err)
	}
	return e.listen(ctx)
}

func (e *endpoint) close() {
	e.mu.Lock()
	srv, ln, conns := e.srv, e.ln, e.conns
	e.srv, e.ln, e.conns = nil, nil, nil
	for c := range conns {
		reset(c)
	}
	e.mu.Unlock()
	if srv != nil {
		_ = ln.Close() // the server may not have started to use it
		_ = srv.Close()
	}
}

func (e *endpoint) address() string {
	if p := e.addr.Load(); p != nil {
		return *p
	}
	return ""
}

func (e *endpoint) track(c net.Conn, state http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conns == nil {
		reset(c)
		return
	}
	switch state {
	case http.StateNew:
		e.conns[c] = struct{}{}
	case http.StateClosed:
		delete(e.conns, c)
	}
}

// forget stops tracking a hijacked connection after its handler has closed it.
func (e *endpoint) forget(c net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

// reset closes a connection with a TCP reset.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// listenOn returns a function that listens on host:port. An empty address means 127.0.0.1 and any free port.
func listenOn(addr string) func(context.Context) (net.Listener, error) {
	return func(ctx context.Context) (net.Listener, error) {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(addr, "127.0.0.1:0"))
		if err != nil {
			return nil, fmt.Errorf("listening on %s: %w", addr, err)
		}
		return ln, nil
	}
}

func listenFirstFree(ctx context.Context, host string, firstPort, lastPort int) (net.Listener, error) {
	var err error
	for port := firstPort; port <= lastPort; port++ {
		var ln net.Listener
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return ln, nil
		}
	}
	return nil, fmt.Errorf("no free port from %d to %d on %s: %w", firstPort, lastPort, host, err)
}
