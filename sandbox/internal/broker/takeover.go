package broker

import (
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// takeover makes a connection wait for the end of the previous connection with the same client ID. When that one ends,
// mochi removes the client ID from its list, and with it a newer connection, which then receives nothing
// (mochi-mqtt/server issue 173; the fix leaves a race).
type takeover struct {
	mqtt.HookBase
	clients *mqtt.Clients
}

const (
	takeoverTimeout = time.Second // the old connection only has to clean up
	takeoverPoll   = time.Millisecond
)

// ID names the hook.
func (*takeover) ID() string { return "takeover" }

// Provides tells mochi when the hook is called.
func (*takeover) Provides(moment byte) bool { return moment == mqtt.OnSessionEstablish }

// OnSessionEstablish is called when a client has been let in, before mochi looks for an earlier
// connection. It blocks no other client.
func (t *takeover) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	for until := time.Now().Add(takeoverTimeout); time.Now().Before(until); time.Sleep(takeoverPoll) {
		before, there := t.clients.Get(cl.ID)
		if !there || !before.Properties.Clean || before.Properties.ProtocolVersion >= 5 { // its session may outlive it
			return
		}
		before.Stop(packets.ErrSessionTakenOver)
	}
}
