package recording_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
