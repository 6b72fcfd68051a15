// Package door limits the connections with untrusted peers, and the memory that these connections hold. When a
// limit is exceeded, a connection of the address that uses the most is closed.
package door

import (
	"container/list"
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Limits configures the limits of one listener.
type Limits struct {
	// Connections is the maximum number of open connections. Limit reduces it to a third of the maximum number
	// of open files of this process.
	Connections int
	// Bytes is the maximum number of bytes that all connections hold together; see Hold. 0 means no
	// limit.
	Bytes int
	// Evicted is called when a connection is closed because a limit is exceeded. Its arguments are the address
	// of that connection, and the number of connections and bytes of this address before. It must not block. It
	// may be nil.
	Evicted func(address netip.Prefix, connections, bytes int)
}

// Limit returns a listener with limits. A new connection above the limit replaces the oldest connection of the
// address that has the most connections. So a new address always gets a connection. A client that shares its
// address with a client that opens many connections keeps a connection until its connection is the oldest.
func Limit(l net.Listener, limits Limits) net.Listener {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur/3 < uint64(limits.Connections) { //nolint:gosec // Connections is not negative
		limits.Connections = int(files.Cur / 3) //nolint:gosec // less than limits.Connections
	}
	limits.Connections = max(limits.Connections, 1)
	return &limitListener{Listener: l, limits: limits, open: map[netip.Prefix]*client{}}
}

// DialFunc opens a connection, as the field DialContext of http.Transport does.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// LimitReads returns a function that dials and wraps the connections of dial, to limit the memory for data from
// peers. Each byte that was read from a connection counts until the connection is closed. If all connections
// together exceed limit bytes, LimitReads closes connections like Hold, and calls evicted like Limits.Evicted.
func LimitReads(dial DialFunc, limit int, evicted func(address netip.Prefix, connections, bytes int)) DialFunc {
	l := &limitListener{limits: Limits{Connections: math.MaxInt, Bytes: limit, Evicted: evicted}, open: map[netip.Prefix]*client{}}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return heldReads{l.add(c)}, nil
	}
}

// heldReads is a connection that counts the bytes read from it as held.
type heldReads struct{ *conn }

func (c heldReads) Read(b []byte) (int, error) {
	n, err := c.conn.Read(b)
	Hold(c.conn, n)
	return n, err
}

// Keep removes a connection from the limits, so that it is not closed for another one. Use Keep for
// authenticated peers. It accepts connections of a listener from Limit, and TLS connections over them.
func Keep(c net.Conn) {
	if own := limited(c); own != nil {
		own.leave()
	}
}

// Hold adds n to the number of bytes that a connection holds; a negative n releases bytes. While all
// connections together hold more than the limit, Hold takes the address that holds the most bytes, and closes
// its connection that holds the most. Hold accepts connections of a listener from Limit, and TLS connections
// over them; it ignores other connections.
func Hold(c net.Conn, n int) {
	own := limited(c)
	if own == nil {
		return
	}
	l := own.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.place == nil {
		return
	}
	own.held += n
	l.open[own.address].held += n
	l.held += n
	for l.limits.Bytes > 0 && l.held > l.limits.Bytes {
		l.evict(l.largest())
	}
}

func limited(c net.Conn) *conn {
	if over, is := c.(*tls.Conn); is {
		c = over.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

type limitListener struct {
	net.Listener
	limits Limits

	mu       sync.Mutex
	all      int    // connections in open
	held     int    // bytes of all connections in open
	accepted uint64 // number of connections accepted so far
	open     map[netip.Prefix]*client
}

// client is an address with open connections.
type client struct {
	connections *list.List // of *conn, the oldest first
	held        int        // bytes
}

// conn is a connection that is limited.
type conn struct {
	net.Conn
	listener *limitListener
	address  netip.Prefix
	number   uint64
	held     int           // bytes
	place    *list.Element // nil once the connection is not limited any more
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.add(c), nil
}

// add adds a connection to the limits.
func (l *limitListener) add(c net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.limits.Connections {
		l.evict(l.oldest())
	}
	l.accepted++
	own := &conn{Conn: c, listener: l, address: remotePrefix(c.RemoteAddr()), number: l.accepted}
	if l.open[own.address] == nil {
		l.open[own.address] = &client{connections: list.New()}
	}
	own.place = l.open[own.address].connections.PushBack(own)
	l.all++
	return own
}

// oldest returns the oldest connection of the address that has the most connections. If several addresses have
// the most, it returns the oldest connection of all of them. The caller holds the lock.
func (l *limitListener) oldest() (found *conn) {
	most := 0
	for _, c := range l.open {
		first, n := c.connections.Front().Value.(*conn), c.connections.Len()
		if n > most || n == most && first.number < found.number {
			most, found = n, first
		}
	}
	return found
}

// largest returns the connection that holds the most bytes, of the address that holds the most bytes. The
// caller holds the lock.
func (l *limitListener) largest() (found *conn) {
	var greedy *client
	for _, c := range l.open {
		if greedy == nil || c.held > greedy.held {
			greedy = c
		}
	}
	for e := greedy.connections.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); found == nil || c.held > found.held {
			found = c
		}
	}
	return found
}

// evict closes a connection. The caller holds the lock.
func (l *limitListener) evict(c *conn) {
	of := l.open[c.address]
	connections, bytes := of.connections.Len(), of.held
	l.remove(c)
	_ = c.Conn.Close() // unsent data is discarded
	if l.limits.Evicted != nil {
		l.limits.Evicted(c.address, connections, bytes)
	}
}

// remove removes a connection from the limits. The caller holds the lock.
func (l *limitListener) remove(c *conn) {
	if c.place == nil {
		return
	}
	of := l.open[c.address]
	of.connections.Remove(c.place)
	of.held -= c.held
	l.held -= c.held
	c.place = nil
	l.all--
	if of.connections.Len() == 0 {
		delete(l.open, c.address)
	}
}

func (c *conn) leave() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.remove(c)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// remotePrefix returns Host of the address of a peer. It returns the zero Prefix if the peer has no IP address.
func remotePrefix(a net.Addr) netip.Prefix {
	parsed, _ := netip.ParseAddrPort(a.String()) // an invalid address gives the zero Prefix
	return Host(parsed.Addr())
}

// Host returns the addresses that count as one host: an IPv4 address, or the /64 network of an IPv6 address,
// because one host can use each address of this network. It returns the zero Prefix for an invalid address.
func Host(ip netip.Addr) netip.Prefix {
	const ofOneHost = 64
	ip = ip.Unmap().WithZone("")
	p, _ := ip.Prefix(min(ip.BitLen(), ofOneHost)) // an invalid address gives the zero Prefix
	return p
}
