package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// httpLink is a base's arklet server and its heartbeats over HTTP (protocol 4).
type httpLink struct {
	b      *base
	server *http.Server
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// connectHTTP listens at the base's address and tells every controller of it.
func connectHTTP(b *base) *httpLink {
	l := &httpLink{b: b}
	l.ctx, l.cancel = context.WithCancel(b.w.ctx)
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", b.ip, b.port))
	if err != nil {
		b.w.fail("a base can't listen: %v", err)
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok {
		b.port = address.Port // a restarted base keeps it
	}
	l.server = &http.Server{Handler: l, ReadHeaderTimeout: time.Minute}
	l.work.Go(func() { _ = l.server.Serve(listener) }) // ends with stop
	l.work.Go(l.heartbeats)
	return l
}

func (l *httpLink) heartbeats() {
	tick := time.NewTicker(l.b.w.heartbeat)
	defer tick.Stop()
	for {
		l.send("heartbeat", l.b.heart())
		if l.b.mute {
			return
		}
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// send posts a message to every controller. Failures are of no concern to a base: it goes on.
func (l *httpLink) send(kind string, data any) {
	for _, endpoint := range l.b.w.heartbeats {
		if _, err := l.post(endpoint+"/"+kind, encode(l.b.message(kind, data))); err != nil {
			continue
		}
	}
}

// post returns the body of the response.
func (l *httpLink) post(url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, text)
	}
	return text, err
}

// ServeHTTP carries out a command: the path is its name (protocol 4.2).
func (l *httpLink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	c := command{name: strings.TrimPrefix(r.URL.Path, "/"), method: r.Method, body: body}
	l.b.w.track(func() {
		var o object
		switch answer := l.b.receive(c); {
		case answer.none, l.b.mumble && !c.changes():
			select { // arklet leaves the connection open
			case <-r.Context().Done():
			case <-l.ctx.Done():
			}
			return
		case c.name == health:
			o = object{"code": "SUCCESS", "data": l.b.health()}
		case c.name == queryAllBiz:
			o = object{"code": "SUCCESS", "data": l.b.list()}
		default:
			o = answer.output()
			if code, ok := answer.data["code"].(string); ok && code == "FAILED" { // an exception
				o = object{"code": "CMD_PROCESS_INTERNAL_ERROR", "message": "Internal Error: " + answer.message, "errorStackTrace": answer.data["message"]}
			}
		}
		if o["code"] == "SUCCESS" || o["code"] == "FAILED" {
			o["baseIdentity"] = l.b.identity
		}
		l.b.message(c.name, o)
		write(w, encode(o))
	})
}

// write answers as arklet does: no length, no type, and the connection ends.
func write(w http.ResponseWriter, body []byte) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n\r\n%s", body) // the controller may have gone
	_ = conn.Close()
}

// stop ends it at once, as a crash does.
func (l *httpLink) stop() {
	l.cancel()
	_ = l.server.Close() // nobody is left to hear of it
	l.work.Wait()
}
