package recording

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Event is what happens to a base or to its world.
type Event string

// The events. Those of the broker are for the MQTT tunnel, those of the controller
// for the HTTP tunnel.
const (
	// Start starts the base's process, without modules; Kill ends it as kill -9 does.
	Start Event = "start"
	Kill  Event = "kill"
	// BrokerStops breaks all connections, and nobody listens any more; BrokerReturns ends that.
	BrokerStops   Event = "brokerStops"
	BrokerReturns Event = "brokerReturns"
	// ConnectionBreaks breaks the connection to a broker that stays.
	ConnectionBreaks Event = "connectionBreaks"
	// ControllerStops makes that nobody listens for heartbeats; ControllerHangs accepts them and
	// does not answer; ControllerFails answers 500. ControllerReturns ends all three.
	ControllerStops   Event = "controllerStops"
	ControllerHangs   Event = "controllerHangs"
	ControllerFails   Event = "controllerFails"
	ControllerReturns Event = "controllerReturns"
)

// Phase is a period in the life of a base.
type Phase struct {
	// Event begins the phase.
	Event Event `json:"event"`
	// Seconds is how long the phase lasts, with what the requests of the one before took. Start,
	// if somebody listens, counts from the first thing that the base sends.
	Seconds int `json:"seconds"`
	// Sent is what the base sent meanwhile, in order.
	Sent []Sent `json:"sent"`
	// Exchanges are requests at the end of the phase.
	Exchanges []Exchange `json:"exchanges,omitempty"`
}

// Sent is a packet of a base to its broker or a request to its controller.
// Acknowledgements and pings are left out.
type Sent struct {
	// What says in one line what it is: packet, topic after the identity, and flags;
	// or method, path and content type.
	What    string `json:"what"`
	Payload string `json:"payload,omitempty"`
}

// sentPackets describes an MQTT packet. The result is empty for acknowledgements and pings.
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
	case packets.Subscribe: // one packet may have several filters, or several packets one each
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
		return []Sent{{What: line, Payload: Normal(string(pk.Payload))}}
	case packets.Puback, packets.Pingreq:
		return nil
	default:
		return []Sent{{What: packets.PacketNames[pk.FixedHeader.Type]}}
	}
}

func sentRequest(r *http.Request, body string) Sent {
	return Sent{What: strings.TrimSpace(r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")),
		Payload: Normal(body)}
}
