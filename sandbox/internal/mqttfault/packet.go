package mqttfault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// again marks a PUBLISH that is delivered again [MQTT-3.3.1-1].
const again = 1 << 3

// packet is a packet as it passes.
type packet struct {
	data  []byte
	kind  byte
	qos   byte
	id    uint16 // of a PUBLISH of QoS 1, or a PUBACK
	topic string // of a PUBLISH
}

// parse reads what counts of a packet. One that cannot be read passes as it is: the client or the broker
// says what is wrong with it.
func parse(data []byte, version byte) *packet {
	p := &packet{data: data, kind: data[0] >> 4}
	head, body := packets.FixedHeader{}, data[headerOf(data):]
	if head.Decode(data[0]) != nil {
		return p
	}
	head.Remaining = len(body)
	read := packets.Packet{FixedHeader: head, ProtocolVersion: version}
	switch p.kind {
	case packets.Publish:
		if read.PublishDecode(body) == nil {
			p.qos, p.id, p.topic = head.Qos, read.PacketID, read.TopicName
		}
	case packets.Puback:
		if read.PubackDecode(body) == nil {
			p.id = read.PacketID
		}
	}
	return p
}

func headerOf(data []byte) int {
	n := 1
	for n < len(data) && n < mostHeader && data[n]&0x80 != 0 {
		n++
	}
	return min(n+1, len(data))
}

// twice is a message as it is delivered again.
func (p *packet) twice() []byte {
	data := slices.Clone(p.data)
	data[0] |= again
	return data
}

func (p *packet) String() string {
	if p.topic != "" {
		return p.topic
	}
	return fmt.Sprintf("a %s", packets.PacketNames[p.kind])
}

// clientOf reads a CONNECT: the identity that its client id ends with, and the version of MQTT.
func clientOf(data []byte) (identity string, version byte) {
	if data[0]>>4 != packets.Connect {
		return "", 0
	}
	var p packets.Packet
	body := data[headerOf(data):]
	p.FixedHeader = packets.FixedHeader{Type: packets.Connect, Remaining: len(body)}
	if p.ConnectDecode(body) != nil {
		return "", 0
	}
	id := p.Connect.ClientIdentifier
	if _, after, found := strings.Cut(id, "@@@"); found {
		id = after
	}
	return id, p.ProtocolVersion
}
