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
	"time"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// relive lets a simulated base live through the phases of a recording, and compares
// what it sends. Time passes only when everybody waits.
func relive(t *testing.T, r recording.Recording) (out []difference) {
	t.Helper()
	places := lay(t, r.Jars, new(recording.Hanging))
	opts := simulate(t, r)
	synctest.Test(t, func(t *testing.T) {
		s := &surroundings{t: t, tap: &recording.Tap{}}
		if r.Tunnel == recording.MQTT {
			s.openBroker()
			opts.MQTT = &MQTTOptions{Dial: s.dialBroker, Username: "any", Password: "any"}
		} else {
			opts.HTTP = s.openController()
		}
		s.opts = opts
		p := &replayer{t: t, world: s.world, places: places, tunnel: r.Tunnel, dial: s.arklet.dial}
		for i, ph := range r.Phases {
			for _, d := range compareSent(ph.Sent, s.live(ph)) {
				out = append(out, difference{d, fmt.Sprintf("phase %d (%s)", i+1, ph.Event)})
			}
			s.forget()
			out = append(out, p.play(ph.Exchanges)...)
		}
	})
	return out
}

// surroundings are a base and the broker or controller around it, in memory.
type surroundings struct {
	t    *testing.T
	opts Options
	base *Base // nil = it has not been started
	tap  *recording.Tap

	world *world
	mu    sync.Mutex
	conns []net.Conn // of the base to the broker
	away  bool       // nobody listens

	arklet  port // of arklet's HTTP server
	heart   port // of the controller
	control recording.Controller
	server  *http.Server // with control
}

// live lets one phase pass, and returns what the base sends.
func (s *surroundings) live(ph recording.Phase) []recording.Sent {
	s.t.Helper()
	first := s.tap.Expect()
	s.happen(ph.Event)
	if ph.Event == recording.Start && !s.away {
		select {
		case <-first:
		case <-time.After(time.Minute):
			s.t.Fatal("the base says nothing")
		}
	}
	pass(time.Duration(ph.Seconds) * time.Second)
	synctest.Wait()
	return s.tap.Take()
}

func (s *surroundings) happen(event recording.Event) {
	s.t.Helper()
	switch event {
	case recording.Start:
		s.start()
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
		s.t.Fatalf("unknown event %q", event)
	}
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

// forget drops the messages of a phase: an exchange looks at those that it causes.
func (s *surroundings) forget() {
	if s.world == nil {
		return
	}
	synctest.Wait()
	for len(s.world.messages) > 0 {
		<-s.world.messages
	}
}

var errRefused = errors.New("connection refused")

func (s *surroundings) leave(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *surroundings) openBroker() {
	s.world = newWorld(s.t)
	s.tap.ClientID, s.tap.Prefix = "koupleless@@@b1", "koupleless_dev/b1/"
	if err := s.world.broker.AddHook(s.tap, nil); err != nil {
		s.t.Fatal(err)
	}
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
	s.control.Tap = s.tap
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
