package shipped

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/fakebase"
)

// Two controllers share bases over HTTP behind one TCP load balancer, so each base sends heartbeats to one
// controller until its connection ends. After a restart of one controller, both observe all bases.
func TestBalancer(t *testing.T) {
	t.Parallel()
	const bases, rounds, heartbeat = 8, 11, 3 * time.Second
	env := environment()
	set := map[string]string{
		"ENV": env, "ENABLE_MQTT_TUNNEL": "false", "ENABLE_HTTP_TUNNEL": "true", "BASE_NETWORKS": "127.0.0.0/8",
	}
	lb := startBalancer(t)
	begin := func(i int, name string) *process {
		p := controller(t, name, "", set)
		p.ready(t)
		addr, err := p.logged(`msg="receiving heartbeats over HTTP" addr=`)
		must(t, err)
		lb.set(i, addr)
		return p
	}
	first, second := begin(0, "first"), begin(1, "second")
	for i := range bases {
		ip := fmt.Sprintf("127.0.12.%d", i+1)
		// Each base has its own client, and keeps its connection to the controller.
		transport := &http.Transport{}
		b, err := fakebase.New(fakebase.Options{
			Identity: fmt.Sprintf("balanced-%d", i), Env: env, IP: ip, HeartbeatInterval: heartbeat,
			HTTP: &fakebase.HTTPOptions{Addr: net.JoinHostPort(ip, "0"), HeartbeatEndpoint: "http://" + lb.addr, Client: &http.Client{Transport: transport, Timeout: patience}},
		})
		must(t, err)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- b.Start(ctx) }()
		t.Cleanup(func() {
			cancel()
			must(t, <-done)
			transport.CloseIdleConnections()
		})
	}
	eventually(t, "the bases are Ready", func(ctx context.Context) error { return allReady(ctx, env, bases) })

	second.end()
	lb.set(1, "")
	second = begin(1, "second-again")
	lb.reset()
	// After 12.5 s without a message, heartbeats of a base count as missed. The test waits for heartbeats more
	// than twice that long.
	eventually(t, "each base sends some heartbeats", func(ctx context.Context) error {
		list, err := nodes(ctx, env)
		if err != nil {
			return err
		}
		for i := range list {
			if !check.NodeReady(&list[i]) {
				t.Errorf("node %s is not Ready: %+v", list[i].Name, list[i].Status.Conditions)
			}
		}
		for _, p := range []*process{first, second} {
			m, err := p.metrics(ctx)
			must(t, err)
			if n := m.Sum("module_controller_bases_unobserved", nil); n != 0 {
				t.Fatalf("%s does not observe %v bases:\n%s", p.id, n, p.output())
			}
		}
		if a, b := lb.heartbeats(); a+b < bases*rounds || a == 0 || b == 0 {
			return fmt.Errorf("the controllers have received %d and %d heartbeats", a, b)
		}
		return nil
	})
	for _, p := range []*process{first, second} {
		if strings.Contains(p.output(), "OverFiftyPercentBaseInstancesUnavaliable") {
			t.Errorf("%s reports a mass failure:\n%s", p.id, p.output())
		}
		m, err := p.metrics(t.Context())
		must(t, err)
		if n := m.Sum("module_controller_blindness_total", nil); n != 0 {
			t.Errorf("module_controller_blindness_total of %s is %v, want 0", p.id, n)
		}
	}
	must(t, allReady(t.Context(), env, bases))
}

// balancer is a TCP load balancer with two backends that take turns.
type balancer struct {
	addr string

	mu       sync.Mutex
	backends [2]string // empty = none
	turn     int
	received [2]int // heartbeats, by backend
	open     map[net.Conn]int
}

func startBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b := &balancer{addr: l.Addr().String(), open: map[net.Conn]int{}}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { b.forward(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // it only accepts
		b.set(0, "")
		b.set(1, "")
		group.Wait()
	})
	return b
}

// set changes a backend, and ends the connections to the previous one.
func (b *balancer) set(i int, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends[i] = addr
	for conn, backend := range b.open {
		if backend == i {
			_ = conn.Close() // the backend has ended
		}
	}
}

func (b *balancer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.received = [2]int{}
}

func (b *balancer) heartbeats() (first, second int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received[0], b.received[1]
}

// pick returns the next backend that is set.
func (b *balancer) pick(conn net.Conn) (i int, addr string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.turn = (b.turn + 1) % len(b.backends)
		if addr := b.backends[b.turn]; addr != "" {
			b.open[conn] = b.turn
			return b.turn, addr, nil
		}
	}
	return 0, "", errors.New("there is no backend")
}

func (b *balancer) forward(conn net.Conn) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, conn)
		_ = conn.Close() // both sides have ended
	}()
	i, addr, err := b.pick(conn)
	if err != nil {
		return
	}
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }() // as above
	go func() {
		_, _ = io.Copy(conn, to) // either side may end first
		_ = conn.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(to, counter{b, i}), conn)
}

// counter counts the heartbeats in a stream of requests. fakebase writes each request in one piece.
type counter struct {
	b *balancer
	i int
}

func (c counter) Write(p []byte) (int, error) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.received[c.i] += strings.Count(string(p), "POST /heartbeat ")
	return len(p), nil
}
