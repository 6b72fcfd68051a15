package fakebase

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// The budget that doc.go promises for an idle base.
const (
	goroutineBudget = 1
	memoryBudget    = 40 << 10
)

// idleConn is a broker that accepts everything and sends nothing of its own.
// It has no goroutine, so that a measurement sees the client's side only.
type idleConn struct {
	mu     sync.Mutex
	ready  *sync.Cond
	in     []byte // what the client has not read yet
	out    []byte // of the client, not yet a whole packet
	closed bool
}

func newIdleConn() *idleConn {
	c := &idleConn{}
	c.ready = sync.NewCond(&c.mu)
	return c
}

func (c *idleConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.in) == 0 {
		if c.closed {
			return 0, net.ErrClosed
		}
		c.ready.Wait()
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

// Write answers CONNECT, SUBSCRIBE and PUBLISH as a broker does.
func (c *idleConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.out = append(c.out, p...)
	for c.answer() {
	}
	c.ready.Broadcast()
	return len(p), nil
}

// answer takes one whole packet from what was written; false = there is none.
func (c *idleConn) answer() bool {
	size, head := 0, 1
	for shift := 0; ; shift += 7 {
		if head >= len(c.out) {
			return false
		}
		b := c.out[head]
		size |= int(b&127) << shift
		head++
		if b < 128 {
			break
		}
	}
	if len(c.out) < head+size {
		return false
	}
	body := c.out[head : head+size]
	switch c.out[0] >> 4 {
	case 1:
		c.in = append(c.in, 0x20, 2, 0, 0)
	case 3:
		topic := 2 + int(body[0])<<8 + int(body[1])
		c.in = append(c.in, 0x40, 2, body[topic], body[topic+1])
	case 8:
		ack := []byte{0x90, 2, body[0], body[1]}
		for rest := body[2:]; len(rest) > 2; ack[1]++ {
			rest = rest[2+int(rest[0])<<8+int(rest[1])+1:]
			ack = append(ack, 1)
		}
		c.in = append(c.in, ack...)
	}
	c.out = c.out[head+size:]
	if len(c.out) == 0 {
		c.out = nil
	}
	return true
}

func (c *idleConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.ready.Broadcast()
	return nil
}

func (c *idleConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c *idleConn) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (c *idleConn) SetDeadline(time.Time) error      { return nil }
func (c *idleConn) SetReadDeadline(time.Time) error  { return nil }
func (c *idleConn) SetWriteDeadline(time.Time) error { return nil }

// usage is what the process occupies after a collection.
func usage() (bytes int64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// fleet runs n idle bases until stop is called. It returns when all are
// connected and have sent a heartbeat.
func fleet(tb testing.TB, n int) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	catalogue := &Catalogue{}
	var running, connected sync.WaitGroup
	for i := range n {
		b, err := New(Options{
			Identity: fmt.Sprintf("base-%d", i), Catalogue: catalogue,
			MQTT: &MQTTOptions{Dial: func(context.Context) (net.Conn, error) { return newIdleConn(), nil }},
		})
		if err != nil {
			tb.Fatal(err)
		}
		connected.Add(1)
		b.Watch(func(e Event) {
			if e.Kind == EventConnected {
				connected.Done()
			}
		})
		running.Go(func() {
			if err := b.Start(ctx); err != nil {
				tb.Error(err)
			}
		})
	}
	connected.Wait()
	return func() {
		cancel()
		running.Wait()
	}
}

// settle waits until the goroutines that exist only to write are gone.
func settle(tb testing.TB, atMost int) {
	tb.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for runtime.NumGoroutine() > atMost {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Errorf("%d goroutines, want at most %d", runtime.NumGoroutine(), atMost)
			return
		}
	}
}

func TestIdleBaseStaysWithinItsBudget(t *testing.T) {
	const n = 1000
	before, goroutines := usage()
	stop := fleet(t, n)
	defer stop()
	settle(t, goroutines+n*goroutineBudget)
	after, now := usage()
	perBase := (after - before) / n
	t.Logf("%d bases: %d bytes and %.2f goroutines each", n, perBase, float64(now-goroutines)/n)
	if perBase > memoryBudget {
		t.Errorf("an idle base occupies %d bytes, more than %d", perBase, memoryBudget)
	}
}

func TestEndedBasesLeaveNoGoroutines(t *testing.T) {
	_, before := usage()
	fleet(t, 50)()
	settle(t, before)
}

// BenchmarkIdleBase prints what an idle base costs, its connection included.
func BenchmarkIdleBase(b *testing.B) {
	before, goroutines := usage()
	b.ResetTimer()
	stop := fleet(b, b.N)
	b.StopTimer()
	settle(b, goroutines+b.N)
	after, now := usage()
	b.ReportMetric(float64(after-before)/float64(b.N), "bytes/base")
	b.ReportMetric(float64(now-goroutines)/float64(b.N), "goroutines/base")
	stop()
}

// BenchmarkPahoClient prints what a connected paho client costs, for comparison.
func BenchmarkPahoClient(b *testing.B) {
	before, goroutines := usage()
	clients := make([]paho.Client, b.N)
	b.ResetTimer()
	for i := range clients {
		clients[i] = paho.NewClient(paho.NewClientOptions().AddBroker("tcp://idle:1").
			SetClientID(fmt.Sprintf("c%d", i)).
			SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return newIdleConn(), nil }))
		if t := clients[i].Connect(); !t.WaitTimeout(time.Minute) || t.Error() != nil {
			b.Fatal(t.Error())
		}
		if t := clients[i].Subscribe("x/+", 1, nil); !t.WaitTimeout(time.Minute) || t.Error() != nil {
			b.Fatal(t.Error())
		}
	}
	b.StopTimer()
	after, now := usage()
	b.ReportMetric(float64(after-before)/float64(b.N), "bytes/client")
	b.ReportMetric(float64(now-goroutines)/float64(b.N), "goroutines/client")
	for _, c := range clients {
		c.Disconnect(0)
	}
}

// BenchmarkHeartbeat is the whole work that an idle base has, every 10 s.
func BenchmarkHeartbeat(b *testing.B) {
	opts := Options{Identity: "b1", MQTT: &MQTTOptions{
		Dial: func(context.Context) (net.Conn, error) { return newIdleConn(), nil },
	}}
	base, err := New(opts)
	if err != nil {
		b.Fatal(err)
	}
	connected := make(chan struct{})
	base.Watch(func(e Event) {
		if e.Kind == EventConnected {
			close(connected)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- base.Start(ctx) }()
	<-connected
	base.mu.Lock()
	tunnel := base.life.mqtt
	base.mu.Unlock()
	b.ReportAllocs()
	for b.Loop() {
		for tunnel.sendHeartbeat() != nil { // more in flight than a client may have
			runtime.Gosched()
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
