package recording

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Event is an event of a base or its environment.
type Event string

// The events. Events of the broker require the MQTT tunnel, and events of the controller require the HTTP tunnel.
const (
	// Start starts the process of the base, without modules. Kill ends it like kill -9.
	Start Event = "start"
	Kill  Event = "kill"
	// BrokerStops closes all connections and the port of the broker. BrokerReturns opens the port again.
	BrokerStops   Event = "brokerStops"
	BrokerReturns Event = "brokerReturns"
	// ConnectionBreaks closes the connection to the broker, which continues to run.
	ConnectionBreaks Event = "connectionBreaks"
	// ControllerStops closes the port for heartbeats. With ControllerHangs, the controller accepts heartbeats but does not
	// respond. With ControllerFails, it responds with 500. ControllerReturns ends these states.
	ControllerStops   Event = "controllerStops"
	ControllerHangs   Event = "controllerHangs"
	ControllerFails   Event = "controllerFails"
	ControllerReturns Event = "controllerReturns"
)

// Phase is the time after an event.
type Phase struct {
	// Event starts the phase.
	Event Event `json:"event"`
	// Seconds is the duration of the phase, including the duration of the requests of the previous phase. The phase of a
	// Start event begins when the base sends its first packet, if the broker or the controller accepts connections.
	Seconds int `json:"seconds"`
	// Sent are the packets or requests of the base, in order.
	Sent []Sent `json:"sent"`
	// Exchanges are requests at the end of the phase.
	Exchanges []Exchange `json:"exchanges,omitempty"`
}

// Sent is a packet of a base to its broker, or a request to its controller. Acknowledgements and pings are omitted.
type Sent struct {
	// What is the packet type, the topic after the identity and the flags, or the method, the path and the content type.
	What    string `json:"what"`
	Payload string `json:"payload,omitempty"`
}

// sentPackets describes an MQTT packet. It returns nil for acknowledgements and pings.
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
