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

// conn is a connection as a view lets it be seen.
type conn struct {
	net.Conn
	view *View
	// in is what Read reads, out what Write writes.
	in, out *pipe

	tapped atomic.Bool // a rule was for it: everything goes through the pipes
	closes sync.Once
	closed chan struct{}

	// The mutex of the View guards what follows.
	identity string // empty until the client has said it
	known    bool   // client is
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

// greet notes who the client is, by its first packet.
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

// pump reads ahead, so that it is known when what waits has come. It ends with the connection.
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

// Write is that of net.Conn. What has to wait counts as written, as in the buffers of a network.
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

// Close closes at once; what waits is lost.
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

// shut ends the connection as the network does.
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

// acknowledged reports whether the acknowledgement of a message passes: that of one which was delivered
// twice comes twice, and its sender knows of one delivery.
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
