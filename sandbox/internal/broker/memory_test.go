package broker_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// dial opens an in-memory connection that is closed at the end of the test.
func dial(t testing.TB, b *broker.Broker) net.Conn {
	t.Helper()
	conn, err := b.Dial(t.Context())
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.Must(t, conn.SetDeadline(time.Now().Add(waitTimeout)))
	return conn
}

// send encodes and writes a packet.
func send(t testing.TB, conn net.Conn, encode func(*bytes.Buffer) error) {
	t.Helper()
	var buf bytes.Buffer
	check.Must(t, encode(&buf))
	if _, err := conn.Write(buf.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// expect reads len(want) bytes and compares them with want.
func expect(t testing.TB, conn net.Conn, want ...byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatalf("no % x: %v", want, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("% x instead of % x", got, want)
	}
}

// expectEnd checks that the broker closes the connection. It blocks until the broker has done so.
func expectEnd(t testing.TB, conn net.Conn) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("read %d bytes and %v instead of the end", n, err)
	}
}

func hello(l login, change func(*packets.Packet)) func(*bytes.Buffer) error {
	pk := &packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 4,
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), Clean: true, Keepalive: 60, ClientIdentifier: l.id,
			UsernameFlag: true, Username: []byte(l.user), PasswordFlag: true, Password: []byte(l.password),
		},
	}
	if change != nil {
		change(pk)
	}
	return pk.ConnectEncode
}

func message(id uint16, topic string) func(*bytes.Buffer) error {
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, ProtocolVersion: 4,
		PacketID: id, TopicName: topic, Payload: make([]byte, 500)}
	return pk.PublishEncode
}

func subscription(id uint16, filter string) func(*bytes.Buffer) error {
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, ProtocolVersion: 4,
		PacketID: id, Filters: packets.Subscriptions{{Filter: filter, Qos: 1}}}
	return pk.SubscribeEncode
}

func TestInMemoryAuthentication(t *testing.T) {
	b := run(t, broker.Options{})
	good := b.Passwords()
	for _, tc := range []struct {
		name   string
		login  login
		change func(*packets.Packet)
		answer byte // return code of MQTT 3.1.1
	}{
		{"base", base(b, "b1"), nil, 0},
		{"base with the password of the controller", login{"koupleless@@@b1", broker.BaseUser, good.Controller}, nil,
			5},
		{"wildcard identity", base(b, "+"), nil, 5},
		{"unknown user", login{"koupleless@@@b1", "root", good.Base}, nil, 5},
		{"persistent session", base(b, "b1"), func(pk *packets.Packet) { pk.Connect.Clean = false }, 1},
		{"will", base(b, "b1"), func(pk *packets.Packet) {
			pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload = true, "koupleless_dev/b1/base/heart",
				[]byte("x")
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := dial(t, b)
			send(t, conn, hello(tc.login, tc.change))
			expect(t, conn, packets.Connack<<4, 2, 0, tc.answer)
			if tc.answer != 0 {
				expectEnd(t, conn)
			}
		})
	}
	t.Run("first packet is not CONNECT", func(t *testing.T) {
		conn := dial(t, b)
		send(t, conn, message(1, "koupleless_dev/b1/base/heart"))
		expectEnd(t, conn)
	})
}

// TestInMemoryClient checks that an in-memory client receives the MQTT responses in order, even if it sends several
// packets without waiting for responses. The broker statistics must count the client in the same way as a TCP client.
func TestInMemoryClient(t *testing.T) {
	b := run(t, broker.Options{})
	conn := dial(t, b)
	var sent bytes.Buffer
	for _, encode := range []func(*bytes.Buffer) error{
		hello(base(b, "b1"), nil), subscription(1, "koupleless_dev/b1/+"),
		message(2, "koupleless_dev/b1/base/heart"), message(3, "koupleless_dev/b1/base/heart"),
	} {
		check.Must(t, encode(&sent))
	}
	go func() { _, _ = conn.Write(sent.Bytes()) }()
	expect(t, conn, packets.Connack<<4, 2, 0, 0)
	expect(t, conn, packets.Suback<<4, 3, 0, 1, 1)
	expect(t, conn, packets.Puback<<4, 2, 0, 2)
	expect(t, conn, packets.Puback<<4, 2, 0, 3)
	if s := b.Stats(); s.Clients != 1 || s.Subscriptions != 1 || s.MessagesReceived != 2 {
		t.Errorf("%+v after one client, one subscription and two messages", *s)
	}
	send(t, conn, (&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect},
		ProtocolVersion: 4}).DisconnectEncode)
	expectEnd(t, conn)
	for until := time.Now().Add(waitTimeout); ; runtime.Gosched() {
		s := b.Stats()
		if s.Clients == 0 && s.Subscriptions == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("counters after the client disconnected: %+v", *s)
		}
	}
}
