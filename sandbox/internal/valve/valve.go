// Package valve pauses and resumes connections without closing them.
package valve

import (
	"net"
	"sync"
	"sync/atomic"
)

// Valve holds back all data on its connections while it is shut. The connections stay open. To the peers, this looks
// as if this process were paused.
type Valve struct {
	held    func()
	shut    atomic.Bool // written with mu held; read without mu, for every packet
	mu      sync.Mutex
	changed sync.Cond
}

// New returns an open valve. held is called by each Read or Write that has to wait. It may be nil.
func New(held func()) *Valve {
	if held == nil {
		held = func() {}
	}
	v := &Valve{held: held}
	v.changed.L = &v.mu
	return v
}

// Set shuts the valve if shut is true, and opens it otherwise.
func (v *Valve) Set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut.Store(shut)
	v.changed.Broadcast()
}

// Wrap returns a connection that wraps c and whose data passes through the valve.
func (v *Valve) Wrap(conn net.Conn) net.Conn { return &valved{Conn: conn, valve: v} }

// valved is a connection whose data passes through a valve.
type valved struct {
	net.Conn
	valve  *Valve
	closed bool // guarded by valve.mu
}

// wait blocks until the valve is open or the connection is closed.
func (c *valved) wait() error {
	if !c.valve.shut.Load() {
		return nil
	}
	c.valve.held()
	c.valve.mu.Lock()
	defer c.valve.mu.Unlock()
	for c.valve.shut.Load() && !c.closed {
		c.valve.changed.Wait()
	}
	if c.closed {
		return net.ErrClosed
	}
	return nil
}

// Read holds back received data and read errors while the valve is shut.
func (c *valved) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if closed := c.wait(); closed != nil {
		return 0, closed
	}
	return n, err
}

// Write blocks while the valve is shut.
func (c *valved) Write(p []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close closes the connection immediately, even if the valve is shut.
func (c *valved) Close() error {
	c.valve.mu.Lock()
	c.closed = true
	c.valve.changed.Broadcast()
	c.valve.mu.Unlock()
	return c.Conn.Close()
}
