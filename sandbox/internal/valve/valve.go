// Package valve stops what passes through connections and lets it go on, without closing them.
package valve

import (
	"net"
	"sync"
	"sync/atomic"
)

// Valve holds up everything that passes through its connections while it is shut; the connections
// stay. To their other ends it looks as if the process had been stopped.
type Valve struct {
	held    func()
	shut    atomic.Bool // changed under mu; every packet passes, so it is read without
	mu      sync.Mutex
	changed sync.Cond
}

// New returns a valve that is open. held is called each time something has to wait, by whoever waits
// then; nil = nobody is told.
func New(held func()) *Valve {
	if held == nil {
		held = func() {}
	}
	v := &Valve{held: held}
	v.changed.L = &v.mu
	return v
}

// Set shuts or opens the valve.
func (v *Valve) Set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut.Store(shut)
	v.changed.Broadcast()
}

// Through returns conn as it is behind the valve.
func (v *Valve) Through(conn net.Conn) net.Conn { return &valved{Conn: conn, valve: v} }

// valved is a connection behind a valve.
type valved struct {
	net.Conn
	valve  *Valve
	closed bool // guarded by valve.mu
}

// pass waits until the valve is open or the connection closed.
func (c *valved) pass() error {
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

// Read holds back what came, and news of the end too, while the valve is shut.
func (c *valved) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if closed := c.pass(); closed != nil {
		return 0, closed
	}
	return n, err
}

// Write waits while the valve is shut.
func (c *valved) Write(p []byte) (int, error) {
	if err := c.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close closes at once.
func (c *valved) Close() error {
	c.valve.mu.Lock()
	c.closed = true
	c.valve.changed.Broadcast()
	c.valve.mu.Unlock()
	return c.Conn.Close()
}
