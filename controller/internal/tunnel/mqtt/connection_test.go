package mqtt

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/google/go-cmp/cmp"
	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	mochi "github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// aclHook is a broker hook that rejects subscriptions while shut is true.
type aclHook struct {
	broker.HookBase
	shut atomic.Bool
}

func (d *aclHook) Provides(b byte) bool {
	return bytes.IndexByte([]byte{broker.OnConnectAuthenticate, broker.OnACLCheck}, b) >= 0
}

func (d *aclHook) OnConnectAuthenticate(*broker.Client, mochi.Packet) bool { return true }

func (d *aclHook) OnACLCheck(_ *broker.Client, _ string, write bool) bool {
	return write || !d.shut.Load()
}

// serveBroker starts a broker with a hook. The broker runs until the test ends.
func serveBroker(t *testing.T, hook broker.Hook) (*broker.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveBrokerOn(t, l, hook), l.Addr().String()
}

func serveBrokerOn(t *testing.T, l net.Listener, hook broker.Hook) *broker.Server {
	t.Helper()
	s := broker.New(&broker.Options{Logger: slog.New(slog.DiscardHandler), InlineClient: true})
	if err := s.AddHook(hook, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.AddListener(listeners.NewNet("t", l)); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the error does not matter
	return s
}

func TestRefusedSubscription(t *testing.T) {
	d := &aclHook{}
	d.shut.Store(true)
	_, addr := serveBroker(t, d)
	h := newRecorder()
	connected, wait := signal()
	tun := startTunnel(t, addr, h, connected)
	waitFor(t, "the refusal", func() error {
		if err := tun.ConnectionError(); !errors.Is(err, ErrRefused) {
			return fmt.Errorf("connection error: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if tun.Connected() {
		t.Error("a tunnel without a subscription is connected")
	}
	if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"},
		arklet.Request{Command: arklet.CommandHealth}); !errors.Is(err, ErrNotConnected) {
		t.Errorf("a command without a subscription: error %v, want ErrNotConnected", err)
	}
	d.shut.Store(false)
	wait(t)
	if err := tun.ConnectionError(); err != nil {
		t.Errorf("connection error after the subscription: %v", err)
	}
	publish(t, testClient(t, addr), "koupleless_dev/a/base/heart", false,
		`{"data":{"baseMetadata":{"identity":"a","name":"base","version":"1"},"state":"activated"},"publishTimestamp":1}`)
	h.want(t, "a: heartbeat of base:1, active true")
}

func TestKeepAlive(t *testing.T) {
	for _, notice := range []time.Duration{minDetectWithin, 5 * time.Second, 10 * time.Second, defaultDetectWithin} {
		k, timeout := keepAlive(notice)
		if k < time.Second || timeout < time.Second || k%time.Second != 0 {
			t.Errorf("for %s: ping after %s, answer within %s", notice, k, timeout)
		}
		if at := k*5/4 + timeout + k/4; at > notice {
			t.Errorf("for %s: detected after %s", notice, at)
		}
	}
	if defaultDetectWithin > 15*time.Second {
		t.Errorf("detected after %s by default, want at most 15 s", defaultDetectWithin)
	}
}

// blackhole starts a relay to a broker. After the call of cease, the relay drops all data in both directions without
// closing the connections.
func blackhole(t *testing.T, to string) (addr string, cease func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var ceased atomic.Bool
	carry := func(to, from net.Conn) {
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				if !ceased.Load() {
					_ = to.Close()
				}
				return
			}
			if ceased.Load() {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = in.Close() })
			if ceased.Load() {
				continue
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = out.Close() })
			go carry(in, out)
			go carry(out, in)
		}
	}()
	return l.Addr().String(), func() { ceased.Store(true) }
}

func TestHalfOpenConnectionIsClosed(t *testing.T) {
	_, to := serveBroker(t, &aclHook{})
	addr, cease := blackhole(t, to)
	connected, wait := signal()
	tun := startTunnelWith(t, Options{Broker: "tcp://" + addr, DetectWithin: minDetectWithin, OnConnected: connected},
		newRecorder())
	wait(t)
	cease()
	waitFor(t, "the end of the connection", func() error {
		if tun.Connected() {
			return errors.New("still connected")
		}
		return nil
	})
}

// acceptSubscriber accepts one MQTT connection and its subscription. It returns the connection, and a function that
// reads the next packet after the subscription.
func acceptSubscriber(t *testing.T, l net.Listener) (conn net.Conn, next func() packets.ControlPacket) {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	next = func() packets.ControlPacket {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
			t.Fatal(err)
		}
		p, err := packets.ReadPacket(conn)
		if err != nil {
			t.Fatalf("reading from the tunnel: %v", err)
		}
		return p
	}
	answer := func(p packets.ControlPacket) {
		t.Helper()
		if err := p.Write(conn); err != nil {
			t.Fatal(err)
		}
	}
	if _, is := next().(*packets.ConnectPacket); !is {
		t.Fatal("the first packet is not a CONNECT")
	}
	answer(packets.NewControlPacket(packets.Connack))
	subscribe, is := next().(*packets.SubscribePacket)
	if !is {
		t.Fatal("the second packet is not a SUBSCRIBE")
	}
	ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	ack.MessageID, ack.ReturnCodes = subscribe.MessageID, []byte{1}
	answer(ack)
	return conn, next
}

// TestUnacknowledgedCommandIsNotResent checks that a command that the broker did not acknowledge is not resent over
// the next connection. The base may have executed the command, or the caller may have stopped waiting.
func TestUnacknowledgedCommandIsNotResent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connected, wait := signal()
	tun := startTunnel(t, l.Addr().String(), newRecorder(), connected)
	send := func(command arklet.Command) {
		t.Helper()
		if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"}, arklet.Request{Command: command}); err != nil {
			t.Fatal(err)
		}
	}
	published := func(next func() packets.ControlPacket) string {
		t.Helper()
		for {
			switch p := next().(type) {
			case *packets.PublishPacket:
				if p.TopicName != tun.echoTopic() {
					return p.TopicName
				}
			case *packets.PingreqPacket:
			default:
				t.Fatalf("received %T, want a PUBLISH", p)
			}
		}
	}
	conn, next := acceptSubscriber(t, l)
	wait(t)
	send(arklet.CommandUninstallBiz)
	if diff := cmp.Diff("koupleless_dev/a/uninstallBiz", published(next)); diff != "" {
		t.Errorf("packets on the first connection (-want +got):\n%s", diff)
	}
	if err := conn.Close(); err != nil { // without PUBACK
		t.Fatal(err)
	}
	_, next = acceptSubscriber(t, l)
	wait(t)
	send(arklet.CommandHealth)
	if diff := cmp.Diff("koupleless_dev/a/health", published(next)); diff != "" {
		t.Errorf("first packet on the second connection (-want +got):\n%s", diff)
	}
}

// refusingHook is a broker hook that refuses the first subscription to commands.
type refusingHook struct {
	aclHook
	asked atomic.Int32
}

func (f *refusingHook) OnACLCheck(_ *broker.Client, topic string, write bool) bool {
	return write || topic != "koupleless_dev/+/+" || f.asked.Add(1) > 1
}

func TestRetainedCommandsAreCleared(t *testing.T) {
	s, addr := serveBroker(t, &refusingHook{})
	for _, topic := range []string{"koupleless_dev/a/installBiz", "koupleless_dev/b/health",
		"koupleless_dev/a/base/baseline", "koupleless_test/a/installBiz"} {
		if err := s.Publish(topic, []byte(`{}`), true, 1); err != nil {
			t.Fatal(err)
		}
	}
	startTunnelWith(t, Options{Broker: "tcp://" + addr, ClearRetained: true}, newRecorder())
	waitFor(t, "the retained commands of dev to go", func() error {
		var left []string
		for topic := range s.Topics.Retained.GetAll() {
			if topic != "$SYS" && topic[0] != '$' {
				left = append(left, topic)
			}
		}
		if diff := cmp.Diff([]string{"koupleless_test/a/installBiz"}, left); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// TestMessagesWithoutSubscriptionAreAcknowledged checks that the tunnel acknowledges messages that a broker sends
// after the tunnel has unsubscribed. Unacknowledged messages would count toward the in-flight limit of the broker.
func TestMessagesWithoutSubscriptionAreAcknowledged(t *testing.T) {
	s, addr := serveBroker(t, &aclHook{})
	connected := make(chan struct{}, 1)
	tun := startTunnelWith(t, Options{Broker: "tcp://" + addr, OnConnected: func() { connected <- struct{}{} }},
		newRecorder())
	<-connected
	client, topic := idsOfTunnel(s)[0], "koupleless_dev/a/health"
	s.Topics.Subscribe(client, mochi.Subscription{Filter: topic, Qos: 1})
	for range 30 {
		if err := s.Publish(topic, []byte(`{}`), false, 1); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "all to be sent and acknowledged", func() error {
		cl, there := s.Clients.Get(client)
		if !there {
			return tun.ConnectionError()
		}
		if sent, n := s.Info.Clone().MessagesSent, cl.State.Inflight.Len(); sent < 30 || n > 0 {
			return fmt.Errorf("%d messages were sent, %d are in flight", sent, n)
		}
		return nil
	})
}

// idsOfTunnel returns the MQTT client IDs of all connected tunnels.
func idsOfTunnel(s *broker.Server) (ids []string) {
	for id := range s.Clients.GetAll() {
		if strings.HasPrefix(id, "koupleless@@@c1-") {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestRejectedClientID checks that if the broker rejects the client ID, the error contains the ID and the name of the
// setting.
func TestRejectedClientID(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := packets.ReadPacket(conn); err == nil {
			_, _ = conn.Write([]byte{packets.Connack << 4, 2, 0, packets.ErrRefusedIDRejected})
		}
	}()
	tun := New(Options{Broker: "tcp://" + l.Addr().String(), ClientID: "koupleless@@@c1", Env: "dev"}, newRecorder())
	_, err = tun.serve(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"koupleless@@@c1"`) || !strings.Contains(err.Error(), "23") ||
		!strings.Contains(err.Error(), "MQTT_CLIENT_PREFIX") {
		t.Errorf("error %v", err)
	}
}

// TestClientIDIsRandom checks that each connection has a new random client ID. A broker disconnects a client if
// another client connects with the same ID, so other clients must not know the ID of a controller.
func TestClientIDIsRandom(t *testing.T) {
	s, addr := serveBroker(t, &aclHook{})
	connected, wait := signal()
	h := newRecorder()
	startTunnel(t, addr, h, connected)
	wait(t)
	first := idsOfTunnel(s)
	if len(first) != 1 || len(first[0]) != len("koupleless@@@c1-")+randomID {
		t.Fatalf("client IDs of the tunnel: %q", first)
	}
	other := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(
		"koupleless@@@c1").SetAutoReconnect(false))
	if token := other.Connect(); !token.WaitTimeout(testTimeout) || token.Error() != nil {
		t.Fatalf("connecting: %v", token.Error())
	}
	t.Cleanup(func() { other.Disconnect(0) })
	publish(t, other, "koupleless_dev/a/base/heart", false,
		`{"data":{"baseMetadata":{"identity":"a","name":"base","version":"1"},"state":"activated"},"publishTimestamp":1}`)
	h.want(t, "a: heartbeat of base:1, active true")
	if diff := cmp.Diff(first, idsOfTunnel(s)); diff != "" {
		t.Fatalf("another client has closed the connection of the tunnel (-before +after):\n%s", diff)
	}
	c, _ := s.Clients.Get(first[0])
	c.Stop(errors.New("the broker ends the connection"))
	wait(t)
	waitFor(t, "only the second connection to be left", func() error {
		if again := idsOfTunnel(s); len(again) != 1 || again[0] == first[0] {
			return fmt.Errorf("client IDs after a second connection: %q, want another ID than %q", again, first)
		}
		return nil
	})
}
