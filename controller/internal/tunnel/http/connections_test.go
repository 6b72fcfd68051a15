package httptunnel

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// A client that opens many connections and sends nothing loses its own. A base gets through, even one
// that shares the client's address.
func TestAFloodOfConnections(t *testing.T) {
	const most, flood = 100, 1000
	h := newHandler()
	tn := serve(t, Options{Connections: most, Networks: tunnel.Networks{netip.MustParsePrefix("127.0.0.0/8")}}, h)
	start := time.Now()
	closed := make(chan struct{}, flood)
	for range flood {
		c, err := net.Dial("tcp", tn.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() {
			_, _ = io.Copy(io.Discard, c) // until the tunnel, or the test, closes it
			closed <- struct{}{}
		}()
	}
	status, text, err := post(client, "http://"+tn.Addr()+"/heartbeat", `{"baseMetadata":{"identity":"a"},"localIP":"127.0.0.1","state":"activated"}`)
	if err != nil || status != 200 {
		t.Errorf("a base was answered %d %q, error %v", status, text, err)
	}
	for range flood - most + 1 { // the base has taken a place, too
		<-closed
	}
	if took := time.Since(start); took > headerTimeout {
		t.Errorf("the connections were closed after %s, since their time was over, not since there were too many", took)
	}
	if told := h.all(); len(told) != 1 || told[0].From.Identity != "a" || told[0].Heartbeat.IP != "127.0.0.1" {
		t.Errorf("the tunnel tells %+v, want the heartbeat of base a", told)
	}
}
