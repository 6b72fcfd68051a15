package httptunnel

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// serve starts a tunnel on a free port. The tunnel runs until the test ends.
func serve(t *testing.T, opts Options, h tunnel.Handler) *Tunnel {
	t.Helper()
	opts.Addr = "127.0.0.1:0"
	tn := New(opts, h)
	if err := tn.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- tn.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
	return tn
}

func post(c *http.Client, url, body string) (status int, text string, err error) {
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// client returns an HTTP client that uses a new connection for each request, so that no idle connections remain.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

const heartbeatC = `{"baseMetadata":{"clusterName":"default","identity":"a","name":"base","version":"1.0.0"},"localHostName":"base-0","localIP":"10.1.2.3","port":1238,"state":"activated"}`

func TestServer(t *testing.T) {
	at := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "a"}
	atIP := func(ip string) tunnel.Origin { return tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "a", IP: ip} }
	cases := []struct {
		name, method, path, body string
		status                   int
		text                     string // part of the text of an error response
		want                     []event
	}{
		{
			"a heartbeat of generation C", "POST", "/heartbeat", heartbeatC, 200, "SUCCESS",
			[]event{{From: atIP("10.1.2.3"),
				Heartbeat: arklet.Heartbeat{Identity: "a", Name: "base", Version: "1.0.0", Cluster: "default",
					IP: "10.1.2.3", HostName: "base-0", Port: 1238, Active: true}}},
		},
		{
			"a base that goes", "POST", "/heartbeat",
			`{"baseMetadata":{"identity":"a"},"localIP":"::1","state":"deactivated"}`, 200, "SUCCESS",
			[]event{{From: atIP("::1"), Heartbeat: arklet.Heartbeat{Identity: "a", IP: "::1"}}},
		},
		{
			"generation B has no identity", "POST", "/heartbeat",
			`{"masterBizInfo":{"name":"base","version":"1"},"networkInfo":{"localIP":"10.1.2.3"},"state":"ACTIVATED"}`,
			400, "",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed,
				Err: errNoIdentity}},
		},
		{
			"generation A has no identity", "POST", "/heartbeat",
			`{"masterBizInfo":{"bizName":"base","bizVersion":"1","bizState":"ACTIVATED"},"networkInfo":{"localIP":"10.1.2.3"}}`,
			400, "",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed,
				Err: errNoIdentity}},
		},
		{
			"an address that no command reaches", "POST", "/heartbeat",
			`{"baseMetadata":{"identity":"a"},"localIP":"unknown","state":"activated"}`,
			403, `"unknown"`,
			[]event{{From: at, Kind: "heartbeat", Reason: tunnel.WrongAddress, Err: tunnel.ErrAddress}},
		},
		{
			"identity is not valid in a name", "POST", "/heartbeat",
			`{"baseMetadata":{"identity":"a/../b"},"localIP":"10.1.2.3","state":"activated"}`,
			400, `"a/../b"`,
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.BeyondLimits,
				Err: arklet.ErrLimit}},
		},
		{
			"no JSON", "POST", "/heartbeat", "hello", 400, "'h'",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed,
				Err: cmpopts.AnyError}},
		},
		{
			"no body", "POST", "/heartbeat", "", 400, "JSON",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed,
				Err: cmpopts.AnyError}},
		},
		{
			"too large", "POST", "/heartbeat", strings.Repeat(" ", maxBody+1), 413, "64 KiB",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Oversized,
				Err: errTooLarge}},
		},
		{
			"as large as it may be", "POST", "/heartbeat", heartbeatC + strings.Repeat(" ", maxBody-len(heartbeatC)),
			200, "SUCCESS",
			[]event{{From: atIP("10.1.2.3"),
				Heartbeat: arklet.Heartbeat{Identity: "a", Name: "base", Version: "1.0.0", Cluster: "default",
					IP: "10.1.2.3", HostName: "base-0", Port: 1238, Active: true}}},
		},
		{"another method", "GET", "/heartbeat", "", 405, "Method Not Allowed", nil},
		{"another path", "POST", "/log", "{}", 404, "404 page not found", nil},
		{
			"a baseline query", "POST", "/queryBaseline",
			`{"identity":"a","name":"base","version":"1.0.0","clusterName":"default"}`,
			200, `[{"bizName":"biz1","bizVersion":"1.0.0","bizUrl":"file:///m/biz1.jar"}]`,
			[]event{{From: at,
				Metadata: arklet.Metadata{Identity: "a", Name: "base", Version: "1.0.0", Cluster: "default"}}},
		},
		{
			"baseline query without an identity", "POST", "/queryBaseline", `{"name":"base"}`, 400, "",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "queryBaseline", Reason: tunnel.Malformed,
				Err: errNoIdentity}},
		},
		{"another method for a baseline", "PUT", "/queryBaseline", "{}", 405, "Method Not Allowed", nil},
	}
	h := newHandler()
	h.baseline = []arklet.Module{biz1}
	tn := serve(t, Options{Networks: everywhere}, h)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+tn.Addr()+c.path,
				strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || !strings.Contains(string(text), c.text) ||
				c.status == 200 && string(text) != c.text {
				t.Errorf("status %d, body %q, want %d %q", resp.StatusCode, text, c.status, c.text)
			}
			got := h.takeEvents()
			for i := range got {
				if err := got[i].Err; err != nil && string(text) != err.Error()+"\n" {
					t.Errorf("response %q, but rejected with %q", text, err)
				}
				if age := time.Since(got[i].From.At); age < 0 || age > time.Minute {
					t.Errorf("the time of the message is %s", got[i].From.At)
				}
				// A request without a token is rejected before its body is read.
				if got[i].From.Peer != "127.0.0.1" && got[i].Reason != tunnel.Oversized {
					t.Errorf("the peer is %q, want 127.0.0.1", got[i].From.Peer)
				}
				got[i].From.At, got[i].From.Peer = time.Time{}, ""
			}
			if diff := cmp.Diff(c.want, got, sameError); diff != "" {
				t.Errorf("handler calls (-want +got):\n%s", diff)
			}
		})
	}
}

// everywhere matches all IPv4 and IPv6 addresses.
var everywhere = tunnel.Networks{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// beat returns a heartbeat in which a base reports an address.
func beat(ip string) string { return strings.Replace(heartbeatC, "10.1.2.3", ip, 1) }

// TestReportedAddressMustBePeerAddress checks that a base must report the address from which it sends, unless the
// networks allow another address.
func TestReportedAddressMustBePeerAddress(t *testing.T) {
	from := func(peer, path, body string) (int, event) {
		h := newHandler()
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		New(Options{Networks: tunnel.Networks{netip.MustParsePrefix("10.9.0.0/16")}}, h).routes().ServeHTTP(w, r)
		return w.Code, (<-h.told)
	}
	for _, c := range []struct {
		peer, ip string
		status   int
	}{
		{"10.1.2.3:5", "10.1.2.3", 200},
		{"[::ffff:10.1.2.3]:5", "10.1.2.3", 200},
		{"[2001:db8::1]:5", "2001:db8::1", 200},
		{"10.1.2.4:5", "10.1.2.3", 403},
		{"10.1.2.4:5", "10.9.2.3", 200},
		{"127.0.0.1:5", "127.0.0.1", 403},
		{"169.254.169.254:80", "169.254.169.254", 403},
		{"10.1.2.3:5", "0.0.0.0", 403},
	} {
		status, e := from(c.peer, "/heartbeat", beat(c.ip))
		if status != c.status || (status == 200) != (e.From.IP == c.ip && e.Heartbeat.IP == c.ip) ||
			(status != 200) != (e.Reason == tunnel.WrongAddress) {
			t.Errorf("%s from %s: status %d, calls %+v; want %d", c.ip, c.peer, status, e, c.status)
		}
	}
	if status, e := from("10.1.2.3:5", "/queryBaseline", `{"identity":"a"}`); status != 200 || e.From.IP != "" {
		t.Errorf("a baseline query with networks: status %d, calls %+v", status, e)
	}
	h := newHandler()
	r := httptest.NewRequest("POST", "/queryBaseline", strings.NewReader(`{"identity":"a"}`))
	r.RemoteAddr = "10.1.2.3:5"
	New(Options{}, h).routes().ServeHTTP(httptest.NewRecorder(), r)
	if e := <-h.told; e.From.IP != "10.1.2.3" {
		t.Errorf("a baseline query: calls %+v", e)
	}
}

// TestRequestHeadersAreLimited checks that a request header below the documented limit is accepted, and a larger one
// rejected. The limit is documented because proxies and service meshes add header fields.
func TestRequestHeadersAreLimited(t *testing.T) {
	tn := serve(t, Options{}, newHandler())
	for size, want := range map[int]int{4 << 10: http.StatusBadRequest,
		6 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+tn.Addr()+"/heartbeat",
			strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-Client-Cert", strings.Repeat("a", size))
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a header of %d bytes: status %d, want %d", size, answer.StatusCode, want)
		}
	}
}

func TestToken(t *testing.T) {
	h := newHandler()
	tn := New(Options{Networks: everywhere, Token: "secret"}, h)
	for _, c := range []struct {
		path, authorization string
		status              int
	}{
		{"/secret/heartbeat", "", 200},
		{"/heartbeat", "Bearer secret", 200},
		{"/secret/log", "", 404},
		{"/heartbeat", "", 401},
		{"/heartbeat", "Bearer other", 401},
		{"/heartbeat", "secret", 401},
		{"/other/heartbeat", "", 401},
		{"/secre/heartbeat", "", 401},
		{"/secret", "", 401},
		{"//heartbeat", "", 401},
	} {
		r := httptest.NewRequest("POST", "http://c"+c.path, strings.NewReader(heartbeatC))
		if c.authorization != "" {
			r.Header.Set("Authorization", c.authorization)
		}
		w := httptest.NewRecorder()
		tn.routes().ServeHTTP(w, r)
		calls := h.takeEvents()
		refused := len(calls) == 1 && calls[0].Reason == tunnel.Unauthorized
		heard := len(calls) == 1 && calls[0].Heartbeat.Identity == "a"
		if w.Code != c.status || heard != (c.status == 200) || refused != (c.status == 401) ||
			strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s, %q: %d %s, calls %+v; want %d", c.path, c.authorization, w.Code, w.Body, calls, c.status)
		}
	}
}

// TestMaxBaselineQueries checks that only a few baseline queries are handled concurrently, because each of them reads
// many objects.
func TestMaxBaselineQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slowHandler{fakeHandler: newHandler(), goOn: make(chan struct{})}
		routes := New(Options{}, h).routes()
		for range 100 {
			go routes.ServeHTTP(httptest.NewRecorder(),
				httptest.NewRequest("POST", "/queryBaseline", strings.NewReader(`{"identity":"a"}`)))
		}
		synctest.Wait()
		if n := h.under.Load(); n != tunnel.MaxBaselineQueries {
			t.Errorf("%d queries are handled concurrently, want %d", n, tunnel.MaxBaselineQueries)
		}
		close(h.goOn)
		synctest.Wait()
		if n := len(h.takeEvents()); n != 100 {
			t.Errorf("%d queries were answered", n)
		}
	})
}

// deadlined is a ResponseWriter that records the read deadline.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.until = t
	return nil
}

// TestReadDeadlineEndsWithBody checks that the read deadline of a request ends when the body has been read, so that
// the deadline does not cancel a query that waits.
func TestReadDeadlineEndsWithBody(t *testing.T) {
	w := &deadlined{httptest.NewRecorder(), time.Now().Add(bodyTimeout)}
	New(Options{}, newHandler()).routes().ServeHTTP(w,
		httptest.NewRequest("POST", "/queryBaseline", strings.NewReader(`{"identity":"a"}`)))
	if w.Code != http.StatusOK || !w.until.IsZero() {
		t.Errorf("status %d, read deadline %s", w.Code, w.until)
	}
}

type slowHandler struct {
	*fakeHandler
	goOn  chan struct{}
	under atomic.Int32
}

func (s *slowHandler) BaselineQuery(from tunnel.Origin, m arklet.Metadata) []arklet.Module {
	s.under.Add(1)
	defer s.under.Add(-1)
	<-s.goOn
	return s.fakeHandler.BaselineQuery(from, m)
}

func TestStartFailsIfPortIsInUse(t *testing.T) {
	tn := serve(t, Options{}, newHandler())
	second := New(Options{Addr: tn.Addr()}, newHandler())
	if err := second.Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "listening for heartbeats over HTTP") ||
		!strings.Contains(err.Error(), tn.Addr()) {
		t.Errorf("error %v, want an error with the address", err)
	}
}

// issue returns a certificate that a CA has signed, or a CA certificate.
func issue(t *testing.T, name string, ca *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := template, crypto.Signer(key)
	if ca == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		parent, signer = ca.Leaf, ca.PrivateKey.(crypto.Signer)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestMutualTLS(t *testing.T) {
	ca, other := issue(t, "ca", nil), issue(t, "other", nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	h := newHandler()
	tn := serve(t, Options{Networks: everywhere, TLS: &tls.Config{
		Certificates: []tls.Certificate{issue(t, "controller", &ca)}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: pool, MinVersion: tls.VersionTLS12,
	}}, h)
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		identity     string
		status       int // expected status; 0 means no response
	}{
		"with its certificate":       {[]tls.Certificate{issue(t, "a", &ca)}, "a", 200},
		"an address as its identity": {[]tls.Certificate{issue(t, "x", &ca)}, "127.0.0.1", 200},
		"with another's":             {[]tls.Certificate{issue(t, "b", &ca)}, "a", 401},
		"without a certificate":      {nil, "a", 0},
		"of an authority of its own": {[]tls.Certificate{issue(t, "a", &other)}, "a", 0},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: c.certificates, MinVersion: tls.VersionTLS12}}
			defer transport.CloseIdleConnections()
			for _, path := range []string{"/heartbeat", "/queryBaseline"} {
				body := strings.Replace(heartbeatC, `"identity":"a"`, `"identity":"`+c.identity+`"`, 1)
				if path == "/queryBaseline" {
					body = `{"identity":"` + c.identity + `"}`
				}
				status, text, err := post(&http.Client{Transport: transport}, "https://"+tn.Addr()+path, body)
				if status != c.status || (err != nil) != (c.status == 0) {
					t.Errorf("%s: %d %s, error %v; want %d", path, status, text, err, c.status)
				}
				calls := h.takeEvents()
				if heard := len(calls) == 1 && calls[0].Reason == "" &&
					calls[0].From.Certified; heard != (c.status == 200) {
					t.Errorf("%s: calls %+v", path, calls)
				}
			}
		})
	}
	if status, _, err := post(client, "http://"+tn.Addr()+"/heartbeat", heartbeatC); err == nil && status == 200 {
		t.Error("plain HTTP is served in addition to TLS")
	}
}
