package mqttfault_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
)

func encoded(t *testing.T, encode func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, encode(&b))
	return b.Bytes()
}

// TestDuplicateIsAcknowledgedOnce checks that the sender of a duplicated message gets only one acknowledgement,
// although the receiver sends two. The sender could otherwise take the second acknowledgement for that of its next
// message, which may have the same packet ID.
func TestDuplicateIsAcknowledgedOnce(t *testing.T) {
	injector := mqttfault.New(mqttfault.Options{
		ClientOf: func(string) mqttfault.Client { return mqttfault.Client{Base: "b"} },
		Faults:   fault.NewSet(func(string, events.Event) {}), Kill: func(int) {},
	})
	duplicate := v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate}
	v1alpha1.SetFaultDefaults(v1alpha1.TargetMQTT, &duplicate)
	if _, err := injector.Inject(fault.Injection{Fault: duplicate, Target: v1alpha1.TargetMQTT,
		Bases: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	client, inner := net.Pipe()
	server := injector.Wrap(inner)
	for _, end := range []net.Conn{client, server} {
		defer func() { _ = end.Close() }()
		check.Must(t, end.SetDeadline(time.Now().Add(waitTimeout)))
	}
	connect := packets.Packet{ProtocolVersion: 4,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "x@@@b", Clean: true}}
	publish := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, PacketID: 7,
		TopicName: "a/b", Payload: []byte("c")}
	ack := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: 7}
	ping := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingresp}}
	connect.FixedHeader.Type = packets.Connect
	hello, message := encoded(t, connect.ConnectEncode), encoded(t, publish.PublishEncode)
	acked, pong := encoded(t, ack.PubackEncode), encoded(t, ping.PingrespEncode)
	again := bytes.Clone(message)
	again[0] |= 1 << 3
	wantRead := func(from net.Conn, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(from, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("packets (-want +got):\n%s", diff)
		}
	}
	go func() {
		_, _ = client.Write(hello) // errors show up when the server reads
		_, _ = client.Write(message)
	}()
	wantRead(server, append(append(bytes.Clone(hello), message...), again...))
	for _, answer := range [][]byte{acked, acked, pong, acked} { // the last one acknowledges another message
		if _, err := server.Write(answer); err != nil {
			t.Fatal(err)
		}
	}
	wantRead(client, append(append(bytes.Clone(acked), pong...), acked...))
}
