package mqttfault

import (
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// dupFlag is the flag of a PUBLISH packet that is a redelivery [MQTT-3.3.1-1].
const dupFlag = 1 << 3

// packet is an encoded MQTT packet with those decoded fields that faults use.
type packet struct {
	data  []byte
	kind  byte
	qos   byte
	id    uint16 // packet ID of a PUBLISH with QoS 1 or of a PUBACK
	topic string // topic of a PUBLISH; empty for other packets
}

// parse decodes the fields of a packet. The fields of an invalid packet are zero. It is forwarded unchanged, so that
// its receiver reports the error.
func parse(data []byte, version byte) *packet {
	p := &packet{data: data, kind: data[0] >> 4}
	head, body := packets.FixedHeader{}, data[headerOf(data):]
	if head.Decode(data[0]) != nil {
		return p
	}
	head.Remaining = len(body)
	decoded := packets.Packet{FixedHeader: head, ProtocolVersion: version}
	switch p.kind {
	case packets.Publish:
		if decoded.PublishDecode(body) == nil {
			p.qos, p.id, p.topic = head.Qos, decoded.PacketID, decoded.TopicName
		}
	case packets.Puback:
		if decoded.PubackDecode(body) == nil {
			p.id = decoded.PacketID
		}
	}
	return p
}

// headerOf returns the length of the fixed header of a packet.
func headerOf(data []byte) int {
	n := 1
	for n < len(data) && n < maxHeader && data[n]&0x80 != 0 {
		n++
	}
	return min(n+1, len(data))
}

// duplicate returns a copy of the message with the DUP flag.
func (p *packet) duplicate() []byte {
	data := slices.Clone(p.data)
	data[0] |= dupFlag
	return data
}

func (p *packet) String() string {
	if p.topic != "" {
		return p.topic
	}
	return packets.PacketNames[p.kind]
}

// clientOf returns the identity that the client ID of a CONNECT packet contains, and the MQTT version. Both are zero
// for other packets.
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
