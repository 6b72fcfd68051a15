package door

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// peers is a listener to which connections come from addresses of a test's choice.
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

// from is a connection of a peer. Nothing else of it is used.
type from struct {
	net.Conn
	addr   string
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.addr)) }
func (f *from) Close() error         { f.closed = true; return nil }

// hall is a door through which connections come one after the other.
type hall struct {
	t      *testing.T
	l      net.Listener
	coming chan net.Conn
}

func newHall(t *testing.T, most int) hall {
	t.Helper()
	coming := make(chan net.Conn, 1)
	return hall{t, Bound(peers{coming}, most), coming}
}

// come has a connection come from an address.
func (h hall) come(addr string) (c *from, own net.Conn) {
	h.t.Helper()
	c = &from{addr: addr}
	h.coming <- c
	own, err := h.l.Accept()
	if err != nil {
		h.t.Fatal(err)
	}
	return c, own
}

func open(list []*from) (n int) {
	for _, c := range list {
		if !c.closed {
			n++
		}
	}
	return n
}

// Who opens ten thousand connections loses connections of its own, the oldest first. Those of others
// stay, whenever they came.
func TestAGreedyPeer(t *testing.T) {
	const most = 100
	h := newHall(t, most)
	var good, greedy []*from
	for i := range 10_000 {
		if i%1000 == 0 {
			c, _ := h.come(fmt.Sprintf("192.0.2.%d:4711", i/1000))
			good = append(good, c)
		}
		c, _ := h.come("203.0.113.7:1")
		greedy = append(greedy, c)
		if n := open(good) + open(greedy[max(0, i-2*most):]); n > most {
			t.Fatalf("%d connections are open, want %d at most", n, most)
		}
	}
	if open(good) != 10 || open(greedy) != 90 || open(greedy[10_000-90:]) != 90 {
		t.Errorf("%d of 10 good ones and %d of the greedy one are open, of which %d are its last; want 10, 90, 90",
			open(good), open(greedy), open(greedy[10_000-90:]))
	}
}

// Where each has one connection, the oldest gives its place.
func TestManyPeers(t *testing.T) {
	h := newHall(t, 10)
	var all []*from
	for i := range 100 {
		c, _ := h.come(fmt.Sprintf("192.0.2.%d:4711", i))
		all = append(all, c)
	}
	if open(all) != 10 || open(all[90:]) != 10 {
		t.Errorf("%d are open, of which %d came last; want 10", open(all), open(all[90:]))
	}
}

// What is closed leaves its place, once; what is kept has none, and stays.
func TestPlaces(t *testing.T) {
	h := newHall(t, 2)
	_, first := h.come("192.0.2.1:1")
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept, own := h.come("192.0.2.1:2")
	Keep(tls.Server(own, &tls.Config{MinVersion: tls.VersionTLS12}))
	Keep(kept) // did not come through a door
	var later []*from
	for range 5 {
		c, _ := h.come("192.0.2.1:3")
		later = append(later, c)
	}
	if kept.closed || open(later) != 2 {
		t.Errorf("the one that is kept is closed: %t; %d others are open, want 2", kept.closed, open(later))
	}
	close(h.coming)
	if _, err := h.l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener's error is %v", err)
	}
	if d := h.l.(*door); d.all != 2 || len(d.open) != 1 {
		t.Errorf("%d are counted of %d peers, want 2 of 1", d.all, len(d.open))
	}
}

func TestWhatCountsAsOnePeer(t *testing.T) {
	got := map[string]string{}
	for _, addr := range []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", "[2001:db8:1:2:3::4]:5", "[fe80::1%eth0]:6"} {
		got[addr] = whence((&from{addr: addr}).RemoteAddr()).String()
	}
	got["unix"] = whence(&net.UnixAddr{Name: "/run/x"}).String()
	want := map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:2": "192.0.2.1/32", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:6": "fe80::/64",
		"unix": "invalid Prefix",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
}
