package kubelet

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A client that opens many connections takes none from whom the API server says may use the kubelet API:
// logs that are followed go on, and are given to others.
func TestAFloodOfConnections(t *testing.T) {
	w := newWorld(t, nil)
	apiServer := w.authority.client("kube-apiserver")
	w.opts.Journal.Note("a", "biz1", Entry{At: noon, Event: "before"})
	transport := &http.Transport{TLSClientConfig: tlsConfig(t, apiServer), DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+logsPath+"?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	followed, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = followed.Body.Close() }()
	lines := bufio.NewReader(followed.Body)
	next := func(want string) {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasSuffix(line, " biz1: "+want+"\n") {
			t.Fatalf("read %q, error %v, want %q", line, err, want)
		}
	}
	next("before")
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
	status, text, err := w.get(t, apiServer, "GET", logsPath)
	if err != nil || status != 200 || !strings.Contains(text, "before") {
		t.Errorf("answered %d %q, error %v", status, text, err)
	}
	w.opts.Journal.Note("a", "biz1", Entry{At: noon, Event: "after"})
	next("after")
}
