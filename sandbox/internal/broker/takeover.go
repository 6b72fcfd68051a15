package broker

import (
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// takeover blocks a new connection until the previous connection with the same client ID has ended. When a connection
// ends, mochi removes the client ID from its list of clients. If a newer connection already uses the same client ID,
// mochi removes the newer client from the list instead, and that client receives no messages (mochi-mqtt/server issue
// 173; its fix still has a race).
type takeover struct {
	mqtt.HookBase
	clients *mqtt.Clients
}

const (
	takeoverTimeout = time.Second // the old connection only has to clean up
	takeoverPoll    = time.Millisecond
)

// ID returns the name of the hook.
func (*takeover) ID() string { return "takeover" }

// Provides reports whether the hook handles an event.
func (*takeover) Provides(moment byte) bool { return moment == mqtt.OnSessionEstablish }

// OnSessionEstablish is called after authentication, before mochi looks for an earlier connection with the same
// client ID. It does not block other clients.
func (t *takeover) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	for until := time.Now().Add(takeoverTimeout); time.Now().Before(until); time.Sleep(takeoverPoll) {
		before, there := t.clients.Get(cl.ID)
		if !there || !before.Properties.Clean || before.Properties.ProtocolVersion >= 5 { // its session may outlive it
			return
		}
		before.Stop(packets.ErrSessionTakenOver)
	}
}
