package kubelet

import (
	"net"
	"strings"
	"testing"
	"time"
)

// A client that opens many connections takes none from whom the API server says may use the kubelet API:
// logs that are followed go on, and are given to others.
func TestAFloodOfConnections(t *testing.T) {
	w := newWorld(t, nil)
	apiServer := w.authority.client("kube-apiserver")
	w.opts.Journal.Note("a", "biz1", Entry{At: noon, Event: "before"})
	_, next := w.follow(t, "follow=true")
	next("before")
	start := time.Now()
	var first net.Conn
	for range 2 * connections {
		c, err := net.Dial("tcp", w.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if first == nil {
			first = c
		}
	}
	if _, err := first.Read(make([]byte, 1)); err == nil { // it blocks until that is closed
		t.Error("the kubelet API speaks first")
	}
	if took := time.Since(start); took > headerTimeout {
		t.Errorf("a connection was closed after %s, since its time was over, not since there were too many", took)
	}
	status, text, err := w.get(t, apiServer, "GET", logsPath)
	if err != nil || status != 200 || !strings.Contains(text, "before") {
		t.Errorf("answered %d %q, error %v", status, text, err)
	}
	w.opts.Journal.Note("a", "biz1", Entry{At: noon, Event: "after"})
	next("after")
}
