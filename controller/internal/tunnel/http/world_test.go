package httptunnel

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// event is one call of a Handler method.
type event struct {
	From      tunnel.Origin
	Heartbeat arklet.Heartbeat
	Metadata  arklet.Metadata
	Health    arklet.Health
	List      []arklet.Biz
	Answer    arklet.Answer
	Request   arklet.Request
	Kind      string
	Reason    tunnel.Rejection
	Err       error
}

// fakeHandler is a Handler that records its calls.
type fakeHandler struct {
	baseline []arklet.Module
	told     chan event
}

func newHandler() *fakeHandler { return &fakeHandler{told: make(chan event, 1000)} }

func (f *fakeHandler) Heartbeat(from tunnel.Origin, h arklet.Heartbeat) {
	f.told <- event{From: from, Heartbeat: h}
}
func (f *fakeHandler) BaselineQuery(from tunnel.Origin, m arklet.Metadata) []arklet.Module {
	f.told <- event{From: from, Metadata: m}
	return f.baseline
}
func (f *fakeHandler) Health(from tunnel.Origin, h arklet.Health) {
	f.told <- event{From: from, Health: h}
}
func (f *fakeHandler) BizList(from tunnel.Origin, list []arklet.Biz) {
	f.told <- event{From: from, List: list}
}
func (f *fakeHandler) Answer(from tunnel.Origin, a arklet.Answer) {
	f.told <- event{From: from, Answer: a}
}
func (f *fakeHandler) BatchAnswer(from tunnel.Origin, _ arklet.BatchResult) {
	f.told <- event{From: from, Kind: "a batch answer, which nothing over HTTP is"}
}
func (f *fakeHandler) Unanswered(from tunnel.Origin, r arklet.Request, err error) {
	f.told <- event{From: from, Request: r, Err: err}
}
func (f *fakeHandler) Rejected(from tunnel.Origin, kind string, reason tunnel.Rejection, err error) {
	f.told <- event{From: from, Kind: kind, Reason: reason, Err: err}
}

// takeEvents returns the calls since the previous call of takeEvents. It does not block.
func (f *fakeHandler) takeEvents() []event {
	var events []event
	for {
		select {
		case e := <-f.told:
			events = append(events, e)
		default:
			return events
		}
	}
}

// fakeArklet answers requests over in-memory connections like arklet (protocol 4.2). It writes the bytes that answer
// returns to the connection without changes, and closes the connection.
type fakeArklet struct {
	// answer returns the bytes of the response. It may block.
	answer func(addr string, r *http.Request, body string) string

	mu       sync.Mutex
	conns    sync.WaitGroup
	requests []string
}

// dial implements Options.Dial.
func (f *fakeArklet) dial(_ context.Context, _, addr string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	f.conns.Go(func() {
		defer func() { _ = theirs.Close() }()
		r, err := http.ReadRequest(bufio.NewReader(theirs))
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.requests = append(f.requests, fmt.Sprintf("%s %s %s %s", r.Method, addr, r.URL.Path, body))
		f.mu.Unlock()
		_, _ = io.WriteString(theirs, f.answer(addr, r, string(body)))
	})
	return ours, nil
}

// response returns a response in the format of arklet, without a content length and type.
func response(body string) string { return "HTTP/1.1 200 OK\r\n\r\n" + body }

// newClient returns a tunnel whose requests reach a fake arklet. The test must call end before it ends.
func newClient(t *testing.T, opts Options, answer func(addr string, r *http.Request, body string) string) (tn *Tunnel,
	h *fakeHandler, f *fakeArklet) {
	t.Helper()
	h, f = newHandler(), &fakeArklet{answer: answer}
	if opts.Dial == nil {
		opts.Dial = f.dial
	}
	tn = New(opts, h)
	t.Cleanup(func() {
		tn.stop()
		f.conns.Wait()
	})
	return tn, h, f
}
