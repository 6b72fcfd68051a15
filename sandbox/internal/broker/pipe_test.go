package broker

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// The connection in memory does all that a net.Conn must.
func TestPipeIsAConn(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := pipe("test")
		return a, b, func() { _, _ = a.Close(), b.Close() }, nil
	})
}

// A message passes without anybody reading, as through a socket.
func TestPipeBuffers(t *testing.T) {
	a, b := pipe("test")
	for range 3 {
		if _, err := a.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	n, err := b.Read(got)
	if string(got[:n]) != "abcabcabc" || err != nil {
		t.Errorf("read %q, %v", got[:n], err)
	}
}

func BenchmarkPipe(b *testing.B) {
	x, y := pipe("bench")
	message := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = x.Write(message)
		_, _ = y.Read(message)
	}
}
