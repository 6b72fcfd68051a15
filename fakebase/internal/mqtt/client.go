// Package mqtt is an MQTT 3.1.1 client for processes with thousands of connections. A connected client needs one
// goroutine, which calls Run. A second goroutine runs only while data is written. With the paho client, each base would
// need nine more goroutines and 28 KB.
//
// The client behaves like paho's Java client in a base (protocol 3.1): clean session, QoS 1 in both directions, pings,
// and reconnects after 1 s, 2 s and so on up to 128 s. It does not store or resend messages, because a clean
// session ends with the connection.
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

// ErrNotConnected is returned by Publish and Subscribe while the client is not connected.
var ErrNotConnected = errors.New("mqtt: client is not connected")

// ErrTooManyInFlight is returned by Publish when MaxInFlight messages are waiting for an acknowledgement.
var ErrTooManyInFlight = errors.New("mqtt: too many publishes in flight")

// ErrRefused is wrapped by the error of a connection attempt that the broker refused.
var ErrRefused = errors.New("mqtt: connection refused by the broker")

// The defaults of the Paho client. The default of MaxInFlight comes from arklet.
const (
	// FirstPause is the delay before the first reconnect. The delay doubles up to LastPause.
	FirstPause     = time.Second
	LastPause      = 128 * time.Second
	KeepAlive      = 60 * time.Second
	ConnectTimeout = 30 * time.Second
	MaxInFlight    = 1000

	maxPacket = 16 << 20 // maximum size of a packet from the broker, in bytes
)

// Options configures a Client. All fields except FailFirst, Username and Password are required.
type Options struct {
	// Dial opens the connection to the broker.
	Dial func(context.Context) (net.Conn, error)
	// ClientID, Username and Password identify the client. The client does not send an empty user name or password.
	ClientID, Username, Password string
	// Speed is the time scale, at least 1. The keep-alive interval, delays and timeouts are divided by it.
	Speed int
	// FailFirst makes Run return an error if the first connection attempt fails.
	FailFirst bool
	// OnConnect is called after each handshake; first reports whether it is the first connection. OnMessage is called
	// with each message, and may keep the payload. OnLost is called when a connection ends. Run calls all three
	// functions.
	OnConnect func(first bool)
	OnMessage func(topic string, payload []byte)
	OnLost    func(error)
	Logger    *slog.Logger
}

func (o *Options) scaled(d time.Duration) time.Duration { return d / time.Duration(o.Speed) }

// Client is an MQTT client. Its methods are safe for concurrent use.
type Client struct {
	opts Options

	mu   sync.Mutex
	conn *conn         // nil while the client is not connected
	held chan struct{} // closed by Release; nil if the connection is not held
}

// New returns a client. The client connects when Run is called.
func New(opts Options) *Client { return &Client{opts: opts} }

// Run connects, serves the connection and reconnects after each loss, until ctx is done. Then it returns nil. With
// FailFirst, it returns the error of a failed first connection attempt.
func (c *Client) Run(ctx context.Context) error {
	firstPause := c.opts.scaled(FirstPause)
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
			c.opts.Logger.Log(ctx, level, "could not connect to the broker", "client", c.opts.ClientID, "retry", pause,
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
		pause = min(2*pause, c.opts.scaled(LastPause))
	}
}

// serve reads packets from a connection until the connection ends.
func (c *Client) serve(ctx context.Context, cn *conn, firstConnect bool) error {
	c.mu.Lock()
	if c.held != nil {
		c.mu.Unlock()
		cn.close()
		return errors.New("the client was put on hold during the connection attempt")
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
	c.opts.OnConnect(firstConnect)
	cn.startKeepAlive()
	return cn.read()
}

// Publish queues a message with QoS 1. It does not block on the network and does not wait for the acknowledgement.
// The caller must not change the payload afterwards.
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

// Subscribe queues a subscription to topic filters with QoS 1. If the broker refuses the subscription, the client
// logs the refusal.
func (c *Client) Subscribe(filters ...string) error {
	cn := c.current()
	if cn == nil {
		return fmt.Errorf("subscribing: %w", ErrNotConnected)
	}
	return cn.subscribe(filters)
}

// Connected reports whether the client is connected.
func (c *Client) Connected() bool { return c.current() != nil }

// Hold closes the connection and prevents reconnects until Release is called.
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

// Release ends a Hold. The client reconnects after the current reconnect delay.
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
