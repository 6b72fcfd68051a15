// Package door bounds the connections of a listener that others than friends reach. Nobody who opens
// many connections keeps anybody else out, or takes the files that the process may have open.
package door

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Bound returns a listener with at most so many connections open at once, and with no more than a third
// of the files that this process may have open. One more takes the place of another: the oldest of the
// address that has most. So who comes from elsewhere is always let in, whoever shares an address with a
// greedy one has the time in which that fills its share anew, and nothing that a connection sends makes
// it stay.
func Bound(l net.Listener, most int) net.Listener {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur/3 < uint64(most) { //nolint:gosec // it is positive
		most = int(files.Cur / 3) //nolint:gosec // it is smaller
	}
	return &door{Listener: l, most: max(most, 1), open: map[netip.Prefix]*list.List{}}
}

// Keep has a connection that came through Bound, or its TLS, stay until its ends close it: its peer has
// proved who it is. It does not count any more.
func Keep(c net.Conn) {
	if over, is := c.(*tls.Conn); is {
		c = over.NetConn()
	}
	if own, is := c.(*conn); is {
		own.leave()
	}
}

type door struct {
	net.Listener
	most int

	mu   sync.Mutex
	all  int                         // in open
	came uint64                      // so far
	open map[netip.Prefix]*list.List // of *conn by whence, the oldest first
}

// conn is a connection through a door.
type conn struct {
	net.Conn
	door   *door
	whence netip.Prefix
	number uint64
	place  *list.Element // nil once it does not count any more
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	own, gives := d.enter(c)
	if gives != nil {
		_ = gives.Conn.Close() // nobody waits for what is lost with it
	}
	return own, nil
}

// enter counts a connection, and returns the one that gives its place, if there is none left.
func (d *door) enter(c net.Conn) (own, gives *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all >= d.most {
		gives = d.next()
		d.remove(gives)
	}
	d.came++
	own = &conn{Conn: c, door: d, whence: whence(c.RemoteAddr()), number: d.came}
	if d.open[own.whence] == nil {
		d.open[own.whence] = list.New()
	}
	own.place = d.open[own.whence].PushBack(own)
	d.all++
	return own, gives
}

// next is the oldest connection of the address that has most; among such addresses, the oldest. The
// caller holds the lock.
func (d *door) next() (gives *conn) {
	most := 0
	for _, l := range d.open {
		if first := l.Front().Value.(*conn); l.Len() > most || l.Len() == most && first.number < gives.number {
			most, gives = l.Len(), first
		}
	}
	return gives
}

// remove ceases to count a connection. The caller holds the lock.
func (d *door) remove(c *conn) {
	if c.place == nil {
		return
	}
	l := d.open[c.whence]
	l.Remove(c.place)
	c.place = nil
	d.all--
	if l.Len() == 0 {
		delete(d.open, c.whence)
	}
}

func (c *conn) leave() {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	c.door.remove(c)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

func whence(a net.Addr) netip.Prefix {
	parsed, _ := netip.ParseAddrPort(a.String()) // an invalid one is no host
	return Host(parsed.Addr())
}

// Host returns what counts as one host: an IPv4 address, or the network from which one host may choose its IPv6
// addresses. It returns the zero Prefix for an invalid address.
func Host(ip netip.Addr) netip.Prefix {
	const ofOneHost = 64
	ip = ip.Unmap().WithZone("")
	p, _ := ip.Prefix(min(ip.BitLen(), ofOneHost)) // an invalid address has none
	return p
}
