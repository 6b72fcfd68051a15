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

// doorman is an ACL that lets nobody subscribe while shut.
type doorman struct {
	broker.HookBase
	shut atomic.Bool
}

func (d *doorman) Provides(b byte) bool {
	return bytes.IndexByte([]byte{broker.OnConnectAuthenticate, broker.OnACLCheck}, b) >= 0
}

func (d *doorman) OnConnectAuthenticate(*broker.Client, mochi.Packet) bool { return true }

func (d *doorman) OnACLCheck(_ *broker.Client, _ string, write bool) bool {
	return write || !d.shut.Load()
}

// serveBroker runs a broker with a hook until the test ends.
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
	t.Cleanup(func() { _ = s.Close() }) // it has no error that matters here
	return s
}

func TestARefusedSubscription(t *testing.T) {
	d := &doorman{}
	d.shut.Store(true)
	_, addr := serveBroker(t, d)
	h := newHearing()
	connected, wait := signal()
	tun := startTunnel(t, addr, h, connected)
	waitFor(t, "the refusal", func() error {
		if err := tun.ConnectionError(); !errors.Is(err, ErrRefused) {
			return fmt.Errorf("connErr: %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	if tun.Connected() {
		t.Error("a tunnel that hears no base counts as connected")
	}
	if err := tun.Send(t.Context(), tunnel.Address{Identity: "a"},
		arklet.Request{Command: arklet.CommandHealth}); !errors.Is(err, ErrNotConnected) {
		t.Errorf("a command whose answer nobody would hear: error %v, want ErrNotConnected", err)
	}
	d.shut.Store(false)
	wait(t)
	if err := tun.ConnectionError(); err != nil {
		t.Errorf("connErr after the subscription: %v", err)
	}
	publish(t, person(t, addr), "koupleless_dev/a/base/heart", false,
		`{"data":{"baseMetadata":{"identity":"a","name":"base","version":"1"},"state":"activated"},"publishTimestamp":1}`)
	h.want(t, "a: heartbeat of base:1, active true")
}

func TestHowSoonAHalfOpenConnectionIsNoticed(t *testing.T) {
	for _, notice := range []time.Duration{minDetectWithin, 5 * time.Second, 10 * time.Second, defaultDetectWithin} {
		k, timeout := keepAlive(notice)
		if k < time.Second || timeout < time.Second || k%time.Second != 0 {
			t.Errorf("for %s: ping after %s, answer within %s", notice, k, timeout)
		}
		if at := k*5/4 + timeout + k/4; at > notice {
			t.Errorf("for %s: noticed after %s", notice, at)
		}
	}
	if defaultDetectWithin > 15*time.Second {
		t.Errorf("noticed after %s by default, want 15 s at most", defaultDetectWithin)
	}
}

// mute is a way to a broker that can cease to carry anything, both ways, without an end.
func mute(t *testing.T, to string) (addr string, cease func()) {
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

func TestAHalfOpenConnectionCountsAsLost(t *testing.T) {
	_, to := serveBroker(t, &doorman{})
	addr, cease := mute(t, to)
	connected, wait := signal()
	tun := startTunnelWith(t, Options{Broker: "tcp://" + addr, DetectWithin: minDetectWithin, OnConnected: connected}, newHearing())
	wait(t)
	cease()
	waitFor(t, "the end of the connection", func() error {
		if tun.Connected() {
			return errors.New("still connected")
		}
		return nil
	})
}

// scripted takes one MQTT connection, lets it subscribe, and returns it with the packets that come
// after that.
func scripted(t *testing.T, l net.Listener) (conn net.Conn, next func() packets.ControlPacket) {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	next = func() packets.ControlPacket {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
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
		t.Fatal("the first packet is no CONNECT")
	}
	answer(packets.NewControlPacket(packets.Connack))
	subscribe, is := next().(*packets.SubscribePacket)
	if !is {
		t.Fatal("the second packet is no SUBSCRIBE")
	}
	ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	ack.MessageID, ack.ReturnCodes = subscribe.MessageID, []byte{1}
	answer(ack)
	return conn, next
}

// A command that the broker did not acknowledge is not sent again on the next connection: the base
// may have done it, or whoever asked has given it up.
func TestNoCommandIsSentAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connected, wait := signal()
	tun := startTunnel(t, l.Addr().String(), newHearing(), connected)
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
				t.Fatalf("%T came, want a PUBLISH", p)
			}
		}
	}
	conn, next := scripted(t, l)
	wait(t)
	send(arklet.CommandUninstallBiz)
	if diff := cmp.Diff("koupleless_dev/a/uninstallBiz", published(next)); diff != "" {
		t.Errorf("on the first connection (-want +got):\n%s", diff)
	}
	if err := conn.Close(); err != nil { // without PUBACK
		t.Fatal(err)
	}
	_, next = scripted(t, l)
	wait(t)
	send(arklet.CommandHealth)
	if diff := cmp.Diff("koupleless_dev/a/health", published(next)); diff != "" {
		t.Errorf("first on the second connection (-want +got):\n%s", diff)
	}
}

// fickle is a broker that refuses the first subscription to commands.
type fickle struct {
	doorman
	asked atomic.Int32
}

func (f *fickle) OnACLCheck(_ *broker.Client, topic string, write bool) bool {
	return write || topic != "koupleless_dev/+/+" || f.asked.Add(1) > 1
}

func TestRetainedCommandsAreCleared(t *testing.T) {
	s, addr := serveBroker(t, &fickle{})
	for _, topic := range []string{"koupleless_dev/a/installBiz", "koupleless_dev/b/health",
		"koupleless_dev/a/base/baseline", "koupleless_test/a/installBiz"} {
		if err := s.Publish(topic, []byte(`{}`), true, 1); err != nil {
			t.Fatal(err)
		}
	}
	startTunnelWith(t, Options{Broker: "tcp://" + addr, ClearRetained: true}, newHearing())
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

// A broker may still send what the tunnel asks for no more. While that is not acknowledged, it counts
// against what the broker lets be on its way.
func TestWhatNobodyAsksForIsAcknowledged(t *testing.T) {
	s, addr := serveBroker(t, &doorman{})
	connected := make(chan struct{}, 1)
	tun := startTunnelWith(t, Options{Broker: "tcp://" + addr, OnConnected: func() { connected <- struct{}{} }},
		newHearing())
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
			return fmt.Errorf("%d messages were sent, %d are on their way", sent, n)
		}
		return nil
	})
}

// idsOfTunnel returns the MQTT client ids of the connected tunnels.
func idsOfTunnel(s *broker.Server) (ids []string) {
	for id := range s.Clients.GetAll() {
		if strings.HasPrefix(id, "koupleless@@@c1-") {
			ids = append(ids, id)
		}
	}
	return ids
}

// The error of a broker that refuses the client id names the id and the setting.
func TestTheClientIDIsRefused(t *testing.T) {
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
	tun := New(Options{Broker: "tcp://" + l.Addr().String(), ClientID: "koupleless@@@c1", Env: "dev"}, newHearing())
	_, err = tun.serve(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"koupleless@@@c1"`) || !strings.Contains(err.Error(), "23") ||
		!strings.Contains(err.Error(), "MQTT_CLIENT_PREFIX") {
		t.Errorf("error %v", err)
	}
}

// A broker disconnects a client if another one connects with its id. Other clients cannot know the id of a
// controller, because each connection has a new id.
func TestTheClientIDIsRandom(t *testing.T) {
	s, addr := serveBroker(t, &doorman{})
	connected, wait := signal()
	h := newHearing()
	startTunnel(t, addr, h, connected)
	wait(t)
	first := idsOfTunnel(s)
	if len(first) != 1 || len(first[0]) != len("koupleless@@@c1-")+randomID {
		t.Fatalf("client ids of the tunnel: %q", first)
	}
	other := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(
		"koupleless@@@c1").SetAutoReconnect(false))
	if token := other.Connect(); !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("connecting: %v", token.Error())
	}
	t.Cleanup(func() { other.Disconnect(0) })
	publish(t, other, "koupleless_dev/a/base/heart", false,
		`{"data":{"baseMetadata":{"identity":"a","name":"base","version":"1"},"state":"activated"},"publishTimestamp":1}`)
	h.want(t, "a: heartbeat of base:1, active true")
	if diff := cmp.Diff(first, idsOfTunnel(s)); diff != "" {
		t.Fatalf("another client has ended the connection of the tunnel (-before +after):\n%s", diff)
	}
	c, _ := s.Clients.Get(first[0])
	c.Stop(errors.New("the broker ends the connection"))
	wait(t)
	waitFor(t, "only the second connection to be left", func() error {
		if again := idsOfTunnel(s); len(again) != 1 || again[0] == first[0] {
			return fmt.Errorf("client ids after a second connection: %q, want one other than %q", again, first)
		}
		return nil
	})
}
