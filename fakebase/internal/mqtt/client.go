// Package mqtt is a small MQTT 3.1.1 client for processes that hold thousands
// of connections. A connected client costs one goroutine, the one that called
// Run; writers appear only while there is something to write.
//
// It does what a base needs of paho's Java client (protocol 3.1): clean
// session, QoS 1 both ways, keep alive, automatic reconnect from 1 s doubling
// to 128 s. With a clean session nothing survives a lost connection, so there
// is no store and no retransmission.
package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// ErrNotConnected is returned by Publish and Subscribe between connections.
var ErrNotConnected = errors.New("mqtt: client is not connected")

// ErrTooManyInFlight is returned by Publish when MaxInFlight messages wait
// for their acknowledgement.
var ErrTooManyInFlight = errors.New("mqtt: too many publishes in flight")

// ErrRefused wraps the broker's refusal of a connection.
var ErrRefused = errors.New("mqtt: connection refused by broker")

// The defaults of paho and, for MaxInFlight, of arklet.
const (
	// FirstPause is the pause before the first reconnect. It doubles up to LastPause.
	FirstPause     = time.Second
	LastPause      = 128 * time.Second
	KeepAlive      = 60 * time.Second
	ConnectTimeout = 30 * time.Second
	MaxInFlight    = 1000

	maxPacket = 16 << 20 // bytes that a broker may send
)

// Options configure a Client. All but the credentials are required.
type Options struct {
	// Dial opens the connection to the broker.
	Dial func(context.Context) (net.Conn, error)
	// ClientID, Username and Password identify the client. Empty credentials are not sent.
	ClientID, Username, Password string
	// Speed divides keep-alive, pauses and timeouts; at least 1.
	Speed int
	// FailFirst makes Run return when the very first connection fails.
	FailFirst bool
	// OnConnect, OnMessage and OnLost are called on the goroutine of Run: after every
	// handshake, with every message, and when a connection ends. first reports whether it is
	// the first connection. The receiver may keep the payload.
	OnConnect func(first bool)
	OnMessage func(topic string, payload []byte)
	OnLost    func(error)
	Logger    *slog.Logger
}

func (o *Options) divided(d time.Duration) time.Duration { return d / time.Duration(o.Speed) }

// Client is one MQTT client. All methods may be called concurrently.
type Client struct {
	opts Options

	mu   sync.Mutex
	conn *conn         // nil between connections
	held chan struct{} // closed by Release; nil = not held
}

// New returns a client that connects when Run is called.
func New(opts Options) *Client { return &Client{opts: opts} }

// Run connects, serves the connection and reconnects until ctx ends, and then
// returns nil. With FailFirst it returns the error of a failed first attempt.
func (c *Client) Run(ctx context.Context) error {
	firstPause := c.opts.divided(FirstPause)
	first, pause := true, firstPause
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
			if pause == firstPause {
				level = slog.LevelWarn // once per outage
			}
			c.opts.Logger.Log(ctx, level, "connecting to broker failed", "client", c.opts.ClientID, "retry", pause,
				"err", err)
		default:
			pause = firstPause
			lost := c.serve(ctx, cn, first)
			first = false
			if ctx.Err() == nil {
				c.opts.OnLost(lost)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, c.opts.divided(LastPause))
	}
}

// serve makes the connection the client's and reads it until it breaks.
func (c *Client) serve(ctx context.Context, cn *conn, first bool) error {
	c.mu.Lock()
	if c.held != nil {
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
	c.opts.OnConnect(first)
	cn.watch()
	return cn.read()
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

// Connected reports whether there is a connection.
func (c *Client) Connected() bool { return c.current() != nil }

// Hold breaks the connection and keeps the client from reconnecting until Release.
func (c *Client) Hold() {
	c.mu.Lock()
	if c.held == nil {
		c.held = make(chan struct{})
	}
	cn := c.conn
	c.mu.Unlock()
	if cn != nil {
		cn.close()
	}
}

// Release ends a Hold. The client reconnects after its pause.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		close(c.held)
		c.held = nil
	}
}

func (c *Client) awaitRelease(ctx context.Context) bool {
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	if held == nil {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-held:
		return true
	}
}

func (c *Client) current() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}
