package recording

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Event is an event that affects a base or its environment.
type Event string

// The events of a recording. Broker events require the MQTT tunnel, and controller events require the HTTP tunnel.
const (
	// Start starts the base process without modules. Kill ends the process like kill -9.
	Start Event = "start"
	Kill  Event = "kill"
	// BrokerStops closes all connections and the port of the broker. BrokerReturns opens the port again.
	BrokerStops   Event = "brokerStops"
	BrokerReturns Event = "brokerReturns"
	// ConnectionBreaks closes the connection between the base and the broker. The broker continues to run.
	ConnectionBreaks Event = "connectionBreaks"
	// ControllerStops closes the port to which bases send heartbeats. ControllerHangs makes the controller accept
	// heartbeats without a response. ControllerFails makes it respond with status 500. ControllerReturns ends these
	// states.
	ControllerStops   Event = "controllerStops"
	ControllerHangs   Event = "controllerHangs"
	ControllerFails   Event = "controllerFails"
	ControllerReturns Event = "controllerReturns"
)

// Phase describes the time after an event, until the next phase.
type Phase struct {
	// Event is the event that starts the phase.
	Event Event `json:"event"`
	// Seconds is the duration of the phase, including the time that the requests of the previous phase took. If the
	// broker or the controller accepts connections, the phase of a Start event begins when the base sends its first
	// packet or request.
	Seconds int `json:"seconds"`
	// Sent lists the packets or requests that the base sent, in order.
	Sent []Sent `json:"sent"`
	// Exchanges lists the requests that are sent at the end of the phase.
	Exchanges []Exchange `json:"exchanges,omitempty"`
}

// Sent is a packet that a base sent to its broker, or a request that it sent to its controller. Acknowledgements and
// pings are omitted.
type Sent struct {
	// What describes the packet or request. For a packet, it is the packet type, the topic without the base identity,
	// and the flags. For a request, it is the method, the path and the content type.
	What    string `json:"what"`
	Payload string `json:"payload,omitempty"`
}

// sentPackets returns the entries for an MQTT packet: none for acknowledgements and pings, one for each filter of a
// SUBSCRIBE packet, and one for any other packet.
func sentPackets(pk packets.Packet) []Sent {
	switch pk.FixedHeader.Type {
	case packets.Connect:
		c := pk.Connect
		line := fmt.Sprintf("CONNECT %s level %d keep alive %d s", c.ClientIdentifier, pk.ProtocolVersion, c.Keepalive)
		for _, flag := range []struct {
			set  bool
			name string
		}{{c.Clean, "clean session"}, {c.UsernameFlag, "user"}, {c.PasswordFlag, "password"}, {c.WillFlag, "will"}} {
			if flag.set {
				line += ", " + flag.name
			}
		}
		return []Sent{{What: line}}
	case packets.Subscribe: // clients may send one packet with several filters, or several packets
		var out []Sent
		for _, f := range pk.Filters {
			out = append(out, Sent{What: fmt.Sprintf("SUBSCRIBE %s QoS %d", strings.TrimPrefix(f.Filter, root), f.Qos)})
		}
		return out
	case packets.Publish:
		line := fmt.Sprintf("PUBLISH %s QoS %d", strings.TrimPrefix(pk.TopicName, root), pk.FixedHeader.Qos)
		if pk.FixedHeader.Retain {
			line += ", retained"
		}
		return []Sent{{What: line, Payload: Normalize(string(pk.Payload))}}
	case packets.Puback, packets.Pingreq:
		return nil
	default:
		return []Sent{{What: packets.PacketNames[pk.FixedHeader.Type]}}
	}
}

func sentRequest(r *http.Request, body string) Sent {
	return Sent{What: strings.TrimSpace(r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")),
		Payload: Normalize(body)}
}
