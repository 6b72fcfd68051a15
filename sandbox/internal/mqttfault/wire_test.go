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

// What is delivered twice is acknowledged twice, and the sender hears of it once, since it knows of one
// delivery: the second one might be for the next message of that id.
func TestDuplicateIsAcknowledgedOnce(t *testing.T) {
	view := mqttfault.New(mqttfault.Options{
		Who:    func(string) mqttfault.Client { return mqttfault.Client{Base: "b"} },
		Faults: fault.NewSet(func(string, events.Event) {}), Kill: func(int) {},
	})
	rule := v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate}
	v1alpha1.SetFaultDefaults(v1alpha1.TargetMQTT, &rule)
	if _, err := view.Inject(fault.Injection{Fault: rule, Target: v1alpha1.TargetMQTT,
		Bases: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	client, inner := net.Pipe()
	server := view.Through(inner)
	for _, end := range []net.Conn{client, server} {
		defer func() { _ = end.Close() }()
		check.Must(t, end.SetDeadline(time.Now().Add(within)))
	}
	connect := packets.Packet{ProtocolVersion: 4,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "x@@@b", Clean: true}}
	publish := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, PacketID: 7,
		TopicName: "a/b", Payload: []byte("c")}
	ack := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: 7}
	ping := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingresp}}
	connect.FixedHeader.Type = packets.Connect
	hello, message := encoded(t, connect.ConnectEncode), encoded(t, publish.PublishEncode)
	acked, alive := encoded(t, ack.PubackEncode), encoded(t, ping.PingrespEncode)
	again := bytes.Clone(message)
	again[0] |= 1 << 3
	reads := func(from net.Conn, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(from, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("read (-want +got):\n%s", diff)
		}
	}
	go func() {
		_, _ = client.Write(hello) // what is read shows it
		_, _ = client.Write(message)
	}()
	reads(server, append(append(bytes.Clone(hello), message...), again...))
	for _, answer := range [][]byte{acked, acked, alive, acked} { // the last one is for another message
		if _, err := server.Write(answer); err != nil {
			t.Fatal(err)
		}
	}
	reads(client, append(append(bytes.Clone(acked), alive...), acked...))
}
