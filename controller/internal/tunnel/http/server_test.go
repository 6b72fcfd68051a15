package httptunnel

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	certutil "k8s.io/client-go/util/cert"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// serve runs a tunnel on a free port until the test ends.
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

// client opens one connection for each request, so that none is left to wait for at the end.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

const heartbeatC = `{"baseMetadata":{"clusterName":"default","identity":"a","name":"base","version":"1.0.0"},"localHostName":"base-0","localIP":"10.1.2.3","port":1238,"state":"activated"}`

func TestServer(t *testing.T) {
	at := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "a"}
	cases := []struct {
		name, method, path, body string
		status                   int
		text                     string
		want                     []event
	}{
		{
			"a heartbeat of generation C", "POST", "/heartbeat", heartbeatC, 200, "SUCCESS",
			[]event{{From: at, Heartbeat: arklet.Heartbeat{Identity: "a", Name: "base", Version: "1.0.0", Cluster: "default", IP: "10.1.2.3", HostName: "base-0", Port: 1238, Active: true}}},
		},
		{
			"a base that goes", "POST", "/heartbeat", `{"baseMetadata":{"identity":"a"},"localIP":"::1","state":"deactivated"}`, 200, "SUCCESS",
			[]event{{From: at, Heartbeat: arklet.Heartbeat{Identity: "a", IP: "::1"}}},
		},
		{
			"generation B says not who it is", "POST", "/heartbeat", `{"masterBizInfo":{"name":"base","version":"1"},"networkInfo":{"localIP":"10.1.2.3"},"state":"ACTIVATED"}`,
			400, "heartbeat without baseMetadata.identity: over HTTP nothing else tells which base it is from\n",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed, Err: cmpopts.AnyError}},
		},
		{
			"generation A says not who it is", "POST", "/heartbeat", `{"masterBizInfo":{"bizName":"base","bizVersion":"1","bizState":"ACTIVATED"},"networkInfo":{"localIP":"10.1.2.3"}}`,
			400, "heartbeat without baseMetadata.identity: over HTTP nothing else tells which base it is from\n",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed, Err: cmpopts.AnyError}},
		},
		{
			"an address that no command reaches", "POST", "/heartbeat", `{"baseMetadata":{"identity":"a"},"localIP":"unknown","state":"activated"}`,
			400, `heartbeat of base "a" with localIP "unknown", which is no IP address: no command could reach the base` + "\n",
			[]event{{From: at, Kind: "heartbeat", Reason: tunnel.Malformed, Err: cmpopts.AnyError}},
		},
		{
			"no JSON", "POST", "/heartbeat", "hello", 400, "decoding a message: invalid character 'h' looking for beginning of value\n",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed, Err: cmpopts.AnyError}},
		},
		{
			"no body", "POST", "/heartbeat", "", 400, "decoding a message: unexpected end of JSON input\n",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Malformed, Err: cmpopts.AnyError}},
		},
		{
			"too large", "POST", "/heartbeat", strings.Repeat(" ", arklet.MaxPayload+1), 413, "message larger than 1 MiB\n",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "heartbeat", Reason: tunnel.Oversized, Err: arklet.ErrTooLarge}},
		},
		{"another method", "GET", "/heartbeat", "", 405, "Method Not Allowed\n", nil},
		{"another path", "POST", "/log", "{}", 404, "404 page not found\n", nil},
		{
			"a baseline query", "POST", "/queryBaseline", `{"identity":"a","name":"base","version":"1.0.0","clusterName":"default"}`,
			200, `[{"bizName":"biz1","bizVersion":"1.0.0","bizUrl":"file:///m/biz1.jar"}]`,
			[]event{{From: at, Metadata: arklet.Metadata{Identity: "a", Name: "base", Version: "1.0.0", Cluster: "default"}}},
		},
		{
			"a baseline query of nobody", "POST", "/queryBaseline", `{"name":"base"}`, 400, "baseline query without an identity: over HTTP nothing else tells which base it is from\n",
			[]event{{From: tunnel.Origin{Tunnel: tunnel.HTTP}, Kind: "queryBaseline", Reason: tunnel.Malformed, Err: cmpopts.AnyError}},
		},
		{"another method for a baseline", "PUT", "/queryBaseline", "{}", 405, "Method Not Allowed\n", nil},
	}
	h := newHandler()
	h.baseline = []arklet.Module{biz1}
	tn := serve(t, Options{}, h)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+tn.Addr()+c.path, strings.NewReader(c.body))
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
			if resp.StatusCode != c.status || string(text) != c.text {
				t.Errorf("answered %d %q, want %d %q", resp.StatusCode, text, c.status, c.text)
			}
			got := h.all()
			for i := range got {
				if age := time.Since(got[i].From.At); age < 0 || age > time.Minute {
					t.Errorf("told as of %s", got[i].From.At)
				}
				got[i].From.At = time.Time{}
			}
			if diff := cmp.Diff(c.want, got, sameError); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("many at once", func(t *testing.T) {
		const bases = 50
		var posts sync.WaitGroup
		for i := range bases {
			posts.Go(func() {
				body := strings.Replace(heartbeatC, `"identity":"a"`, fmt.Sprintf(`"identity":"%d"`, i), 1)
				if status, text, err := post(client, "http://"+tn.Addr()+"/heartbeat", body); err != nil || status != 200 {
					t.Errorf("base %d: %d %s, error %v", i, status, text, err)
				}
			})
		}
		posts.Wait()
		seen := map[string]bool{}
		for _, e := range h.all() {
			seen[e.Heartbeat.Identity] = true
		}
		if len(seen) != bases {
			t.Errorf("heard of %d bases, want %d", len(seen), bases)
		}
	})
}

func TestATakenPortStopsTheStart(t *testing.T) {
	tn := serve(t, Options{}, newHandler())
	second := New(Options{Addr: tn.Addr()}, newHandler())
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listening for heartbeats over HTTP") || !strings.Contains(err.Error(), tn.Addr()) {
		t.Errorf("error %v, want one that names the address", err)
	}
}

func TestMutualTLS(t *testing.T) {
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	// httptest's own certificate stands for that of a base.
	other := httptest.NewUnstartedServer(nil)
	other.StartTLS()
	defer other.Close()
	clientPair := other.TLS.Certificates[0]
	leaf, err := x509.ParseCertificate(clientPair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	clients, servers := x509.NewCertPool(), x509.NewCertPool()
	clients.AddCert(leaf)
	servers.AppendCertsFromPEM(certPEM)
	h := newHandler()
	tn := serve(t, Options{TLS: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert,
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if !bytes.Equal(raw[0], leaf.Raw) {
				return fmt.Errorf("an unknown client")
			}
			return nil
		},
		MinVersion: tls.VersionTLS12,
	}}, h)
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		ok           bool
	}{
		"with a certificate":    {[]tls.Certificate{clientPair}, true},
		"without a certificate": {nil, false},
		"with another's":        {[]tls.Certificate{pair}, false},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: servers, Certificates: c.certificates, MinVersion: tls.VersionTLS12}}
			defer transport.CloseIdleConnections()
			status, text, err := post(&http.Client{Transport: transport}, "https://"+tn.Addr()+"/heartbeat", heartbeatC)
			if ok := err == nil && status == 200; ok != c.ok {
				t.Errorf("%d %s, error %v; want success %t", status, text, err, c.ok)
			}
			if heard := len(h.all()) == 1; heard != c.ok {
				t.Errorf("heard %t, want %t", heard, c.ok)
			}
		})
	}
	if status, _, err := post(client, "http://"+tn.Addr()+"/heartbeat", heartbeatC); err == nil && status == 200 {
		t.Error("plain HTTP was served beside TLS")
	}
}

// FuzzServer holds the server to its promise for any body: it answers, acts on what says who it is
// from, and counts everything else once.
func FuzzServer(f *testing.F) {
	f.Fuzz(func(t *testing.T, baseline bool, body []byte) {
		h := newHandler()
		path := "/heartbeat"
		if baseline {
			path = "/queryBaseline"
		}
		w := httptest.NewRecorder()
		New(Options{}, h).routes().ServeHTTP(w, httptest.NewRequest("POST", path, bytes.NewReader(body)))
		told := h.all()
		if len(told) != 1 {
			t.Fatalf("told %d times, want once", len(told))
		}
		e := told[0]
		switch rejected := e.Reason != ""; {
		case rejected && (e.Err == nil || w.Code != 400 && w.Code != 413 || w.Body.Len() == 0):
			t.Errorf("rejected with %v and answered %d %q", e.Err, w.Code, w.Body)
		case !rejected && (w.Code != 200 || e.From.Identity == ""):
			t.Errorf("base %q was answered %d", e.From.Identity, w.Code)
		case !rejected && !baseline && (e.Heartbeat.Identity != e.From.Identity || e.Heartbeat.IP == ""):
			t.Errorf("a heartbeat of base %q was told as %+v", e.From.Identity, e.Heartbeat)
		}
	})
}
