package recording_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// base is an HTTP server that responds with the command and the request body, except to the commands noAnswer and
// wait. It also implements Environment: each event sends a heartbeat.
type base struct {
	answers chan string // responses to the command wait
	tap     *recording.Tap
	control recording.Controller
}

func (b *base) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	answer := r.URL.Path + " " + string(body)
	switch r.URL.Path {
	case "/noAnswer":
		<-r.Context().Done()
		return
	case "/wait":
		answer = <-b.answers
	case "/fetch":
		response, err := http.Get(string(body))
		if err != nil {
			answer = err.Error()
			break
		}
		answer = response.Status
		_ = response.Body.Close()
	}
	conn, _, _ := http.NewResponseController(w).Hijack()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"+answer)
	_ = conn.Close()
}

func (b *base) Listens() bool               { return true }
func (b *base) Ready(context.Context) error { return nil }
func (b *base) Apply(context.Context, recording.Event) error {
	b.control.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/heartbeat", nil))
	return nil
}

func newPlayer(t *testing.T) (*recording.Player, *base) {
	t.Helper()
	dir := t.TempDir()
	manifest := recording.Manifest{"Ark-Biz-Name": "x"}
	plain := filepath.Join(dir, "plain.jar")
	for _, err := range []error{
		recording.WriteJar(plain, manifest, ""),
		recording.WriteJar(filepath.Join(dir, "copy.jar"), manifest, plain),
		recording.WriteJar(filepath.Join(dir, "no.jar"), nil, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fixtures, err := recording.OpenFixtures(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fixtures.Close)
	b := &base{answers: make(chan string), tap: recording.NewTap()}
	b.control.Tap = b.tap
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return &recording.Player{
		Fixtures: fixtures, Tunnel: recording.HTTP, Tap: b.tap, NoAnswerTimeout: 50 * time.Millisecond,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
		Web: func(context.Context) (string, error) { return server.URL, nil },
	}, b
}

func TestPlayOverHTTP(t *testing.T) {
	p, b := newPlayer(t)
	go func() { b.answers <- "done" }()
	got, err := p.Play(t.Context(), []recording.Exchange{
		{Command: "health", Body: `{"u":"{server}/{modules}"}`},
		{Command: "noAnswer", NoAnswer: true},
		{Command: "wait", Background: true},
		{Join: true},
		{Command: "fetch", Body: "{server}/plain.jar", Until: "200"},
		{Command: "fetch", Body: "{server}/hanging/plain.jar", Background: true},
		{Command: "health", Body: "{}", AwaitDownload: true},
		{Join: true, Release: true},
		{Raw: "GET /x HTTP/1.1\r\nHost: base\r\n\r\n"},
		{Web: "/page"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var answers []string
	for _, x := range got {
		answers = append(answers, x.Answer)
	}
	const ok = "HTTP/1.1 200 OK\r\n\r\n"
	want := []string{ok + `/health {"u":"{server}/{modules}"}`, "", "", ok + "done", ok + "200 OK", "",
		ok + "/health {}", ok + "404 Not Found", ok + "/x ", "HTTP/1.1 200\r\nContent-Type: \r\n\r\n/page "}
	if d := cmp.Diff(want, answers); d != "" || !got[1].NoAnswer {
		t.Errorf("NoAnswer = %t; responses (-want +got):\n%s", got[1].NoAnswer, d)
	}
}

// hookedConn is a connection that calls functions after Write and Close.
type hookedConn struct {
	net.Conn
	written, closed func()
}

func (c hookedConn) Write(b []byte) (int, error) {
	defer c.written()
	return c.Conn.Write(b)
}

func (c hookedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// TestPlayErrors checks that Play returns an error if it cannot send a request, or if ctx ends before the expected
// response.
func TestPlayErrors(t *testing.T) {
	errUnreachable := errors.New("unreachable")
	hook := func(p *recording.Player, written, closed func()) {
		dial := p.Dial
		p.Dial = func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			return hookedConn{conn, written, closed}, err
		}
	}
	withBroker := func(p *recording.Player, inlineClient bool) {
		p.Tunnel = recording.MQTT
		p.Broker = mqtt.New(&mqtt.Options{InlineClient: inlineClient, Logger: slog.New(slog.DiscardHandler)})
	}
	web := func(url string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return url, err }
	}
	none := func() {}
	for name, tt := range map[string]struct {
		exchange recording.Exchange
		prepare  func(p *recording.Player, cancel func())
		cause    error  // nil: any error
		want     string // part of the error
	}{
		"base unreachable": {recording.Exchange{Command: "help", Body: "{}"}, func(p *recording.Player, _ func()) {
			p.Dial = func(context.Context) (net.Conn, error) { return nil, errUnreachable }
		}, errUnreachable, "exchange 1 (help {}): unreachable"},
		"no response": {recording.Exchange{Command: "noAnswer"}, func(p *recording.Player, cancel func()) {
			hook(p, cancel, none)
		}, context.Canceled, "exchange 1 (noAnswer ): "},
		"Await not fulfilled": {recording.Exchange{Command: "help", Await: "never"},
			func(p *recording.Player, cancel func()) { hook(p, none, cancel) },
			context.Canceled, `waiting for "never" in HTTP/1.1 200 OK`},
		"Until not fulfilled": {recording.Exchange{Command: "help", Until: "never"},
			func(p *recording.Player, cancel func()) { hook(p, none, cancel) },
			context.Canceled, "exchange 1 (help ): "},
		"no web server": {recording.Exchange{Web: "/page"},
			func(p *recording.Player, _ func()) { p.Web = web("", errUnreachable) },
			errUnreachable, "exchange 1 (/page ): "},
		"invalid web URL": {recording.Exchange{Web: "/page"},
			func(p *recording.Player, _ func()) { p.Web = web("http://base:port", nil) }, nil, "invalid port"},
		"failed web request": {recording.Exchange{Web: "/page"},
			func(p *recording.Player, _ func()) { p.Web = web("ftp://base", nil) }, nil, "unsupported protocol"},
		"broker without an inline client": {recording.Exchange{Command: "help"},
			func(p *recording.Player, _ func()) { withBroker(p, false) },
			mqtt.ErrInlineClientNotEnabled, "exchange 1 (help ): "},
		"no MQTT response": {recording.Exchange{Command: "help"}, func(p *recording.Player, cancel func()) {
			withBroker(p, true)
			cancel()
		}, context.Canceled, "waiting for a response"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlayer(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tt.prepare(p, cancel)
			got, err := p.Play(ctx, []recording.Exchange{tt.exchange})
			if err == nil || tt.cause != nil && !errors.Is(err, tt.cause) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Play() = %v, %v; want the error %v with the text %q", got, err, tt.cause, tt.want)
			}
		})
	}
}

// TestPlayGateErrors checks that Play returns an error if it cannot remove or create the gate file of waiting
// modules.
func TestPlayGateErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"file cannot be removed": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "go", "x"), 0o700) },
			"remove "},
		"file cannot be created": {os.RemoveAll, "exchange 1 (help ): open "},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlayer(t)
			dir := filepath.Join(t.TempDir(), "modules")
			if err := errors.Join(os.Mkdir(dir, 0o700), tt.prepare(dir)); err != nil {
				t.Fatal(err)
			}
			fixtures, err := recording.OpenFixtures(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(fixtures.Close)
			p.Fixtures = fixtures
			_, err = p.Play(t.Context(), []recording.Exchange{{Command: "help", Release: true}})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want+filepath.Join(dir, "go")) {
				t.Errorf("Play() = %v, want the error %q of the gate file", err, tt.want)
			}
		})
	}
}

func TestPlayOverMQTT(t *testing.T) {
	p, b := newPlayer(t)
	p.Tunnel = recording.MQTT
	p.Broker = mqtt.New(&mqtt.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
	if err := p.Broker.AddHook(new(auth.AllowHook), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Broker.Subscribe("koupleless_dev/b1/health", 1,
		func(*mqtt.Client, packets.Subscription, packets.Packet) {
			client := &mqtt.Client{ID: "koupleless@@@b1"}
			for _, topic := range []string{"heart", "queryBaseline", "health"} {
				pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
					TopicName: "koupleless_dev/b1/base/" + topic, Payload: []byte("{}")}
				if _, err := b.tap.OnPacketRead(client, pk); err != nil {
					t.Error(err)
				}
			}
		}); err != nil {
		t.Fatal(err)
	}
	got, err := p.Play(t.Context(),
		[]recording.Exchange{{Command: "health", Body: "{}"}, {Command: "help", NoAnswer: true}})
	if err != nil {
		t.Fatal(err)
	}
	want := []recording.Exchange{
		{Command: "health", Body: "{}", Messages: []recording.Message{{Topic: "base/health", Payload: "{}"}}},
		{Command: "help", NoAnswer: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
	<-b.tap.Subscribed
}

func TestPlayPhases(t *testing.T) {
	p, b := newPlayer(t)
	got, err := p.PlayPhases(t.Context(), b,
		[]recording.Phase{{Event: recording.Start, Exchanges: []recording.Exchange{{Command: "help"}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []recording.Phase{{
		Event: recording.Start, Sent: []recording.Sent{{What: "POST /heartbeat"}},
		Exchanges: []recording.Exchange{{Command: "help", Answer: "HTTP/1.1 200 OK\r\n\r\n/help "}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
}

// environment is an Environment whose methods call the fields.
type environment struct {
	apply, ready func() error
}

func (e environment) Apply(context.Context, recording.Event) error { return e.apply() }
func (e environment) Ready(context.Context) error                  { return e.ready() }
func (environment) Listens() bool                                  { return true }

// TestPlayPhasesErrors checks that PlayPhases returns an error with the number and the event of the phase that failed.
func TestPlayPhasesErrors(t *testing.T) {
	errFailed := errors.New("failed")
	for name, tt := range map[string]struct {
		apply func(b *base, cancel func()) error
		ready error
		phase recording.Phase
		want  error
	}{
		"event failed": {func(*base, func()) error { return errFailed }, nil,
			recording.Phase{Event: recording.Kill}, errFailed},
		"base not ready": {func(b *base, _ func()) error { return b.Apply(t.Context(), recording.Start) }, errFailed,
			recording.Phase{Event: recording.Start}, errFailed},
		"no heartbeat until ctx ends": {func(_ *base, cancel func()) error { cancel(); return nil }, nil,
			recording.Phase{Event: recording.Start, Seconds: 3600}, context.Canceled},
		"phase not over until ctx ends": {func(_ *base, cancel func()) error { cancel(); return nil }, nil,
			recording.Phase{Event: recording.BrokerStops, Seconds: 3600}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			p, b := newPlayer(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			env := environment{func() error { return tt.apply(b, cancel) }, func() error { return tt.ready }}
			played, err := p.PlayPhases(ctx, env, []recording.Phase{tt.phase})
			if want := "phase 1 (" + string(tt.phase.Event) + "): " + tt.want.Error(); !errors.Is(err, tt.want) ||
				err.Error() != want || played != nil {
				t.Errorf("PlayPhases() = %v, %v; want the error %q", played, err, want)
			}
		})
	}
}
