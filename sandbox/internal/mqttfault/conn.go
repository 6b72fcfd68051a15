package mqttfault

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// conn is the broker's end of a connection under the faults of a view.
type conn struct {
	net.Conn
	view    *View
	in, out *pipe // from and to the client

	tapped atomic.Bool // a fault has acted on it: all packets go through the pipes
	closes sync.Once
	closed chan struct{}

	// The mutex of the View guards what follows.
	identity string // empty before CONNECT
	known    bool   // whether client is set
	client   Client
	version  byte
}

// Through returns the broker's end of a connection with a client, under the faults of the view.
func (v *View) Through(inner net.Conn) net.Conn {
	c := &conn{Conn: inner, view: v, closed: make(chan struct{})}
	c.in, c.out = newPipe(c, v1alpha1.ToBroker), newPipe(c, v1alpha1.FromBroker)
	c.out.deliver = inner.Write
	v.Lock()
	defer v.Unlock()
	v.conns[c] = struct{}{}
	return c
}

func (c *conn) pipes() []*pipe { return []*pipe{c.in, c.out} }

// greet records the client that the first packet names.
func (c *conn) greet(first []byte) {
	identity, version := clientOf(first)
	v := c.view
	v.Lock()
	defer v.Unlock()
	c.identity, c.version = identity, version
	v.arm(c)
	for x := range v.live() {
		v.cut(x, c)
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.in.busy() {
		return c.in.read(p)
	}
	n, err := c.Conn.Read(p)
	if c.in.passes(p[:n]) {
		if c.in.ended() {
			return 0, io.EOF
		}
		return n, err
	}
	c.in.feed(p[:n], err)
	if err == nil {
		_ = c.Conn.SetReadDeadline(time.Time{}) // it is the pipe's from now on
		go c.pump()
	}
	return c.in.read(p)
}

// pump reads ahead, so that delays begin when packets arrive. It ends with the connection.
func (c *conn) pump() {
	buffer := make([]byte, 4096)
	for {
		n, err := c.Conn.Read(buffer)
		c.in.feed(buffer[:n], err)
		if err != nil {
			return
		}
	}
}

// Write implements net.Conn. Packets that wait count as written, as in the buffers of a network.
func (c *conn) Write(p []byte) (int, error) {
	passes := c.out.passes(p)
	switch {
	case c.out.ended():
		return 0, net.ErrClosed
	case passes:
		return c.Conn.Write(p)
	default:
		c.out.feed(p, nil)
		return len(p), nil
	}
}

// Close does not wait for queued packets, which are lost.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closes.Do(func() {
		close(c.closed)
		c.out.end()
		c.view.Lock()
		delete(c.view.conns, c)
		c.view.Unlock()
	})
	return err
}

// shut ends the connection like a network failure.
func (c *conn) shut() {
	c.in.end() // first, so that its user reads that, and not that it was closed here
	c.out.end()
	_ = c.Conn.Close() // nothing that was to come is missed
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	if c.in.setDeadline(t) {
		return c.SetWriteDeadline(t)
	}
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.in.setDeadline(t) {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// acknowledged reports whether an acknowledgement passes. A message that was delivered twice is acknowledged
// twice, but its sender has sent it once.
func (c *conn) acknowledged(p *pipe, m *packet) bool {
	if m.kind != packets.Puback {
		return true
	}
	other := c.in
	if p == c.in {
		other = c.out
	}
	return !other.doubled(m.id)
}
