package recording

import (
	"io"
	"net/http"
	"strings"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// The names of the base that is recorded.
const (
	Identity = "b1"
	clientID = "koupleless@@@" + Identity
	root     = "koupleless_dev/" + Identity + "/" // of topics
)

// Tap records what a base sends. It is a hook of a broker. A Controller also adds requests. Its methods may be called
// concurrently.
type Tap struct {
	mqtt.HookBase
	// Subscribed gets a value when the base has connected to the broker, subscribed, and asked for its baseline.
	Subscribed chan struct{}

	answers chan Message // to commands

	mu    sync.Mutex
	sent  []Sent
	first chan struct{} // closed when something has been sent since Expect
}

// NewTap returns a tap that has recorded nothing.
func NewTap() *Tap {
	return &Tap{Subscribed: make(chan struct{}, 100), answers: make(chan Message, 1000)}
}

// ID is a name, for the broker.
func (t *Tap) ID() string { return "tap" }

// Provides says that the tap wants to see packets.
func (t *Tap) Provides(b byte) bool { return b == mqtt.OnPacketRead }

// OnPacketRead records a packet.
func (t *Tap) OnPacketRead(c *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if c.ID != clientID && (pk.FixedHeader.Type != packets.Connect || pk.Connect.ClientIdentifier != clientID) {
		return pk, nil
	}
	t.add(sentPackets(pk)...)
	if pk.FixedHeader.Type == packets.Publish {
		switch topic := strings.TrimPrefix(pk.TopicName, root); topic {
		case "base/heart":
		case "base/queryBaseline":
			t.Subscribed <- struct{}{}
		default:
			t.answers <- Message{Topic: topic, Payload: string(pk.Payload)}
		}
	}
	return pk, nil
}

func (t *Tap) add(sent ...Sent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, sent...)
	if t.first != nil && len(t.sent) > 0 {
		close(t.first)
		t.first = nil
	}
}

// Expect forgets what was sent, and returns a channel that closes with the next.
func (t *Tap) Expect() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.first = nil, make(chan struct{})
	return t.first
}

// Take returns what was sent since Expect; an empty list, not nil, if nothing was.
func (t *Tap) Take() []Sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Sent{}, t.sent...)
}

// Controller takes the heartbeats of one base over HTTP. Its methods may be called
// concurrently.
type Controller struct {
	Tap *Tap

	mu   sync.Mutex
	mode Event
}

// Set makes the controller hang (ControllerHangs), fail (ControllerFails), or answer.
func (c *Controller) Set(mode Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = mode
}

// ServeHTTP takes a heartbeat. One that was taken by a controller that hangs is never
// answered: the base must give it up.
func (c *Controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = []byte(err.Error()) // shows up in the recording
	}
	c.Tap.add(sentRequest(r, string(body)))
	c.mu.Lock()
	mode := c.mode
	c.mu.Unlock()
	switch mode {
	case ControllerHangs:
		<-r.Context().Done()
	case ControllerFails:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		_, _ = io.WriteString(w, "SUCCESS") // the base may be gone
	}
}
