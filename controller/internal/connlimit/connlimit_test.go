package connlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// peers is a listener that accepts fake connections from a list of addresses.
type peers struct{ coming chan net.Conn }

func (p peers) Accept() (net.Conn, error) {
	c, more := <-p.coming
	if !more {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (peers) Close() error   { return nil }
func (peers) Addr() net.Addr { return &net.TCPAddr{} }

// addressedConn is a fake connection whose remote address is the value of addr.
type addressedConn struct {
	net.Conn
	addr   string
	closed bool
}

func (f *addressedConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.addr))
}
func (f *addressedConn) Close() error { f.closed = true; return nil }

func (*addressedConn) Read(b []byte) (int, error) { return len(b), nil }

// acceptor is a limited listener that accepts connections one by one.
type acceptor struct {
	t      *testing.T
	l      net.Listener
	coming chan net.Conn
}

func newAcceptor(t *testing.T, most int) acceptor {
	t.Helper()
	return newAcceptorWith(t, Limits{Connections: most})
}

func newAcceptorWith(t *testing.T, limits Limits) acceptor {
	t.Helper()
	coming := make(chan net.Conn, 1)
	return acceptor{t, NewListener(peers{coming}, limits), coming}
}

// connect accepts a fake connection from an address.
func (h acceptor) connect(addr string) (c *addressedConn, own net.Conn) {
	h.t.Helper()
	c = &addressedConn{addr: addr}
	h.coming <- c
	own, err := h.l.Accept()
	if err != nil {
		h.t.Fatal(err)
	}
	return c, own
}

func countOpen(list []*addressedConn) (n int) {
	for _, c := range list {
		if !c.closed {
			n++
		}
	}
	return n
}

// TestListenerClosesConnectionsOfBusiestAddress checks that if an address opens too many connections, the listener
// closes the oldest connections of this address. It must not close connections of other addresses, regardless of
// their age.
func TestListenerClosesConnectionsOfBusiestAddress(t *testing.T) {
	const most = 100
	h := newAcceptor(t, most)
	var good, greedy []*addressedConn
	for i := range 10_000 {
		if i%1000 == 0 {
			c, _ := h.connect(fmt.Sprintf("192.0.2.%d:4711", i/1000))
			good = append(good, c)
		}
		c, _ := h.connect("203.0.113.7:1")
		greedy = append(greedy, c)
		if n := countOpen(good) + countOpen(greedy[max(0, i-2*most):]); n > most {
			t.Fatalf("%d connections are open, want at most %d", n, most)
		}
	}
	if countOpen(good) != 10 || countOpen(greedy) != 90 || countOpen(greedy[10_000-90:]) != 90 {
		t.Errorf("%d of 10 connections of other addresses and %d of the busiest address are open, %d of them the "+
			"newest; want 10, 90, 90",
			countOpen(good), countOpen(greedy), countOpen(greedy[10_000-90:]))
	}
}

// TestListenerClosesOldestConnection checks that the listener closes the oldest connection if each address has one
// connection.
func TestListenerClosesOldestConnection(t *testing.T) {
	h := newAcceptor(t, 10)
	var all []*addressedConn
	for i := range 100 {
		c, _ := h.connect(fmt.Sprintf("192.0.2.%d:4711", i))
		all = append(all, c)
	}
	if countOpen(all) != 10 || countOpen(all[90:]) != 10 {
		t.Errorf("%d connections are open, %d of them the newest; want 10", countOpen(all), countOpen(all[90:]))
	}
}

// TestConnectionsAreLimitedByOpenFiles checks that the limit is between 1 and a third of the maximum number of open
// files.
func TestConnectionsAreLimitedByOpenFiles(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	third := int(files.Cur / 3)
	for limit, want := range map[int]int{0: 1, 1: 1, third: third, third + 1: third, math.MaxInt: third} {
		h := newAcceptor(t, limit)
		if got := h.l.(*limitListener).limits.Connections; got != want {
			t.Errorf("limit %d: at most %d connections, want %d", limit, got, want)
		}
	}
}

// TestClosedAndExemptConnectionsDoNotCount checks that closed and exempt connections do not count toward the limit,
// and that exempt connections stay open.
func TestClosedAndExemptConnectionsDoNotCount(t *testing.T) {
	h := newAcceptor(t, 2)
	_, first := h.connect("192.0.2.1:1")
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept, own := h.connect("192.0.2.1:2")
	Exempt(tls.Server(own, &tls.Config{MinVersion: tls.VersionTLS12}))
	Exempt(kept) // not a limited connection
	var later []*addressedConn
	for range 5 {
		c, _ := h.connect("192.0.2.1:3")
		later = append(later, c)
	}
	if kept.closed || countOpen(later) != 2 {
		t.Errorf("the exempt connection is closed: %t; %d others are open, want 2", kept.closed, countOpen(later))
	}
	close(h.coming)
	if _, err := h.l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error of the listener: %v", err)
	}
	if d := h.l.(*limitListener); len(d.conns) != 2 {
		t.Errorf("%d connections are counted, want 2", len(d.conns))
	}
}

// TestHeldBytesAreLimited checks that when all connections together hold too many bytes, the listener closes the
// largest connection of the address that holds the most bytes, and no connections of other addresses.
func TestHeldBytesAreLimited(t *testing.T) {
	var evicted []string
	h := newAcceptorWith(t, Limits{Connections: 100, Bytes: 1000,
		OnEvict: func(address netip.Prefix, connections, bytes int) {
			evicted = append(evicted, fmt.Sprintf("%s %d %d", address, connections, bytes))
		}})
	honest, honestConn := h.connect("192.0.2.1:1")
	small, smallConn := h.connect("203.0.113.7:1")
	large, largeConn := h.connect("203.0.113.7:2")
	AddBytes(smallConn, 300)
	AddBytes(tls.Server(largeConn, &tls.Config{MinVersion: tls.VersionTLS12}), 600)
	AddBytes(honestConn, 100)
	if large.closed || small.closed || honest.closed {
		t.Fatal("a connection was closed at the limit")
	}
	AddBytes(honestConn, 200)
	if !large.closed || small.closed || honest.closed {
		t.Errorf("closed: the largest %t, another one of its address %t, one of another address %t; want "+
			"only the largest", large.closed, small.closed, honest.closed)
	}
	AddBytes(largeConn, -600) // the bytes of a closed connection do not count
	AddBytes(smallConn, 400)
	if small.closed || honest.closed {
		t.Error("a connection was closed at the limit, after another one was closed")
	}
	AddBytes(honestConn, -300)
	if err := smallConn.Close(); err != nil {
		t.Fatal(err)
	}
	if l := h.l.(*limitListener); l.held != 0 || len(l.conns) != 1 {
		t.Errorf("%d bytes of %d connections are counted, want 0 of 1", l.held, len(l.conns))
	}
	_, one := h.connect("203.0.113.7:3")
	AddBytes(one, 1001) // above the limit
	if diff := cmp.Diff([]string{"203.0.113.7/32 2 900", "203.0.113.7/32 1 1001"}, evicted); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
	for i := range 200 {
		h.connect(fmt.Sprintf("192.0.2.9:%d", i+1))
	}
	if len(evicted) != 2+101 || evicted[2] != "192.0.2.9/32 99 0" {
		t.Errorf("%d connections were evicted, first %v; want 103, the third 192.0.2.9/32 99 0", len(evicted),
			evicted[:3])
	}
	AddBytes(&addressedConn{}, 1) // not a limited connection
}

// TestReadsAreLimited checks that if a peer sends too many bytes, its connection is closed, but not the connections
// of other peers. The bytes of a connection count until the connection is closed.
func TestReadsAreLimited(t *testing.T) {
	var evicted []string
	dialed := map[string]*addressedConn{}
	dial := LimitReads(func(_ context.Context, _, addr string) (net.Conn, error) {
		dialed[addr] = &addressedConn{addr: addr}
		return dialed[addr], nil
	}, 1000, func(a netip.Prefix, connections, bytes int) {
		evicted = append(evicted, fmt.Sprintf("%s %d %d", a, connections, bytes))
	})
	open := func(addr string, bytes int) net.Conn {
		c, err := dial(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, bytes)); n != bytes || err != nil {
			t.Fatalf("read %d bytes, error %v", n, err)
		}
		return c
	}
	for range 3 { // 500 bytes at a time
		if err := open("192.0.2.1:1", 500).Close(); err != nil {
			t.Fatal(err)
		}
	}
	open("192.0.2.2:1", 400)
	open("203.0.113.7:1", 450)
	open("203.0.113.7:2", 140)
	open("192.0.2.3:1", 100)
	if diff := cmp.Diff([]string{"203.0.113.7/32 2 590"}, evicted); diff != "" || !dialed["203.0.113.7:1"].closed ||
		dialed["192.0.2.2:1"].closed {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

func TestHostPrefix(t *testing.T) {
	got := map[string]string{}
	for _, addr := range []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", "[2001:db8:1:2:3::4]:5", "[fe80::1%eth0]:6"} {
		got[addr] = remotePrefix((&addressedConn{addr: addr}).RemoteAddr()).String()
	}
	got["unix"] = remotePrefix(&net.UnixAddr{Name: "/run/x"}).String()
	want := map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:2": "192.0.2.1/32",
		"[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:6": "fe80::/64",
		"unix": "invalid Prefix",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prefixes (-want +got):\n%s", diff)
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		_, _ = io.WriteString(w, "done")
	}), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, server, l, time.Minute) }()
	response, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "done" {
		t.Errorf("a request in progress when ctx is done: %q, %v", body, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}

	if err := Serve(t.Context(), &http.Server{ReadHeaderTimeout: time.Minute}, l, 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("served on a closed listener: %v", err)
	}
}

// TestServeClosesRemainingConnections checks that Serve closes the connection of a request that has not ended within
// the wait time.
func TestServeClosesRemainingConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(ended)
	}), ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = server.Close() })
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, server, l, 0) }()

	requestCtx, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
	defer giveUp()
	request, err := http.NewRequestWithContext(requestCtx, http.MethodGet, "http://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		_ = response.Body.Close()
		t.Errorf("status = %d, want a closed connection", response.StatusCode)
	} else if requestCtx.Err() != nil {
		t.Errorf("the connection is still open: %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-ended
}
