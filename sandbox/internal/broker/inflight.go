package broker

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// maxInflight is how many messages may wait for the acknowledgement of one client; what comes then is
// dropped, as other brokers do it earlier. mochi copies and sorts all of them every second: 60,000, as a
// controller had that was short of processor time, kept the broker from everything else.
const maxInflight = 16_384

// inflight spares clients before MQTT 5 mochi's quota of what may be sent: they have none. With one, mochi
// goes through all messages that are not acknowledged for each packet of the client, which makes the work
// quadratic just when a client is behind.
type inflight struct{ mqtt.HookBase }

// ID names the hook.
func (*inflight) ID() string { return "inflight" }

// Provides tells mochi when the hook is called.
func (*inflight) Provides(moment byte) bool { return moment == mqtt.OnSessionEstablish }

// OnSessionEstablish is called when a client has been let in.
func (*inflight) OnSessionEstablish(cl *mqtt.Client, pk packets.Packet) {
	if pk.ProtocolVersion < 5 {
		cl.State.Inflight.ResetSendQuota(0) // none, and not a quota that is used up
	}
}
