package fakebase

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
)

// message is a message that the test controller has received.
type message struct {
	topic   string
	payload []byte
}

// testBroker is an MQTT broker with a client that acts as the controller. Its connections are in memory, so that they
// work in a synctest bubble.
type testBroker struct {
	t        *testing.T
	broker   *broker.Server
	client   paho.Client
	messages chan message
}

func newTestBroker(t *testing.T) *testBroker {
	t.Helper()
	w := &testBroker{t: t, messages: make(chan message, 10000)}
	w.broker = broker.New(&broker.Options{InlineClient: true, Logger: slog.New(slog.DiscardHandler)})
	if err := w.broker.AddHook(new(auth.AllowHook), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.broker.Serve(); err != nil {
		t.Fatal(err)
	}
	w.client = paho.NewClient(paho.NewClientOptions().
		SetClientID("controller").SetAutoReconnect(false).AddBroker("tcp://broker:1").
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			return w.dial(context.Background())
		}))
	w.must(w.client.Connect())
	w.must(w.client.Subscribe("#", 1, func(_ paho.Client, m paho.Message) {
		w.messages <- message{m.Topic(), m.Payload()}
	}))
	t.Cleanup(func() {
		w.client.Disconnect(0)
		_ = w.broker.Close()
	})
	return w
}

func (w *testBroker) must(token paho.Token) {
	w.t.Helper()
	if !token.WaitTimeout(30*time.Second) || token.Error() != nil {
		w.t.Fatalf("MQTT client of the controller: %v", token.Error())
	}
}

// dial returns an in-memory connection to the broker.
func (w *testBroker) dial(context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { _ = w.broker.EstablishConnection("memory", server) }()
	return client, nil
}

// send publishes a command on a topic of a base.
func (w *testBroker) send(topic, payload string) {
	w.t.Helper()
	w.must(w.client.Publish(topic, 1, false, payload))
}

// next waits for the next message whose topic ends with suffix, and returns it. It discards other messages.
func (w *testBroker) next(suffix string) []byte {
	w.t.Helper()
	limit := time.After(10 * time.Minute)
	for {
		select {
		case m := <-w.messages:
			if len(m.topic) >= len(suffix) && m.topic[len(m.topic)-len(suffix):] == suffix {
				return m.payload
			}
		case <-limit:
			w.t.Fatalf("no message on %q within 10 minutes", suffix)
		}
	}
}

// data waits for the next message whose topic ends with suffix, and returns its field data.
func (w *testBroker) data(suffix string) map[string]any {
	w.t.Helper()
	var env struct {
		Data map[string]any `json:"data"`
	}
	if err := json.Unmarshal(w.next(suffix), &env); err != nil {
		w.t.Fatal(err)
	}
	return env.Data
}

// start creates a base and runs it until the test ends.
func start(t *testing.T, opts Options) *Base {
	t.Helper()
	b, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	startBase(t, b)
	return b
}

// startBase runs an existing base until the test ends.
func startBase(t *testing.T, b *Base) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
}

// runInBubble runs a subtest in a synctest bubble.
func runInBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
