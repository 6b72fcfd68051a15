package mqtt

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// stream is a connection whose received bytes come from a reader.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(b []byte) (int, error) { return s.Reader.Read(b) }

func publishPacket(topic string, qos byte, payload string) []byte {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Qos, p.Payload, p.MessageID = topic, qos, []byte(payload), 0x1234
	return written(p)
}

func written(p packets.ControlPacket) []byte {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestPacketsAreLimited(t *testing.T) {
	const limit = 10
	publish := func(topic string, qos byte, payload string) []byte { return publishPacket(topic, qos, payload) }
	suback := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	suback.ReturnCodes = make([]byte, limit+1)
	for name, c := range map[string]struct{ sent, want []byte }{
		"a small payload":  {publish("a", 1, "x"), publish("a", 1, "x")},
		"an empty payload": {publish("a", 0, ""), publish("a", 0, "")},
		"a payload at the limit": {publish("topic", 1, strings.Repeat("x", limit)),
			publish("topic", 1, strings.Repeat("x", limit))},
		"a payload one byte above the limit": {publish("topic", 1, strings.Repeat("x", limit+1)),
			publish("topic", 1, strings.Repeat("x", limit+1))},
		"a payload two bytes above the limit": {publish("topic", 1, strings.Repeat("x", limit+2)),
			publish("topic", 1, strings.Repeat("x", limit+1))},
		"a large payload with QoS 0": {publish("topic", 0, strings.Repeat("x", limit+2)),
			publish("topic", 0, strings.Repeat("x", limit+1))},
		"a large payload with a long topic": {publish(strings.Repeat("t", 300), 2, strings.Repeat("x", 1000)),
			publish(strings.Repeat("t", 300), 2, strings.Repeat("x", limit+1))},
		"a payload larger than the buffer": {publish("topic", 1, strings.Repeat("x", 1<<20)),
			publish("topic", 1, strings.Repeat("x", limit+1))},
		"a small packet of another type": {written(packets.NewControlPacket(packets.Pingresp)),
			written(packets.NewControlPacket(packets.Pingresp))},
		"a large packet of another type": {written(suback), nil},
		"an invalid packet length":       {[]byte{0x30, 0xff, 0xff, 0xff, 0xff, 0x01}, nil},
		"a topic longer than the packet": {append([]byte{0x30, 0x20, 0xff, 0xff}, make([]byte, 0x1e)...),
			append([]byte{0x30, 0x20, 0xff, 0xff}, make([]byte, 0x1e)...)},
	} {
		sent, want := bytes.Join([][]byte{publish("before", 1, "x"), c.sent, publish("after", 1, "x")},
			nil), []byte(nil)
		if c.want != nil {
			want = bytes.Join([][]byte{publish("before", 1, "x"), c.want, publish("after", 1, "x")}, nil)
		}
		for how, split := range map[string]func(io.Reader) io.Reader{
			"in one": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			"in halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
		} {
			got, err := io.ReadAll(newPacketLimiter(stream{Reader: split(bytes.NewReader(sent))}, limit))
			if want == nil && err == nil || want != nil && (err != nil || !bytes.Equal(got, want)) {
				t.Errorf("%s, %s: %.100q, error %v; want %.100q", name, how, got, err, want)
			}
		}
	}
}

// TestHugeMessageIsRejected checks that a message of 250 MB is rejected and acknowledged, and that later messages
// still arrive.
func TestHugeMessageIsRejected(t *testing.T) {
	const size = 250_000_000
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h := newRecorder()
	startTunnel(t, l.Addr().String(), h, nil)
	conn, next := acceptSubscriber(t, l)
	topic := "koupleless_dev/a/base/heart"
	head := publishPacket(topic, 1, "")
	head = append([]byte{head[0], 0, 0, 0, 0}, head[2:]...) // a length field of four bytes
	for i, length := 0, len(head)-5+size; i < 4; i, length = i+1, length>>7 {
		head[1+i] = byte(length) | 0x80
	}
	head[4] &^= 0x80
	if _, err := conn.Write(head); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<16)
	for left := size; left > 0; left -= len(chunk) {
		if _, err := conn.Write(chunk[:min(left, len(chunk))]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write(publishPacket("koupleless_dev/b/base/heart", 0,
		`{"data":{"baseMetadata":{"identity":"b","name":"base","version":"1"},"state":"activated"},"publishTimestamp":1}`)); err != nil {
		t.Fatal(err)
	}
	h.want(t, "a: heart rejected: oversized")
	h.want(t, "b: heartbeat of base:1, active true")
	for {
		if p, is := next().(*packets.PubackPacket); is && p.MessageID == 0x1234 {
			return
		}
	}
}

// TestLargeRetainedMessageIsRejected checks that the tunnel rejects a large retained message and stays connected.
func TestLargeRetainedMessageIsRejected(t *testing.T) {
	s, addr := serveBroker(t, &aclHook{})
	if err := s.Publish("koupleless_dev/a/base/heart", make([]byte, 8*arklet.MaxPayload), true, 1); err != nil {
		t.Fatal(err)
	}
	h := newRecorder()
	connects := make(chan struct{}, 100)
	startTunnel(t, addr, h, func() { connects <- struct{}{} })
	h.want(t, "a: heart rejected: retained")
	publish(t, testClient(t, addr), "koupleless_dev/b/base/heart", false,
		`{"data":{"baseMetadata":{"identity":"b","name":"base","version":"1"},"state":"activated"},"publishTimestamp":1}`)
	h.want(t, "b: heartbeat of base:1, active true")
	if n := len(connects); n != 1 {
		t.Errorf("the tunnel connected %d times, want once", n)
	}
}
