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

// dial opens a connection in memory that ends with the test.
func dial(t testing.TB, b *broker.Broker) net.Conn {
	t.Helper()
	conn, err := b.Dial(t.Context())
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.Must(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// say writes what encode encodes.
func say(t testing.TB, conn net.Conn, encode func(*bytes.Buffer) error) {
	t.Helper()
	var buf bytes.Buffer
	check.Must(t, encode(&buf))
	if _, err := conn.Write(buf.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// hear reads as many bytes as want has, and compares.
func hear(t testing.TB, conn net.Conn, want ...byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatalf("no % x: %v", want, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("% x instead of % x", got, want)
	}
}

// hearEnd reads until the broker has ended the connection.
func hearEnd(t testing.TB, conn net.Conn) {
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

func TestWhoMayConnectThroughMemory(t *testing.T) {
	b := run(t, broker.Options{})
	good := b.Passwords()
	for _, tc := range []struct {
		name   string
		login  login
		change func(*packets.Packet)
		answer byte // of MQTT 3.1.1
	}{
		{"base", base(b, "b1"), nil, 0},
		{"base with the password of the controller", login{"koupleless@@@b1", broker.BaseUser, good.Controller}, nil,
			5},
		{"identity that is a wildcard", base(b, "+"), nil, 5},
		{"unknown user", login{"koupleless@@@b1", "root", good.Base}, nil, 5},
		{"session that lasts", base(b, "b1"), func(pk *packets.Packet) { pk.Connect.Clean = false }, 1},
		{"will", base(b, "b1"), func(pk *packets.Packet) {
			pk.Connect.WillFlag, pk.Connect.WillTopic, pk.Connect.WillPayload = true, "koupleless_dev/b1/base/heart", []byte("x")
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := dial(t, b)
			say(t, conn, hello(tc.login, tc.change))
			hear(t, conn, packets.Connack<<4, 2, 0, tc.answer)
			if tc.answer != 0 {
				hearEnd(t, conn)
			}
		})
	}
	t.Run("who says something else first", func(t *testing.T) {
		conn := dial(t, b)
		say(t, conn, message(1, "koupleless_dev/b1/base/heart"))
		hearEnd(t, conn)
	})
}

// A client in memory gets the answers that MQTT asks for in their order, even if it does not wait for them,
// and is counted as one that comes through TCP.
func TestAClientInMemory(t *testing.T) {
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
	hear(t, conn, packets.Connack<<4, 2, 0, 0)
	hear(t, conn, packets.Suback<<4, 3, 0, 1, 1)
	hear(t, conn, packets.Puback<<4, 2, 0, 2)
	hear(t, conn, packets.Puback<<4, 2, 0, 3)
	if s := b.Stats(); s.Clients != 1 || s.Subscriptions != 1 || s.MessagesReceived != 2 {
		t.Errorf("%+v after one client, one subscription and two messages", *s)
	}
	say(t, conn, (&packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect},
		ProtocolVersion: 4}).DisconnectEncode)
	hearEnd(t, conn)
	for until := time.Now().Add(patience); ; runtime.Gosched() {
		s := b.Stats()
		if s.Clients == 0 && s.Subscriptions == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v are left of a client that has gone", *s)
		}
	}
}
