// Package mqtt is a small MQTT 3.1.1 client for processes that hold thousands
// of connections. A connected client costs one goroutine, the one that called
// Run; writers appear only while there is something to write.
//
// Why not paho.mqtt.golang: measured side by side (BenchmarkIdleBase and
// BenchmarkPahoClient in package fakebase), a connected paho client takes 10
// goroutines and 35 KB, a whole base on this one 1 goroutine and 14 KB. With
// 10,000 bases in a process that is 100,000 goroutines against 10,000. Packets
// are encoded and decoded by the codec of the mochi broker.
//
// It does what a base needs of paho's Java client (protocol 3.1): clean
// session, QoS 1 both ways, keep alive, automatic reconnect from 1 s doubling
// to 128 s. With a clean session nothing survives a lost connection, so there
// is no store and no retransmission: a message is sent or Publish says that
// it is not.
package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrNotConnected is what Publish and Subscribe answer between connections,
// as paho does with its code 32104.
var ErrNotConnected = errors.New("mqtt: client is not connected")

// ErrTooManyInFlight is what Publish answers when MaxInFlight messages wait
// for their acknowledgement.
var ErrTooManyInFlight = errors.New("mqtt: too many publishes in flight")

// ErrRefused wraps the broker's refusal of a connection.
var ErrRefused = errors.New("mqtt: connection refused by broker")

const (
	// FirstPause is paho's first pause before it connects again; it doubles from there.
	FirstPause = time.Second
	// LastPause is the longest such pause.
	LastPause = 128 * time.Second
	// KeepAlive is paho's default.
	KeepAlive = 60 * time.Second
	// ConnectTimeout is paho's default.
	ConnectTimeout = 30 * time.Second
	// MaxInFlight is what arklet sets as max in-flight.
	MaxInFlight = 1000
	// maxPacket bounds what a broker may send: far above any command.
	maxPacket = 16 << 20
)

// Options configure a Client.
type Options struct {
	// Dial opens the connection to the broker. Required.
	Dial func(context.Context) (net.Conn, error)
	// ClientID, Username and Password identify the client; the last two are
	// left out of the handshake when empty.
	ClientID, Username, Password string
	// KeepAlive is the longest silence; zero = 60 s, paho's default.
	KeepAlive time.Duration
	// ConnectTimeout bounds dial and handshake together; zero = 30 s, paho's default.
	ConnectTimeout time.Duration
	// FirstPause and LastPause are the shortest and the longest pause before it connects again; zero =
	// paho's.
	FirstPause, LastPause time.Duration
	// FailFirst makes Run return when the very first connection fails.
	FailFirst bool
	// OnConnect is called on the goroutine of Run after every handshake; first
	// tells the first of this Client. nil = nothing to do.
	OnConnect func(first bool)
	// OnMessage is called on the goroutine of Run with every message; it must
	// not keep the connection waiting. The payload is the receiver's to keep.
	OnMessage func(topic string, payload []byte)
	// OnLost is called on the goroutine of Run when a connection ends. nil = nothing to do.
	OnLost func(error)
	// Clock and Logger are required.
	Clock  clock.WithDelayedExecution
	Logger *slog.Logger
}

// Client is one MQTT client. All methods may be called concurrently.
type Client struct {
	opts Options

	mu   sync.Mutex
	conn *conn // nil between connections
	held bool  // reconnecting is held up by Hold
	free chan struct{}
}

// New returns a client that connects when Run is called.
func New(opts Options) *Client {
	for d, paho := range map[*time.Duration]time.Duration{
		&opts.KeepAlive: KeepAlive, &opts.ConnectTimeout: ConnectTimeout, &opts.FirstPause: FirstPause, &opts.LastPause: LastPause,
	} {
		*d = cmp.Or(*d, paho)
	}
	return &Client{opts: opts}
}

// Run connects, serves the connection and reconnects until ctx ends, and then
// returns nil. With FailFirst it returns the error of a failed first attempt.
func (c *Client) Run(ctx context.Context) error {
	first, backoff := true, c.opts.FirstPause
	for {
		if !c.awaitRelease(ctx) {
			return nil
		}
		cn, err := c.connect(ctx)
		switch {
		case ctx.Err() != nil:
			if cn != nil {
				cn.close()
			}
			return nil
		case err != nil && first && c.opts.FailFirst:
			return err
		case err != nil:
			level := slog.LevelDebug
			if backoff == c.opts.FirstPause {
				level = slog.LevelWarn // once per outage
			}
			c.opts.Logger.Log(ctx, level, "connecting to broker failed", "client", c.opts.ClientID, "retry", backoff, "err", err)
		default:
			backoff = c.opts.FirstPause
			lost := c.serve(ctx, cn, first)
			first = false
			if c.opts.OnLost != nil && ctx.Err() == nil {
				c.opts.OnLost(lost)
			}
		}
		if !c.sleep(ctx, backoff) {
			return nil
		}
		backoff = min(2*backoff, c.opts.LastPause)
	}
}

// serve makes the connection the client's and reads it until it breaks.
func (c *Client) serve(ctx context.Context, cn *conn, first bool) error {
	c.mu.Lock()
	if c.held {
		c.mu.Unlock()
		cn.close()
		return errors.New("connection is held up")
	}
	c.conn = cn
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
		cn.close()
		cn.writers.Wait()
	}()
	stop := context.AfterFunc(ctx, cn.close)
	defer stop()
	if c.opts.OnConnect != nil {
		c.opts.OnConnect(first)
	}
	cn.watch()
	return cn.read(c.opts.OnMessage)
}

// Publish sends a message with QoS 1 without waiting for the acknowledgement.
// It does not block on the network. The payload must not change afterwards.
func (c *Client) Publish(topic string, payload []byte) error {
	cn := c.current()
	if cn == nil {
		return fmt.Errorf("publishing to %q: %w", topic, ErrNotConnected)
	}
	if err := cn.publish(topic, payload); err != nil {
		return fmt.Errorf("publishing to %q: %w", topic, err)
	}
	return nil
}

// Subscribe asks for topic filters with QoS 1. A refusal by the broker is logged.
func (c *Client) Subscribe(filters ...string) error {
	cn := c.current()
	if cn == nil {
		return fmt.Errorf("subscribing: %w", ErrNotConnected)
	}
	return cn.subscribe(filters)
}

// Connected tells whether there is a connection.
func (c *Client) Connected() bool { return c.current() != nil }

// Hold breaks the connection and keeps the client from reconnecting until Release.
func (c *Client) Hold() {
	c.mu.Lock()
	if !c.held {
		c.held, c.free = true, make(chan struct{})
	}
	cn := c.conn
	c.mu.Unlock()
	if cn != nil {
		cn.close()
	}
}

// Release ends a Hold; the client reconnects when its pause is over.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		c.held = false
		close(c.free)
	}
}

func (c *Client) awaitRelease(ctx context.Context) bool {
	c.mu.Lock()
	held, free := c.held, c.free
	c.mu.Unlock()
	if !held {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-free:
		return true
	}
}

func (c *Client) current() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	t := c.opts.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}
