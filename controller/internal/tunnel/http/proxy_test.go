package httptunnel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// proxy starts an HTTP proxy that sends the same response to every CONNECT request.
func proxy(t *testing.T, answer string) (addr string, asked <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests, done := make(chan string, 2), make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewReader(conn)
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Error(err)
			return
		}
		requests <- fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, r.Header.Get("Proxy-Authorization"))
		_, _ = io.WriteString(conn, answer)
		if !strings.HasPrefix(answer, "HTTP/1.1 200") {
			return
		}
		// The rest of the connection is for the base, which the proxy simulates.
		r, err = http.ReadRequest(in)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body)
		_, _ = io.WriteString(conn, response(healthBody))
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String(), requests
}

func throughA(t *testing.T, proxyURL string) event {
	t.Helper()
	u, err := url.Parse(proxyURL)
	if err != nil {
		t.Fatal(err)
	}
	h := newHandler()
	tn := New(Options{Proxy: u}, h)
	defer tn.stop()
	if err := tn.Send(t.Context(), baseAddress, health); err != nil {
		t.Fatal(err)
	}
	return <-h.told
}

func TestProxyConnects(t *testing.T) {
	addr, asked := proxy(t, "HTTP/1.1 200 Connection established\r\n\r\n")
	if e := throughA(t, "http://joe:secret@"+addr); !e.Health.MasterActive {
		t.Errorf("handler call: %+v", e)
	}
	got := []string{<-asked, <-asked}
	if diff := cmp.Diff([]string{"CONNECT 198.18.0.1:1240 Basic am9lOnNlY3JldA==", "POST /health {}"},
		got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestProxyDoesNotConnect checks that the error shows whether the base refused the connection or the proxy failed.
func TestProxyDoesNotConnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	listening := func(answer string) string {
		addr, _ := proxy(t, answer)
		return addr
	}
	for name, c := range map[string]struct {
		addr    string
		refused bool
		says    string
	}{
		"the base refuses the connection":  {listening("HTTP/1.1 502 Bad Gateway\r\n\r\n"), true, "502 Bad Gateway"},
		"the proxy does not want to":       {listening("HTTP/1.1 403 Forbidden\r\n\r\n"), false, "403 Forbidden"},
		"the proxy is none":                {listening("220 smtp.example\r\n"), false, "malformed HTTP"},
		"the proxy breaks off":             {listening(""), false, "EOF"},
		"the proxy refuses the connection": {nobody, false, nobody},
	} {
		t.Run(name, func(t *testing.T) {
			e := throughA(t, "http://"+c.addr)
			if e.Err == nil || errors.Is(e.Err, tunnel.ErrRefused) != c.refused ||
				!strings.Contains(e.Err.Error(), c.says) {
				t.Errorf("error %v; want refused %t and %q", e.Err, c.refused, c.says)
			}
		})
	}
}
