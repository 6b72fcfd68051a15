package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// TestMain runs the fakebase command instead of the tests if the only argument is --stdio.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "--stdio" {
		if err := New("dev", os.Stdout, os.Stderr).Run(os.Args); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestBaseOverStandardStreams(t *testing.T) {
	p, err := stdio.Start(exec.Command(os.Args[0], "--stdio"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := remote.New(t.Context(), p, remote.Options{Options: fakebase.Options{Identity: "b1", IP: "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	_, stop := b.Watch(func(e fakebase.Event) {
		if e.Kind == fakebase.EventReady {
			close(ready)
		}
	})
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	<-ready
	web, err := b.WebAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call(t, "GET", "http://"+web+"/actuator/health", "", 200, nil)
	cancel()
	if err := errors.Join(<-done, p.Close(), p.Err()); err != nil {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tests := []struct {
		args string
		want string
	}{
		{"", "--mqtt tcp://HOST:PORT, or --http http://HOST:PORT"},
		{"extra", `argument "extra"`},
		{"--mqtt broker:1883", `MQTT.Broker "broker:1883"`},
		{"--mqtt tcp://h:1 --count 0", "--count 0:"},
		{"--mqtt tcp://h:1 --activation some", `--activation "some": must be default`},
		{"--mqtt tcp://h:1 --ip localhost", `--ip "localhost":`},
		{"--mqtt tcp://h:1 --ip 255.255.255.255 --count 2", "--ip 255.255.255.255:"},
		{"--mqtt tcp://h:1 --log-level loud", `--log-level "loud":`},
		{"--mqtt tcp://h:1 --generation Z", `Generation "Z":`},
		{"--mqtt ssl://h:1 --mqtt-ca " + write("ca", "x"), "PEM"},
		{"--http https://h:1 --http-ca " + write("hca", "x"), "--http-ca " + filepath.Join(dir, "hca") + ":"},
		{"--http https://h:1 --http-cert nowhere", "--http-cert, --http-key:"},
		{"--mqtt ssl://h:1 --mqtt-cert nowhere", "--mqtt-cert, --mqtt-key:"},
		{"--mqtt tcp://h:1 --catalogue nowhere.yaml", "--catalogue: open nowhere.yaml"},
		{"--mqtt tcp://h:1 --catalogue " + write("c", "modules: [{naem: x}]"), `unknown field "naem"`},
		{"--mqtt tcp://h:1 --catalogue " + write("d", "modules: [{}]"), "modules[0].name:"},
		{"--mqtt tcp://h:1 --faults " + write("e", "{"), "yaml: line 1: did not find"},
		{"--mqtt tcp://h:1 --faults " + write("f", "- kind: gremlin"), `kind "gremlin":`},
		{"--mqtt tcp://h:1 --control nowhere", "--control nowhere:"},
		{"--http http://h:1 --http-addr 127.0.0.1:0 --web --web-addr nowhere", "nowhere"},
		{"--nonsense", "-nonsense"},
	}
	for _, tt := range tests {
		err := New("dev", io.Discard, io.Discard).RunContext(t.Context(),
			append([]string{"fakebase"}, strings.Fields(tt.args)...))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// mqttBroker runs an MQTT broker until the test ends. It sends the topic of each message to the channel topics.
func mqttBroker(t *testing.T) (addr string, topics <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := broker.New(&broker.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
	if err := s.AddHook(new(auth.AllowHook), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.AddListener(listeners.NewNet("tcp", ln)); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1000)
	if err := s.Subscribe("#", 1,
		func(_ *broker.Client, _ packets.Subscription, pk packets.Packet) { seen <- pk.TopicName }); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return "tcp://" + ln.Addr().String(), seen
}

// startCommand runs the fakebase command until the test ends, and returns a scanner of its output.
func startCommand(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := New("dev", w, io.Discard).RunContext(ctx, append([]string{"fakebase"}, args...)); err != nil {
			t.Errorf("RunContext() = %v", err)
		}
		_ = w.Close()
	})
	t.Cleanup(func() {
		cancel()
		_ = r.Close()
		wg.Wait()
	})
	return bufio.NewScanner(r)
}

func readLine(t *testing.T, s *bufio.Scanner, prefix string) string {
	t.Helper()
	if !s.Scan() || !strings.HasPrefix(s.Text(), prefix) {
		t.Fatalf("output line = %q, want the prefix %q", s.Text(), prefix)
	}
	return strings.TrimPrefix(s.Text(), prefix)
}

func call(t *testing.T, method, url, body string, wantStatus int, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != wantStatus {
		t.Fatalf("%s %s: %s %s %v, want %d", method, url, resp.Status, raw, err, wantStatus)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	}
}

func TestBasesOverMQTTWithControl(t *testing.T) {
	addr, topics := mqttBroker(t)
	faults := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(faults, []byte("- kind: latency\n  delay: {min: 1ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := startCommand(t, "--mqtt", addr, "--count", "3", "--identity", "b", "--env", "TEST", "--ip", "198.18.0.255",
		"--host-name", "host", "--faults", faults, "--control", "127.0.0.1:0", "--heartbeat-interval", "20ms")
	url := readLine(t, out, "control ")
	want := map[string]bool{"koupleless_test/b-1/base/heart": true, "koupleless_test/b-2/base/heart": true,
		"koupleless_test/b-3/base/heart": true}
	limit := time.After(time.Minute)
	for len(want) > 0 {
		select {
		case topic := <-topics:
			delete(want, topic)
		case <-limit:
			t.Fatalf("no message on the topics %v within a minute", want)
		}
	}
	var all []fakebase.Status
	call(t, "GET", url+"/bases", "", 200, &all)
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprint(s.Identity, " ", s.IP, " ", s.HostName, " ", s.Connected))
	}
	if d := strings.Join(got, ", "); d != "b-1 198.18.0.255 host-1 true, b-2 198.18.1.0 host-2 true, b-3 "+
		"198.18.1.1 host-3 true" {
		t.Errorf("bases = %s", d)
	}
	var list []fault.Status
	call(t, "GET", url+"/bases/b-1/faults", "", 200, &list)
	if len(list) != 1 || list[0].Kind != fault.KindLatency {
		t.Errorf("faults = %+v, want one of kind latency", list)
	}
	call(t, "DELETE", url+"/bases/b-1/faults", "", 200, nil)
	var injected struct {
		ID string `json:"id"`
	}
	call(t, "POST", url+"/bases/b-1/faults", `{"kind":"silent"}`, 200, &injected)
	call(t, "DELETE", url+"/bases/b-1/faults/"+injected.ID, "", 200, nil)
	call(t, "DELETE", url+"/bases/b-1/faults/"+injected.ID, "", 404, nil)
	call(t, "POST", url+"/bases/b-1/faults", `{"kind":"gremlin"}`, 400, nil)
	call(t, "POST", url+"/bases/b-1/faults", `{"knd":"silent"}`, 400, nil)
	call(t, "GET", url+"/bases/unknown", "", 404, nil)
	var web struct {
		Addr string `json:"addr"`
	}
	call(t, "POST", url+"/bases/b-2/web", "", 200, &web)
	call(t, "GET", "http://"+web.Addr+"/actuator/health", "", 200, nil)
	call(t, "POST", url+"/bases/b-1/crash", "", 200, nil)
	call(t, "POST", url+"/bases/b-1/restart?identity=a/b", "", 400, nil)
	call(t, "POST", url+"/bases/b-1/restart?identity=b-9", "", 200, nil)
	for topic := range topics {
		if topic == "koupleless_test/b-9/base/queryBaseline" {
			break
		}
	}
	var one fakebase.Status
	call(t, "GET", url+"/bases/b-9", "", 200, &one)
	if one.Identity != "b-9" {
		t.Errorf("status = %+v, want the identity b-9", one)
	}
}

// startController runs an HTTP server that receives heartbeats until the test ends.
func startController(t *testing.T) (url string, beats <-chan string) {
	t.Helper()
	got := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, got
}

func TestHTTPBaseIsReachableAtReportedAddress(t *testing.T) {
	for name, args := range map[string][]string{
		"consecutive addresses":   {"--ip", "127.0.0.1"},
		"default":                 nil,
		"port":                    {"--http-addr", "127.0.0.1:0", "--ip", "127.0.0.1"},
		"all addresses":           {"--http-addr", "0.0.0.0:0", "--ip", "127.0.0.1"},
		"reported listen address": {"--http-addr", "127.0.0.9:0"},
	} {
		t.Run(name, func(t *testing.T) {
			url, beat := startController(t)
			startCommand(t, append([]string{"--http", url, "--count", "2", "--identity", "b"}, args...)...)
			reached := map[string]bool{}
			for len(reached) < 2 {
				var heartbeat struct {
					LocalIP      string
					Port         int
					BaseMetadata struct{ Identity string }
				}
				if err := json.Unmarshal([]byte(<-beat), &heartbeat); err != nil {
					t.Fatal(err)
				}
				var answer struct{ BaseIdentity string }
				call(t, "POST", fmt.Sprintf("http://%s:%d/health", heartbeat.LocalIP, heartbeat.Port), "{}", 200,
					&answer)
				if answer.BaseIdentity != heartbeat.BaseMetadata.Identity {
					t.Errorf("base at the address of %s = %s", heartbeat.BaseMetadata.Identity, answer.BaseIdentity)
				}
				reached[answer.BaseIdentity] = true
			}
		})
	}
}

func TestHeartbeatHasTokenAndClientCertificate(t *testing.T) {
	beat := make(chan string, 100)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case beat <- r.Header.Get("Authorization") + " " + r.TLS.PeerCertificates[0].Subject.Organization[0]:
		default:
		}
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// The base uses the certificate and the key of the server.
	pair := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	crt := write("crt", "CERTIFICATE", pair.Certificate[0])
	startCommand(t, "--http", srv.URL, "--http-token", "secret", "--http-ca", crt, "--http-cert", crt, "--http-key",
		write("key", "PRIVATE KEY", key))
	if got := <-beat; got != "Bearer secret Acme Co" {
		t.Errorf("token and certificate of the heartbeat = %q, want %q", got, "Bearer secret Acme Co")
	}
}

func TestBaseOverHTTPWithWebAndCatalogue(t *testing.T) {
	controller, beat := startController(t)
	catalogue := filepath.Join(t.TempDir(), "catalogue.yaml")
	if err := os.WriteFile(catalogue, []byte("fetch: never\nmodules:\n- {name: shop, webContextPath: /s}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	out := startCommand(t, "--http", controller, "--http-addr", "127.0.0.1:0", "--web", "--catalogue", catalogue,
		"--identity", "b1", "--static-biz", "https://h/shop-1.0.jar")
	url := readLine(t, out, "web b1 ")
	if body := <-beat; !strings.Contains(body, `"identity":"b1"`) || strings.Contains(body, `"port":0`) {
		t.Errorf("heartbeat = %s, want the identity b1 and a port", body)
	}
	limit, tick := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for installed := false; !installed; { // the static module starts after the heartbeat
		resp, err := http.Get(url + "/s/anything")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		installed = resp.StatusCode == http.StatusOK
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("static module did not start within a minute; last response: %s", resp.Status)
		}
	}
	var answer struct {
		Biz, Version string
	}
	call(t, "GET", url+"/s/anything", "", 200, &answer)
	if answer.Biz != "shop" || answer.Version != "1.0" {
		t.Errorf("answer = %+v, want version 1.0 of shop", answer)
	}
}
