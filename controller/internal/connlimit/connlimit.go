// Package connlimit limits the connections of untrusted clients, and the memory that these connections use. When a
// limit is exceeded, it closes a connection of the address that uses the most.
package connlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Limits are the connection limits of a listener.
type Limits struct {
	// Connections is the maximum number of open connections, capped at a third of the maximum number of open files.
	Connections int
	// Bytes is the maximum number of bytes that all connections together hold; see AddBytes. 0 disables the limit.
	Bytes int
	// OnEvict is called for each connection that is closed because a limit is exceeded. Its arguments are the address
	// of the connection, and the number of connections and bytes of this address before the connection was closed.
	// OnEvict must not block. It may be nil.
	OnEvict func(address netip.Prefix, connections, bytes int)
}

// NewListener returns a listener with limits. When a new connection exceeds the limit, the listener closes the oldest
// connection of the address that has the most connections.
func NewListener(l net.Listener, limits Limits) net.Listener {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil &&
		files.Cur/3 < uint64(limits.Connections) { //nolint:gosec // Connections is not negative
		limits.Connections = int(files.Cur / 3) //nolint:gosec // less than limits.Connections
	}
	limits.Connections = max(limits.Connections, 1)
	return &limitListener{Listener: l, limits: limits}
}

// Serve serves HTTP on a listener until ctx is done. Then it closes idle connections, waits for in-flight requests
// for at most the duration wait, and closes the remaining connections.
func Serve(ctx context.Context, server *http.Server, l net.Listener, wait time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}

// DialFunc has the type of http.Transport.DialContext.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// LimitReads returns a dial function whose open connections share a limit on the bytes that are read from them. When
// the limit is exceeded, it closes connections in the same way as AddBytes.
func LimitReads(dial DialFunc, limit int, evicted func(address netip.Prefix, connections, bytes int)) DialFunc {
	l := &limitListener{limits: Limits{Connections: math.MaxInt, Bytes: limit, OnEvict: evicted}}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return heldReads{l.add(c)}, nil
	}
}

type heldReads struct{ *conn }

func (c heldReads) Read(b []byte) (int, error) {
	n, err := c.conn.Read(b)
	AddBytes(c.conn, n)
	return n, err
}

// Exempt removes a connection from the limits, for example the connection of an authenticated client. c must be a
// connection of a NewListener listener, or a TLS connection on top of one.
func Exempt(c net.Conn) {
	if own := limited(c); own != nil {
		own.leaveListener()
	}
}

// AddBytes adds n, which may be negative, to the number of bytes that a connection holds. While all connections
// together exceed the limit, AddBytes closes the largest connection of the address that holds the most bytes. It
// ignores connections that are neither from a NewListener listener nor TLS connections on top of one.
func AddBytes(c net.Conn, n int) {
	own := limited(c)
	if own == nil {
		return
	}
	l := own.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.conns, own) {
		return
	}
	own.held += n
	l.held += n
	for l.limits.Bytes > 0 && l.held > l.limits.Bytes {
		l.evict(func(of usage, c *conn) [2]int { return [2]int{of.bytes, c.held} })
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

	mu    sync.Mutex
	conns []*conn // limited connections, the oldest first
	held  int     // bytes that all limited connections hold
}

type conn struct {
	net.Conn
	listener *limitListener
	address  netip.Prefix
	held     int // bytes that this connection holds
}

type usage struct{ connections, bytes int }

func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.add(c), nil
}

func (l *limitListener) add(c net.Conn) *conn {
	own := &conn{Conn: c, listener: l, address: remotePrefix(c.RemoteAddr())}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.limits.Connections {
		l.evict(func(of usage, _ *conn) [2]int { return [2]int{of.connections} })
	}
	l.conns = append(l.conns, own)
	return own
}

// evict closes the connection for which the function rank returns the highest value. If several connections have this
// value, it closes the oldest of them. The caller holds the lock.
func (l *limitListener) evict(rank func(of usage, c *conn) [2]int) {
	uses := map[netip.Prefix]usage{}
	for _, c := range l.conns {
		of := uses[c.address]
		uses[c.address] = usage{of.connections + 1, of.bytes + c.held}
	}
	worst, highest := l.conns[0], [2]int{-1}
	for _, c := range l.conns {
		if r := rank(uses[c.address], c); slices.Compare(r[:], highest[:]) > 0 {
			worst, highest = c, r
		}
	}
	l.remove(worst)
	_ = worst.Conn.Close() // unsent data is discarded
	if of := uses[worst.address]; l.limits.OnEvict != nil {
		l.limits.OnEvict(worst.address, of.connections, of.bytes)
	}
}

func (l *limitListener) remove(c *conn) {
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
		l.held -= c.held
	}
}

func (c *conn) leaveListener() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.remove(c)
}

func (c *conn) Close() error {
	c.leaveListener()
	return c.Conn.Close()
}

// remotePrefix returns the HostPrefix of a remote address.
func remotePrefix(a net.Addr) netip.Prefix {
	parsed, _ := netip.ParseAddrPort(a.String()) // an invalid address gives the zero Prefix
	return HostPrefix(parsed.Addr())
}

// HostPrefix returns the prefix that contains all addresses of one host. The prefix is a single IPv4 address, or the
// /64 network of an IPv6 address. For an invalid address, it is the zero Prefix.
func HostPrefix(ip netip.Addr) netip.Prefix {
	const ofOneHost = 64
	ip = ip.Unmap().WithZone("")
	p, _ := ip.Prefix(min(ip.BitLen(), ofOneHost)) // an invalid address gives the zero Prefix
	return p
}
