package httptunnel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// evictions counts the connections that were closed because of a limit, by address.
type evictions struct {
	*fakeHandler
	count atomic.Int64
	other atomic.Value // any other rejection
}

func (e *evictions) Heartbeat(tunnel.Origin, arklet.Heartbeat) {}

func (e *evictions) BaselineQuery(tunnel.Origin, arklet.Metadata) []arklet.Module { return nil }

func (e *evictions) Rejected(from tunnel.Origin, kind string, reason tunnel.Rejection, err error) {
	if kind == "connection" && reason == tunnel.TooMany && from.IP == greedyAddress &&
		strings.Contains(err.Error(), greedyAddress+"/32") {
		e.count.Add(1)
		return
	}
	e.other.Store(fmt.Sprintf("%s of %s rejected: %s, %v", kind, from.IP, reason, err))
}

// greedyAddress is a local address that is not used by the bases in these tests.
const greedyAddress = "127.0.0.2"

// TestRequestBodiesAreLimitedTogether runs a client that sends many large, incomplete request bodies. When all bodies
// together reach their limit, the connections of this client must be closed. Bases with other addresses must get an
// answer.
func TestRequestBodiesAreLimitedTogether(t *testing.T) {
	const requestCount, sentBytes = 600, maxBody - 1
	h := &evictions{fakeHandler: newHandler()}
	tn := serve(t, Options{Networks: tunnel.Networks{netip.MustParsePrefix("127.0.0.0/8")}}, h)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(greedyAddress)}}
	body := []byte(strings.Repeat(" ", sentBytes))
	for i := range requestCount {
		c, err := dialer.Dial("tcp", tn.Addr())
		if err != nil {
			t.Skipf("this machine has no second address on loopback: %v", err)
		}
		defer func() { _ = c.Close() }()
		path := []string{kindHeartbeat, kindQueryBaseline}[i%2]
		go func() { // writes to closed connections fail
			_, _ = fmt.Fprintf(c, "POST /%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", path, maxBody)
			_, _ = c.Write(body)
		}()
	}
	for deadline := time.Now().Add(time.Minute); h.count.Load() < requestCount-allBodies/maxBody; {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections were closed, want at least %d", h.count.Load(), requestCount-allBodies/maxBody)
		}
		for path, body := range map[string]string{
			kindHeartbeat:     `{"baseMetadata":{"identity":"a"},"localIP":"127.0.0.1","state":"activated"}`,
			kindQueryBaseline: `{"identity":"a"}`,
		} {
			if status, text, err := post(client, "http://"+tn.Addr()+"/"+path, body); err != nil || status != 200 {
				t.Fatalf("%s of a base: status %d, body %q, error %v", path, status, text, err)
			}
		}
	}
	if other := h.other.Load(); other != nil {
		t.Errorf("%v", other)
	}
}

// TestDecodedBodyIsNotHeld checks that the body of a request no longer counts toward the limit after it is decoded,
// so that many requests can wait.
func TestDecodedBodyIsNotHeld(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := `{"identity":"a"}` + strings.Repeat(" ", maxBody/2)
	evicted := 0
	l = connlimit.NewListener(l, connlimit.Limits{Connections: 100, Bytes: maxBody,
		OnEvict: func(netip.Prefix, int, int) { evicted++ }})
	defer func() { _ = l.Close() }()
	tn := New(Options{}, newHandler())
	for range 10 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = accepted.Close() }()
		r := httptest.NewRequest("POST", "/queryBaseline", strings.NewReader(body))
		r = r.WithContext(context.WithValue(r.Context(), connKey{}, accepted))
		m, ok, err := receive(tn, httptest.NewRecorder(), r, kindQueryBaseline, arklet.DecodeMetadata)
		if !ok || err != nil || m.Identity != "a" {
			t.Fatalf("receive: %+v, %t, %v", m, ok, err)
		}
	}
	if evicted > 0 {
		t.Errorf("%d connections were closed, though no body is read", evicted)
	}
}

// TestAnswersAreLimitedTogether runs several bases that send endless responses. When all responses together reach
// their limit, the connections of these bases must be closed. A small response from another base must be received.
func TestAnswersAreLimitedTogether(t *testing.T) {
	const requestCount = allAnswers/arklet.MaxPayload + 10
	h := &evictions{fakeHandler: newHandler()}
	released := make(chan struct{})
	l, err := net.Listen("tcp", greedyAddress+":0")
	if err != nil {
		t.Skipf("this machine has no second address on loopback: %v", err)
	}
	greedy := &httptest.Server{Listener: l,
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte(" "), arklet.MaxPayload))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-released:
			}
		})}}
	greedy.Start()
	defer greedy.Close()
	defer close(released)
	honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(healthBody, `"baseIdentity":"a",`, "", 1))
	}))
	defer honest.Close()
	tn := New(Options{OperationTimeout: time.Hour}, h)
	defer tn.stop()
	send := func(identity string, server *httptest.Server, r arklet.Request) {
		t.Helper()
		addr := server.Listener.Addr().(*net.TCPAddr)
		if err := tn.Send(t.Context(), tunnel.Address{Identity: identity, IP: addr.IP.String(), Port: addr.Port},
			r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range requestCount {
		send(fmt.Sprint("greedy-", i), greedy, install)
	}
	for deadline := time.Now().Add(
		time.Minute); h.count.Load() < requestCount-allAnswers/arklet.MaxPayload; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections were closed, want at least %d", h.count.Load(),
				requestCount-allAnswers/arklet.MaxPayload)
		}
	}
	send("honest", honest, health)
	for deadline := time.After(time.Minute); ; {
		select {
		case e := <-h.told:
			if e.Health.MasterActive && e.From.Identity == "honest" {
				return
			}
		case <-deadline:
			t.Fatal("no answer of the other base")
		}
	}
}
