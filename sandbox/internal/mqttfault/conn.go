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

// conn is the broker's side of a connection to a client. It applies faults to the packets.
type conn struct {
	net.Conn
	injector *Injector
	in, out  *pipe // in carries packets from the client; out carries packets to the client

	piped  atomic.Bool // whether all packets pass through the pipes, because a fault acts on the connection
	closes sync.Once
	closed chan struct{}

	// The mutex of the Injector guards the following fields.
	identity string // identity of the client; empty until the CONNECT packet arrives
	known    bool   // whether the field client is set
	client   Client
	version  byte
}

// Wrap returns a connection that applies faults to inner. inner is the broker's side of a connection to a client.
func (j *Injector) Wrap(inner net.Conn) net.Conn {
	c := &conn{Conn: inner, injector: j, closed: make(chan struct{})}
	c.in, c.out = newPipe(c, v1alpha1.ToBroker), newPipe(c, v1alpha1.FromBroker)
	c.out.deliver = inner.Write
	j.Lock()
	defer j.Unlock()
	j.conns[c] = struct{}{}
	return c
}

func (c *conn) pipes() []*pipe { return []*pipe{c.in, c.out} }

// identify sets the identity of the client from first, the first packet of the connection.
func (c *conn) identify(first []byte) {
	identity, version := clientOf(first)
	j := c.injector
	j.Lock()
	defer j.Unlock()
	c.identity, c.version = identity, version
	j.updateConn(c)
	for x := range j.inEffect() {
		j.cutConn(x, c)
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.in.isActive() {
		return c.in.read(p)
	}
	n, err := c.Conn.Read(p)
	if c.in.passThrough(p[:n]) {
		if c.in.isEnded() {
			return 0, io.EOF
		}
		return n, err
	}
	c.in.feed(p[:n], err)
	if err == nil {
		_ = c.Conn.SetReadDeadline(time.Time{}) // from now on, the pipe implements the deadline
		go c.readAhead()
	}
	return c.in.read(p)
}

// readAhead reads packets into the pipe as soon as they arrive, so that delays are measured from the arrival of a
// packet. It blocks until the connection ends.
func (c *conn) readAhead() {
	buffer := make([]byte, 4096)
	for {
		n, err := c.Conn.Read(buffer)
		c.in.feed(buffer[:n], err)
		if err != nil {
			return
		}
	}
}

// Write implements net.Conn. A packet counts as written once it is queued, as with a network buffer.
func (c *conn) Write(p []byte) (int, error) {
	untouched := c.out.passThrough(p)
	switch {
	case c.out.isEnded():
		return 0, net.ErrClosed
	case untouched:
		return c.Conn.Write(p)
	default:
		c.out.feed(p, nil)
		return len(p), nil
	}
}

// Close closes the connection and discards queued packets.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closes.Do(func() {
		close(c.closed)
		c.out.end()
		c.injector.Lock()
		delete(c.injector.conns, c)
		c.injector.Unlock()
	})
	return err
}

// disconnect closes the connection without an MQTT DISCONNECT packet, as after a network failure.
func (c *conn) disconnect() {
	c.in.end() // first, so that the broker reads EOF instead of an error about a closed connection
	c.out.end()
	_ = c.Conn.Close() // queued packets are discarded
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

// forwardsAck reports whether to forward the packet m. It returns false for the second acknowledgement of a
// duplicated message, because the receiver acknowledges the message twice, but the sender expects one
// acknowledgement.
func (c *conn) forwardsAck(p *pipe, m *packet) bool {
	if m.kind != packets.Puback {
		return true
	}
	other := c.in
	if p == c.in {
		other = c.out
	}
	return !other.takeDuplicateAck(m.id)
}
