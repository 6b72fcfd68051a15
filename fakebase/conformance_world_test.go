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

// replayPhases replays the phases of a recording with a simulated base, and compares the packets and requests that
// the base sends. It runs in a synctest bubble.
func replayPhases(t *testing.T, r recording.Recording) (out []difference) {
	t.Helper()
	fixtures := newFixtures(t, r.Jars)
	opts := simulate(t, r)
	synctest.Test(t, func(t *testing.T) {
		s := &environment{t: t}
		p := &recording.Player{Fixtures: fixtures, Tunnel: r.Tunnel, Dial: s.arklet.dial,
			NoAnswerTimeout: noAnswerTimeout}
		if r.Tunnel == recording.MQTT {
			s.broker = newTestBroker(t)
			p.Broker, p.Tap = s.broker.broker, addTap(t, s.broker.broker)
			opts.MQTT = &MQTTOptions{Dial: s.dialBroker, Username: "any", Password: "any"}
		} else {
			p.Tap = recording.NewTap()
			s.control.Tap = p.Tap
			opts.HTTP = s.openController()
		}
		s.opts = opts
		played, err := p.PlayPhases(t.Context(), s, r.Phases)
		if err != nil {
			t.Fatal(err)
		}
		for i, ph := range r.Phases {
			for _, d := range compareSent(ph.Sent, played[i].Sent) {
				out = append(out, difference{d, fmt.Sprintf("phase %d (%s)", i+1, ph.Event)})
			}
			out = append(out, compareExchanges(ph.Exchanges, played[i].Exchanges)...)
		}
	})
	return out
}

// environment implements recording.Environment in memory, with a base and its broker or controller.
type environment struct {
	t    *testing.T
	opts Options
	base *Base // the base; nil before the first start

	broker *testBroker
	mu     sync.Mutex
	conns  []net.Conn // connections of the base to the broker
	closed bool       // the broker or the controller refuses connections

	arklet     port // port of the arklet HTTP server
	heartbeats port // port on which the controller receives heartbeats
	control    recording.Controller
	server     *http.Server // HTTP server whose handler is control
}

// Listens reports whether the broker or the controller accepts connections.
func (s *environment) Listens() bool { return !s.closed }

// Ready returns immediately, because a simulated base is ready as soon as it has started.
func (s *environment) Ready(context.Context) error { return nil }

// Apply applies an event of the recording.
func (s *environment) Apply(_ context.Context, event recording.Event) error {
	s.t.Helper()
	switch event {
	case recording.Start:
		s.start() //nolint:contextcheck // a cleanup stops the base
	case recording.Kill:
		s.base.Crash()
	case recording.BrokerStops:
		s.setClosed(true)
		s.disconnect()
	case recording.BrokerReturns:
		s.setClosed(false)
	case recording.ConnectionBreaks:
		s.disconnect()
	case recording.ControllerStops:
		s.setClosed(true)
		s.closeController()
	case recording.ControllerHangs, recording.ControllerFails:
		s.control.Set(event)
	case recording.ControllerReturns:
		s.control.Set(event)
		if s.closed {
			s.setClosed(false)
			s.serve()
		}
	default:
		return fmt.Errorf("unknown event %q", event)
	}
	synctest.Wait()
	return nil
}

// start starts the base, or its next process. If the broker refuses connections, the start of the base must fail.
func (s *environment) start() {
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
	wantError := s.closed
	go func() { done <- b.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; (err != nil) != wantError {
			s.t.Errorf("Start() = %v, want an error: %t", err, wantError)
		}
	})
}

var errRefused = errors.New("connection refused")

func (s *environment) setClosed(closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = closed
}

func (s *environment) dialBroker(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errRefused
	}
	conn, err := s.broker.dial(ctx)
	s.conns = append(s.conns, conn)
	return conn, err
}

func (s *environment) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// openController starts a controller. It returns the options of a base that connects to this controller in memory,
// with the timeouts of a real base.
func (s *environment) openController() *HTTPOptions {
	s.serve()
	transport := heartbeatTransport.Clone()
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.heartbeats.dial(ctx) }
	s.t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.closeController()
	})
	return &HTTPOptions{
		HeartbeatEndpoint: "http://controller:7777", Client: &http.Client{Transport: transport},
		listen: func(context.Context) (net.Listener, error) { return s.arklet.open(), nil },
	}
}

func (s *environment) serve() {
	server, l := &http.Server{Handler: &s.control}, s.heartbeats.open()
	s.server = server
	go func() { _ = server.Serve(l) }() // ends with the listener
}

func (s *environment) closeController() { _ = s.server.Close() }

// port is a simulated TCP port that may have an in-memory listener. Its methods may be called concurrently.
type port struct {
	mu       sync.Mutex
	listener *memoryListener
}

func (p *port) open() *memoryListener {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
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

// memoryListener is a net.Listener with in-memory connections.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func (m *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memoryListener) Close() error {
	m.close()
	return nil
}

// Addr returns an address on which no process can listen, so that the next process of the base calls listen again.
func (m *memoryListener) Addr() net.Addr { return &net.TCPAddr{Port: 1 << 16} }
