package recording

import (
	"io"
	"net/http"
	"strings"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// The identity of the recorded base, its MQTT client ID, and the prefix of its topics.
const (
	Identity = "b1"
	clientID = "koupleless@@@" + Identity
	root     = "koupleless_dev/" + Identity + "/"
)

// Tap records the packets and requests that a base sends. It is a hook of the broker; a Controller adds the HTTP
// requests. Its methods are safe for concurrent use.
type Tap struct {
	mqtt.HookBase
	// Subscribed receives a value when the base has connected to the broker, subscribed to its topics, and requested
	// its baseline.
	Subscribed chan struct{}

	answers chan Message // MQTT responses to commands

	mu            sync.Mutex
	sent          []Sent
	firstRecorded chan struct{} // closed when the first packet or request after Reset is recorded
}

// NewTap returns an empty Tap.
func NewTap() *Tap {
	return &Tap{Subscribed: make(chan struct{}, 100), answers: make(chan Message, 1000)}
}

// ID implements mqtt.Hook.
func (t *Tap) ID() string { return "tap" }

// Provides implements mqtt.Hook.
func (t *Tap) Provides(b byte) bool { return b == mqtt.OnPacketRead }

// OnPacketRead records a packet that the base sent.
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
	if t.firstRecorded != nil && len(t.sent) > 0 {
		close(t.firstRecorded)
		t.firstRecorded = nil
	}
}

// Reset deletes the recorded packets and requests. It returns a channel that is closed when the next packet or
// request is recorded.
func (t *Tap) Reset() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.firstRecorded = nil, make(chan struct{})
	return t.firstRecorded
}

// Sent returns the packets and requests that were recorded since the last Reset. The result is never nil.
func (t *Tap) Sent() []Sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Sent{}, t.sent...)
}

// Controller is an HTTP handler that receives the heartbeats of one base. Its methods are safe for concurrent use.
type Controller struct {
	Tap *Tap

	mu       sync.Mutex
	behavior Event
}

// Set sets the behavior of the controller: to hang (ControllerHangs), to fail (ControllerFails), or to succeed (any
// other event).
func (c *Controller) Set(behavior Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behavior = behavior
}

// ServeHTTP records a heartbeat and responds to it. While the controller hangs, ServeHTTP blocks until the base
// cancels the request.
func (c *Controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = []byte(err.Error()) // visible in the recording
	}
	c.Tap.add(sentRequest(r, string(body)))
	c.mu.Lock()
	mode := c.behavior
	c.mu.Unlock()
	switch mode {
	case ControllerHangs:
		<-r.Context().Done()
	case ControllerFails:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		_, _ = io.WriteString(w, "SUCCESS") // the base may have disconnected
	}
}
