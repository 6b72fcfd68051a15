package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"
	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
)

var fullSoak = flag.Bool("soak", false,
	"send all messages of the hostile base, which takes 90 s of CPU time")

// scaled returns n with the flag -soak, and n/10 without it.
func scaled(n int) int {
	if *fullSoak {
		return n
	}
	return n / 10
}

// Numbers of messages, bases and connections in the soak test.
const (
	soakMessages   = 50_000 // over MQTT, scaled
	soakOverHTTP   = 5_000  // scaled
	soakIdentities = 1_000
	soakBases      = 300 // maximum number of bases
	soakPerAddress = 5
	soakSenders    = 4 // connections of the hostile base
	soakGood       = 5 // other bases over MQTT
	// inFlight is the maximum number of messages that the broker has not delivered yet. Above it, the sender waits,
	// because this test does not test the limits of the broker.
	inFlight = 100
)

// TestSoakWithHostileBase runs a hostile base that sends 50,000 messages (5,000 without -soak) for 1,000 identities,
// as fast as the controller reads them. The controller must still receive the heartbeats of the other bases over both
// tunnels, and must not change their Nodes.
func TestSoakWithHostileBase(t *testing.T) {
	w := newSoak(t)
	w.heartbeats(0)
	uids := w.nodes()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var senders sync.WaitGroup
	var sent atomic.Int64
	for i := range soakSenders {
		senders.Go(func() {
			w.hostileMQTT(ctx, newMessageGenerator(uint64(i)), scaled(soakMessages)/soakSenders,
				&sent)
		})
	}
	senders.Go(func() { w.hostileHTTP(ctx, newMessageGenerator(99)) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		senders.Wait()
		w.hostileHTTP(ctx, newMessageGenerator(98)) // again when the number of bases has reached its maximum
	}()

	beats := 1
	for running := true; running; beats++ {
		select {
		case <-ended:
			running = false
		default:
		}
		w.heartbeats(beats)
		w.api.ClearActions() // they would fill the memory
	}
	w.read(ctx)
	if sent.Load() != int64(scaled(soakMessages)) {
		t.Errorf("%d messages were sent, want %d", sent.Load(), scaled(soakMessages))
	}
	if diff := cmp.Diff(uids, w.nodes()); diff != "" {
		t.Errorf("Nodes of other bases (-before +after):\n%s", diff)
	}
	w.rejected()
}

// soak is a controller with a broker, a fake API and some well-behaved bases.
type soak struct {
	*testing.T
	c      *Controller
	api    *soakAPI
	server *broker.Server
	addr   string // address of the broker
	good   paho.Client
	stop   func()
}

// abruptListener is a broker listener that closes without disconnecting its clients. In mochi v2.7.9, closing can
// block indefinitely while a client disconnects.
type abruptListener struct{ *listeners.Net }

func (l abruptListener) Close(listeners.CloseFn) { l.Net.Close(func(string) {}) }

func newSoak(t *testing.T) *soak {
	t.Helper()
	w := &soak{T: t, api: newSoakAPI()}
	limits := broker.NewDefaultServerCapabilities()
	limits.MaximumClientWritesPending = 1 << 16 // as in the broker of the sandbox
	w.server = broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler), Capabilities: limits})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	err = errors.Join(err, w.server.AddHook(new(auth.AllowHook), nil))
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	if err := errors.Join(w.server.AddListener(abruptListener{listeners.NewNet("t", l)}),
		w.server.Serve()); err != nil {
		t.Fatal(err)
	}
	w.c, err = prepare(Options{
		Config: &rest.Config{}, ClientID: "soak", MaxBases: soakBases, MaxBasesPerAddress: soakPerAddress,
		BaseNetworks: "127.0.0.0/8",
		MQTT:         &MQTTOptions{Broker: w.addr},
		HTTP:         &HTTPOptions{Addr: "127.0.0.1:0", Proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.c.wire(w.api, &rest.Config{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := w.c.Start(ctx); err != nil {
			t.Errorf("Start returned %v", err)
		}
	})
	w.stop = sync.OnceFunc(func() {
		if w.good != nil {
			w.good.Disconnect(0)
		}
		cancel()
		parts.Wait()
		_ = w.server.Close() // the error does not matter
		http.DefaultClient.CloseIdleConnections()
		w.api.end()
	})
	t.Cleanup(w.stop)
	w.until("the controller is ready", func() error {
		if w.c.http.Addr() == "" {
			return errors.New("the HTTP tunnel does not listen")
		}
		return w.c.Connected()
	})
	w.good = w.connect("good")
	return w
}

// until polls f until it returns nil, and fails with the last error after a minute.
func (w *soak) until(what string, f func() error) {
	w.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

func (w *soak) connect(name string) paho.Client {
	o := paho.NewClientOptions().AddBroker("tcp://" + w.addr).SetClientID(name).SetAutoReconnect(false).SetOrderMatters(
		false)
	c := paho.NewClient(o)
	if token := c.Connect(); !token.WaitTimeout(30*time.Second) || token.Error() != nil {
		w.Errorf("connecting as %s: %v", name, token.Error())
	}
	return c
}

func goodName(i int) string { return "good-" + strconv.Itoa(i) }

// heartbeats sends one heartbeat from each good base, and waits until the controller has received all of them. The
// host name contains the number of the heartbeat.
func (w *soak) heartbeats(n int) {
	w.Helper()
	host := "beat-" + strconv.Itoa(n)
	for i := range soakGood {
		w.good.Publish("koupleless_dev/"+goodName(i)+"/base/heart", 1, false, fmt.Sprintf(
			`{"data":{"baseMetadata":{"identity":%q,"name":"base","version":"1"},"localIP":"127.0.0.1","localHostName":%q,"state":"activated"},"publishTimestamp":%d}`,
			goodName(i), host, time.Now().UnixMilli()))
	}
	w.post(http.DefaultClient, "/heartbeat",
		fmt.Sprintf(`{"baseMetadata":{"identity":%q,"name":"base","version":"1"},"localIP":"127.0.0.1","localHostName":%q,"port":1238,"state":"activated"}`,
			goodName(soakGood), host))
	w.until("heartbeat "+host+" of all good bases is received", func() error {
		for i := range soakGood + 1 {
			if b, known := w.c.registry.Get(goodName(i)); !known || b.HostName != host || b.Liveness != base.Reachable {
				return fmt.Errorf("base %s: registered %t, %s, last heartbeat %s", goodName(i), known, b.Liveness,
					b.HostName)
			}
		}
		return nil
	})
}

func (w *soak) post(client *http.Client, path, body string) int {
	r, err := client.Post("http://"+w.c.http.Addr()+path, "application/json", strings.NewReader(body))
	if err != nil {
		w.Errorf("posting to %s: %v", path, err)
		return 0
	}
	_, _ = io.Copy(io.Discard, r.Body) // only the status matters
	_ = r.Body.Close()
	return r.StatusCode
}

// nodes waits until the Nodes of the good bases are Ready, and returns their UIDs.
func (w *soak) nodes() map[string]types.UID {
	w.Helper()
	uids := map[string]types.UID{}
	w.until("the good bases have Nodes that are Ready", func() error {
		for i := range soakGood + 1 {
			n, err := w.api.CoreV1().Nodes().Get(w.Context(), vnode.Name(goodName(i)), metav1.GetOptions{})
			if err != nil {
				return err
			}
			ready := false
			for _, c := range n.Status.Conditions {
				ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}
			uids[n.Name] = n.UID
			if !ready {
				return fmt.Errorf("%s is not Ready: %+v", n.Name, n.Status.Conditions)
			}
		}
		return nil
	})
	return uids
}

// read waits until the controller has received all messages, and checks that the broker dropped none.
func (w *soak) read(ctx context.Context) {
	w.until("the controller has received all messages", func() error {
		if n := atomic.LoadInt64(&w.server.Info.Inflight); n != 0 && ctx.Err() == nil {
			return fmt.Errorf("%d messages are in flight", n)
		}
		return nil
	})
	if n, m := atomic.LoadInt64(&w.server.Info.MessagesDropped), atomic.LoadInt64(&w.server.Info.InflightDropped); n+
		m > 0 {
		w.Errorf("the broker dropped %d and %d messages", n, m)
	}
}

// rejected checks that at least one message was rejected for each reason.
func (w *soak) rejected() {
	w.Helper()
	got, want := map[string]bool{}, map[string]bool{}
	for labels := range rejected(w.T, w.c) {
		_, after, _ := strings.Cut(labels, `reason="`)
		reason, _, _ := strings.Cut(after, `"`)
		if strings.Contains(labels, "mqtt") {
			reason = "mqtt " + reason
		}
		got[reason] = true
	}
	for _, reason := range []string{
		"mqtt beyond-limits", "mqtt malformed", "mqtt other-tunnel", "mqtt oversized", "mqtt stale", "mqtt too-many",
		"mqtt unexpected", "mqtt wrong-address", "mqtt wrong-identity",
		"beyond-limits", "malformed", "oversized", "other-tunnel", "too-many-of-address", "wrong-address",
	} {
		want[reason] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("reasons of rejections (-want +got):\n%s", diff)
	}
}
