package controller

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Who opens many connections to health or metrics loses its own; whoever asks is answered.
func TestAFloodOfConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveUntil(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	closed := make(chan struct{}, 3*connections)
	for range 3 * connections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() {
			_, _ = io.Copy(io.Discard, c) // until the server, or the test, closes it
			closed <- struct{}{}
		}()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "ok" {
		t.Errorf("answered %q, error %v", text, err)
	}
	for range 2*connections + 1 {
		<-closed
	}
	if took := time.Since(start); took > headerTimeout {
		t.Errorf("the connections were closed after %s, since their time was over, not since there were too many", took)
	}
}
