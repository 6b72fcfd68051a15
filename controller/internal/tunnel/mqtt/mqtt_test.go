package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"
	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

const testTimeout = 2 * time.Minute

// startBroker starts a broker on an address ("127.0.0.1:0" selects a free port). It returns the address and a
// function that stops the broker.
func startBroker(t *testing.T, addr string) (string, func()) {
	t.Helper()
	s := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler), InlineClient: false})
	if err := s.AddHook(new(auth.AllowHook), nil); err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	waitFor(t, "the broker's address", func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	if err := s.AddListener(listeners.NewNet("t", l)); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { _ = s.Close() }) // the error does not matter
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// waitFor polls until f returns nil. After a timeout, it fails the test with the last error.
func waitFor(t *testing.T, what string, f func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testTimeout); ; <-tick.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// recorder is a Handler that records its calls, one line for each call.
type recorder struct {
	lines    chan string
	baseline []arklet.Module
}

func newRecorder() *recorder { return &recorder{lines: make(chan string, 100)} }

func (h *recorder) recordf(from tunnel.Origin, format string, args ...any) {
	h.lines <- from.Identity + ": " + fmt.Sprintf(format, args...)
}

func (h *recorder) Heartbeat(from tunnel.Origin, b arklet.Heartbeat) {
	h.recordf(from, "heartbeat of %s:%s, active %t", b.Name, b.Version, b.Active)
}

func (h *recorder) BaselineQuery(from tunnel.Origin, m arklet.Metadata) []arklet.Module {
	h.recordf(from, "baseline query of %s:%s", m.Name, m.Version)
	return h.baseline
}

func (h *recorder) Health(from tunnel.Origin, d arklet.Health) {
	h.recordf(from, "health, metaspace max %d", d.MetaspaceMax)
}

func (h *recorder) BizList(from tunnel.Origin, list []arklet.Biz) {
	h.recordf(from, "%d modules at %d", len(list), from.At.UnixMilli())
}

func (h *recorder) Answer(from tunnel.Origin, a arklet.Answer) {
	h.recordf(from, "%s of %s: %s at %d", a.Command, a.Module.Identity(), a.Code, a.PublishedAt.UnixMilli())
}

func (h *recorder) BatchAnswer(from tunnel.Origin, r arklet.BatchResult) {
	h.recordf(from, "batch: %s", r.Code)
}

func (h *recorder) Unanswered(from tunnel.Origin, r arklet.Request, err error) {
	h.recordf(from, "%s unanswered: %v", r.Command, err)
}

func (h *recorder) Rejected(from tunnel.Origin, kind string, reason tunnel.Rejection, _ error) {
	h.recordf(from, "%s rejected: %s", kind, reason)
}

func (h *recorder) want(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-h.lines:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("handler calls (-want +got):\n%s", diff)
		}
	case <-time.After(testTimeout):
		t.Fatalf("no handler call, want %q", want)
	}
}

// startTunnel starts a tunnel and waits until the tunnel is connected. The tunnel runs until the test ends.
func startTunnel(t *testing.T, addr string, h *recorder, onConnected func()) *Tunnel {
	t.Helper()
	return startTunnelWith(t, Options{Broker: "tcp://" + addr, OnConnected: onConnected}, h)
}

func startTunnelWith(t *testing.T, o Options, h *recorder) *Tunnel {
	t.Helper()
	o.ClientID, o.Env = "koupleless@@@c1", "Dev"
	tun := New(o, h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tun.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("tunnel: %v", err)
		}
	})
	return tun
}

// testClient is a plain MQTT client for tests.
func testClient(t *testing.T, addr string) paho.Client {
	t.Helper()
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(t.Name()).SetAutoReconnect(
		false))
	if token := c.Connect(); !token.WaitTimeout(testTimeout) || token.Error() != nil {
		t.Fatalf("connecting: %v", token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}

func publish(t *testing.T, c paho.Client, topic string, retained bool, payload string) {
	t.Helper()
	if token := c.Publish(topic, 1, retained, payload); !token.WaitTimeout(testTimeout) || token.Error() != nil {
		t.Fatalf("publishing to %s: %v", topic, token.Error())
	}
}

// signal returns two functions. The first one may be called any number of times. The second one waits until the first
// one has been called.
func signal() (call func(), wait func(*testing.T)) {
	c := make(chan struct{}, 10)
	return func() { c <- struct{}{} }, func(t *testing.T) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(testTimeout):
			t.Fatal("not connected")
		}
	}
}

func TestMessagesOfBases(t *testing.T) {
	addr, _ := startBroker(t, "127.0.0.1:0")
	h := newRecorder()
	connected, wait := signal()
	startTunnel(t, addr, h, connected)
	wait(t)
	base := testClient(t, addr)
	for _, c := range []struct{ kind, payload, want string }{
		{"heart", `{"data":{"baseMetadata":{"identity":"a","name":"base","version":"1.0.0"},"state":"activated"},"publishTimestamp":1}`, "heartbeat of base:1.0.0, active true"},
		{"heart", `{"data":{"masterBizInfo":{"name":"base","version":"0.9"},"state":"ACTIVATED"},"publishTimestamp":1}`,
			"heartbeat of base:0.9, active true"},
		{"health", `{"data":{"code":"SUCCESS","data":{"healthData":{"jvm":{"java max metaspace":7}}}},"publishTimestamp":1}`, "health, metaspace max 7"},
		{"simpleBiz", `{"data":[{"name":"biz1","version":"1","state":"activated","latestStateRecord":null}],"publishTimestamp":1732096800000}`, "1 modules at 1732096800000"},
		{"biz", `{"data":{"code":"SUCCESS","data":[]},"publishTimestamp":5}`, "0 modules at 5"},
		{"bizOperation", `{"data":{"command":"installBiz","bizName":"biz1","bizVersion":"1","response":{"code":"SUCCESS"}},"publishTimestamp":9}`, "installBiz of biz1:1: SUCCESS at 9"},
		{"batchInstallBizResponse",
			`{"data":{"command":"batchInstallBiz","response":{"code":"FAILED"}},"publishTimestamp":1}`,
			"batch: FAILED"},

		{"heart", `{"data":{"baseMetadata":{"identity":"b"},"state":"activated"},"publishTimestamp":1}`,
			"heart rejected: wrong-identity"},
		{"queryBaseline", `{"data":{"identity":"b"},"publishTimestamp":1}`, "queryBaseline rejected: wrong-identity"},
		{"heart", `{"data":{"baseMetadata":{"identity":"a"},"localIP":"unknown","state":"activated"},"publishTimestamp":1}`, "heart rejected: wrong-address"},
		{"heart", `{"data":{"baseMetadata":{"identity":"a"},"localIP":"127.0.0.1","state":"activated"},"publishTimestamp":1}`, "heart rejected: wrong-address"},
		{"heart", `{"data":{"baseMetadata":{"identity":"a"},"localIP":"10.1.2.3","state":"activated"},"publishTimestamp":253402300800000}`, "heart rejected: beyond-limits"},
		{"heart", `{"data":{"baseMetadata":{"identity":"a","name":"` + strings.Repeat("x", arklet.MaxName+1) +
			`"},"state":"activated"},"publishTimestamp":1}`, "heart rejected: beyond-limits"},
		{"heart", `{"data":`, "heart rejected: malformed"},
		{"health", ``, "health rejected: malformed"},
		{"simpleBiz", `{"data":{},"publishTimestamp":1}`, "simpleBiz rejected: malformed"},
		{"bizOperation", `{"data":{"command":"installBiz"},"publishTimestamp":1}`, "bizOperation rejected: malformed"},
		{"heart", `{"data":"` + strings.Repeat("x", arklet.MaxPayload) + `"}`, "heart rejected: oversized"},
		{"gossip", `{"data":{},"publishTimestamp":1}`, "gossip rejected: unexpected"},
	} {
		publish(t, base, "koupleless_dev/a/base/"+c.kind, false, c.payload)
		h.want(t, "a: "+c.want)
	}
	publish(t, base, "koupleless_dev/a/base/simpleBiz", false,
		`{"data":[{"name":"bad","version":"`+strings.Repeat("9", arklet.MaxName+1)+
			`"},{"name":"biz1","version":"1"}],"publishTimestamp":7}`)
	h.want(t, "a: 1 modules at 7") // the valid part of a list
	h.want(t, "a: simpleBiz rejected: beyond-limits")
}

// TestIdentitiesInTopics checks that a message whose topic contains an invalid identity is rejected, and that the
// rejection does not contain the identity.
func TestIdentitiesInTopics(t *testing.T) {
	tun := New(Options{Env: "dev"}, newRecorder())
	long := strings.Repeat("x", arklet.MaxIdentity)
	for topic, want := range map[string]string{
		"koupleless_dev/a/base/heart":             "a heart",
		"koupleless_dev/10.1.2.3/base/heart":      "10.1.2.3 heart",
		"koupleless_dev/" + long + "/base/heart":  long + " heart",
		"koupleless_dev/x" + long + "/base/heart": "refused",
		"koupleless_dev/a/b/base/heart":           "refused",
		"koupleless_dev/a/base/b/base/heart":      "refused",
		"koupleless_dev//base/heart":              "refused",
		"koupleless_dev/a\x00/base/heart":         "refused",
		"koupleless_dev/a\xff/base/heart":         "refused",
		"koupleless_dev/a/base/" + long + "y":     "a other",
		"koupleless_dev/a/base/\n":                "a other",
		"koupleless_dev/a/heart":                  "",
		"koupleless_prod/a/base/heart":            "",
	} {
		identity, kind, ok, err := tun.parseTopic(topic)
		got := identity + " " + kind
		switch {
		case !ok:
			got = ""
		case errors.Is(err, arklet.ErrLimit):
			got = "refused"
		}
		if got != want {
			t.Errorf("%.60q: %.60q, want %.60q", topic, got, want)
		}
	}
	addr, _ := startBroker(t, "127.0.0.1:0")
	h := newRecorder()
	connected, wait := signal()
	startTunnel(t, addr, h, connected)
	wait(t)
	publish(t, testClient(t, addr), "koupleless_dev/x"+long+"/base/heart", false,
		`{"data":{"masterBizInfo":{"name":"base"}},"publishTimestamp":1}`)
	h.want(t, ": heart rejected: beyond-limits")
}

// TestAddressesOverMQTT checks that the tunnel reports the address of a base in the form that Kubernetes uses. If
// networks are configured, the address must be in one of them.
func TestAddressesOverMQTT(t *testing.T) {
	networks, err := tunnel.ParseNetworks("10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	for ip, want := range map[string]string{"::ffff:10.1.2.3": "10.1.2.3", "10.1.2.3": "10.1.2.3", "": "",
		"127.0.0.1": "rejected", "010.1.2.3": "rejected", "192.168.1.1": "rejected"} {
		got := "rejected"
		h := &addresses{newRecorder(), &got}
		reason, _ := New(Options{Networks: networks}, h).dispatch(tunnel.Origin{Identity: "a"}, "heart",
			[]byte(`{"baseMetadata":{"identity":"a"},"localIP":"`+ip+`"}`))
		if got != want || (reason == tunnel.WrongAddress) != (want == "rejected") {
			t.Errorf("%q is reported as %q (%s), want %q", ip, got, reason, want)
		}
	}
}

type addresses struct {
	*recorder
	told *string
}

func (a *addresses) Heartbeat(_ tunnel.Origin, b arklet.Heartbeat) { *a.told = b.IP }

// TestSlowHandlerDoesNotBlockReading checks that a slow handler does not block the goroutine that reads from the
// connection.
func TestSlowHandlerDoesNotBlockReading(t *testing.T) {
	addr, _ := startBroker(t, "127.0.0.1:0")
	h := &slowRecorder{recorder: newRecorder(), goOn: make(chan struct{})}
	connected, wait := signal()
	tun := New(Options{Broker: "tcp://" + addr, ClientID: "c", Env: "dev", OnConnected: connected}, h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tun.Start(ctx) }()
	wait(t)
	base := testClient(t, addr)
	for range 3 {
		publish(t, base, "koupleless_dev/slow/base/queryBaseline", false,
			`{"data":{"identity":"slow"},"publishTimestamp":1}`)
		publish(t, base, "koupleless_dev/slow/base/simpleBiz", false, `{"data":[],"publishTimestamp":1}`)
	}
	publish(t, base, "koupleless_dev/a/base/heart", false,
		`{"data":{"masterBizInfo":{"name":"base","version":"1"}},"publishTimestamp":1}`)
	h.want(t, "a: heartbeat of base:1, active true")
	close(h.goOn)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// slowRecorder is a recorder that blocks on module lists and baseline queries.
type slowRecorder struct {
	*recorder
	goOn chan struct{}
}

func (s *slowRecorder) BizList(tunnel.Origin, []arklet.Biz) { <-s.goOn }

func (s *slowRecorder) BaselineQuery(tunnel.Origin, arklet.Metadata) []arklet.Module {
	<-s.goOn
	return nil
}

func TestCommandsAreNotRetained(t *testing.T) {
	addr, _ := startBroker(t, "127.0.0.1:0")
	h := newRecorder()
	connected, wait := signal()
	tun := startTunnel(t, addr, h, connected)
	wait(t)
	base := testClient(t, addr)
	got := make(chan paho.Message, 10)
	if token := base.Subscribe("koupleless_dev/a/+", 1,
		func(_ paho.Client, m paho.Message) { got <- m }); !token.WaitTimeout(testTimeout) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	m := arklet.Module{Name: "biz1", Version: "1", URL: "file:///biz1.jar"}
	if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"},
		arklet.Request{Command: arklet.CommandInstallBiz, Module: m}); err != nil {
		t.Fatal(err)
	}
	select {
	case msg := <-got:
		have := fmt.Sprintf("%s QoS %d %s", msg.Topic(), msg.Qos(), msg.Payload())
		want := `koupleless_dev/a/installBiz QoS 1 {"bizName":"biz1","bizVersion":"1","bizUrl":"file:///biz1.jar"}`
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}
	case <-time.After(testTimeout):
		t.Fatal("the command did not arrive")
	}
	// A client that subscribes later does not receive the command: its first message is the next command.
	later := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID("later"))
	if token := later.Connect(); !token.WaitTimeout(testTimeout) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	defer later.Disconnect(0)
	heard := make(chan string, 10)
	if token := later.Subscribe("koupleless_dev/a/+", 1,
		func(_ paho.Client, m paho.Message) { heard <- m.Topic() }); !token.WaitTimeout(testTimeout) ||
		token.Error() != nil {
		t.Fatal(token.Error())
	}
	if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"},
		arklet.Request{Command: arklet.CommandHealth}); err != nil {
		t.Fatal(err)
	}
	select {
	case topic := <-heard:
		if topic != "koupleless_dev/a/health" {
			t.Errorf("a base that connects later receives %s", topic)
		}
	case <-time.After(testTimeout):
		t.Fatal("the second command did not arrive")
	}
	if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"},
		arklet.Request{Command: arklet.CommandSwitchBiz, Module: m}); !errors.Is(err, tunnel.ErrNotSupported) {
		t.Errorf("switchBiz over MQTT: error %v, want ErrNotSupported", err)
	}
}

func TestRetainedMessagesAreRejected(t *testing.T) {
	addr, _ := startBroker(t, "127.0.0.1:0")
	other := testClient(t, addr)
	publish(t, other, "koupleless_dev/a/base/heart", true,
		`{"data":{"baseMetadata":{"identity":"a"},"state":"activated"},"publishTimestamp":1}`)
	// The broker acknowledges a message before it looks up the subscribers. A client that subscribes in
	// between also receives the message as a new one. The broker handles the messages of one client in order.
	publish(t, other, "done", false, "")
	h := newRecorder()
	startTunnel(t, addr, h, nil)
	h.want(t, "a: heart rejected: retained")
}

func TestBaseline(t *testing.T) {
	addr, _ := startBroker(t, "127.0.0.1:0")
	h := newRecorder()
	h.baseline = []arklet.Module{{Name: "biz1", Version: "1", URL: "file:///biz1.jar"}}
	connected, wait := signal()
	startTunnel(t, addr, h, connected)
	wait(t)
	base := testClient(t, addr)
	got := make(chan string, 1)
	if token := base.Subscribe("koupleless_dev/a/base/baseline", 1,
		func(_ paho.Client, m paho.Message) { got <- string(m.Payload()) }); !token.WaitTimeout(testTimeout) ||
		token.Error() != nil {
		t.Fatal(token.Error())
	}
	publish(t, base, "koupleless_dev/a/base/queryBaseline", false,
		`{"data":{"identity":"a","name":"base","version":"1.0.0"},"publishTimestamp":1}`)
	h.want(t, "a: baseline query of base:1.0.0")
	select {
	case payload := <-got:
		if want := `[{"bizName":"biz1","bizVersion":"1","bizUrl":"file:///biz1.jar"}]`; payload != want {
			t.Errorf("baseline %s, want %s", payload, want)
		}
	case <-time.After(testTimeout):
		t.Fatal("no baseline received")
	}
}

func TestReconnectAfterBrokerRestart(t *testing.T) {
	addr, stop := startBroker(t, "127.0.0.1:0")
	h := newRecorder()
	connected, wait := signal()
	tun := startTunnel(t, addr, h, connected)
	wait(t)
	stop()
	waitFor(t, "the connection to be lost", func() error {
		if tun.Connected() {
			return errors.New("still connected")
		}
		return nil
	})
	err := tun.Send(t.Context(), tunnel.Address{Identity: "a"}, arklet.Request{Command: arklet.CommandHealth})
	if !errors.Is(err, ErrNotConnected) {
		t.Errorf("a command without a broker: error %v, want ErrNotConnected", err)
	}
	startBroker(t, addr)
	wait(t)
	publish(t, testClient(t, addr), "koupleless_dev/a/base/heart", false,
		`{"data":{"baseMetadata":{"identity":"a","name":"base","version":"1"},"state":"activated"},"publishTimestamp":1}`)
	h.want(t, "a: heartbeat of base:1, active true") // subscribed again
}
