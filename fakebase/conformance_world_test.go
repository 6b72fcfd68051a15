package fakebase

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// relive lets a simulated base live through the phases of a recording, and compares
// what it sends. Time passes only when all goroutines wait.
func relive(t *testing.T, r recording.Recording) (out []difference) {
	t.Helper()
	places := places(t, r.Jars)
	opts := simulate(t, r)
	synctest.Test(t, func(t *testing.T) {
		s := &surroundings{t: t}
		p := &recording.Player{Fixtures: places, Tunnel: r.Tunnel, Dial: s.arklet.dial, NoAnswerTimeout: noAnswer}
		if r.Tunnel == recording.MQTT {
			s.world = newWorld(t)
			p.Broker, p.Tap = s.world.broker, tap(t, s.world.broker)
			opts.MQTT = &MQTTOptions{Dial: s.dialBroker, Username: "any", Password: "any"}
		} else {
			p.Tap = recording.NewTap()
			s.control.Tap = p.Tap
			opts.HTTP = s.openController()
		}
		s.opts = opts
		lived, err := p.PlayPhases(t.Context(), s, r.Phases)
		if err != nil {
			t.Fatal(err)
		}
		for i, ph := range r.Phases {
			for _, d := range compareSent(ph.Sent, lived[i].Sent) {
				out = append(out, difference{d, fmt.Sprintf("phase %d (%s)", i+1, ph.Event)})
			}
			out = append(out, compareExchanges(ph.Exchanges, lived[i].Exchanges)...)
		}
	})
	return out
}

// surroundings are a base and the broker or controller around it, in memory.
type surroundings struct {
	t    *testing.T
	opts Options
	base *Base // nil = it has not been started

	world *world
	mu    sync.Mutex
	conns []net.Conn // of the base to the broker
	away  bool       // nobody listens

	arklet  port // of arklet's HTTP server
	heart   port // of the controller
	control recording.Controller
	server  *http.Server // with control
}

// Listens reports whether the broker or the controller accepts connections.
func (s *surroundings) Listens() bool { return !s.away }

// Ready does not block: the base has started.
func (s *surroundings) Ready(context.Context) error { return nil }

// Apply lets an event happen.
func (s *surroundings) Apply(_ context.Context, event recording.Event) error {
	s.t.Helper()
	switch event {
	case recording.Start:
		s.start() //nolint:contextcheck // the base ends in a cleanup
	case recording.Kill:
		s.base.Crash()
	case recording.BrokerStops:
		s.leave(true)
		s.cut()
	case recording.BrokerReturns:
		s.leave(false)
	case recording.ConnectionBreaks:
		s.cut()
	case recording.ControllerStops:
		s.leave(true)
		s.closeController()
	case recording.ControllerHangs, recording.ControllerFails:
		s.control.Set(event)
	case recording.ControllerReturns:
		s.control.Set(event)
		if s.away {
			s.leave(false)
			s.serve()
		}
	default:
		return fmt.Errorf("unknown event %q", event)
	}
	synctest.Wait()
	return nil
}

// start starts the base, or its next process. Only one without a broker may end by itself.
func (s *surroundings) start() {
	s.t.Helper()
	if s.base != nil {
		if err := s.base.Restart(""); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	b, err := New(s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.base = b
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	alone := s.away
	go func() { done <- b.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; (err != nil) != alone {
			s.t.Errorf("Start: %v", err)
		}
	})
}

var errRefused = errors.New("connection refused")

func (s *surroundings) leave(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *surroundings) dialBroker(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errRefused
	}
	conn, err := s.world.dial(ctx)
	s.conns = append(s.conns, conn)
	return conn, err
}

func (s *surroundings) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close() // it is to break
	}
	s.conns = nil
}

// openController opens a controller, and is how a base reaches it: in memory, with the
// time limits of the real one.
func (s *surroundings) openController() *HTTPOptions {
	s.serve()
	transport := heartbeatTransport.Clone()
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.heart.dial(ctx) }
	s.t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.closeController()
	})
	return &HTTPOptions{
		HeartbeatEndpoint: "http://controller:7777", Client: &http.Client{Transport: transport},
		listen: func(context.Context) (net.Listener, error) { return s.arklet.open(), nil },
	}
}

func (s *surroundings) serve() {
	server, l := &http.Server{Handler: &s.control}, s.heart.open()
	s.server = server
	go func() { _ = server.Serve(l) }() // it ends with the listener
}

func (s *surroundings) closeController() { _ = s.server.Close() } // what counts is that nobody listens

// port is where somebody listens in memory, or nobody. Its methods may be called concurrently.
type port struct {
	mu       sync.Mutex
	listener *memory
}

func (p *port) open() *memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
	m.close = sync.OnceFunc(func() { close(m.closed) })
	p.listener = m
	return m
}

func (p *port) dial(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	m := p.listener
	p.mu.Unlock()
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-m.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memory is a listener whose connections are in memory.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.close()
	return nil
}

// Addr is one that nobody can listen on: a base's next process tries, and then asks anew.
func (m *memory) Addr() net.Addr { return &net.TCPAddr{Port: 1 << 16} }
