package recording

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Tap notes what a base sends. It is a hook of a broker, and what a Controller tells
// of requests. Its methods may be called concurrently.
type Tap struct {
	mqtt.HookBase
	// ClientID and Prefix are those of the base: other clients are not noted, and topics
	// are without the prefix.
	ClientID, Prefix string

	mu    sync.Mutex
	sent  []Sent
	first chan struct{} // closed when something has been sent since Expect
}

// ID is a name, for the broker.
func (t *Tap) ID() string { return "tap" }

// Provides says that the tap wants to see packets.
func (t *Tap) Provides(b byte) bool { return b == mqtt.OnPacketRead }

// OnPacketRead notes a packet.
func (t *Tap) OnPacketRead(c *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if c.ID == t.ClientID || pk.FixedHeader.Type == packets.Connect && pk.Connect.ClientIdentifier == t.ClientID {
		t.note(sentPackets(pk, t.Prefix)...)
	}
	return pk, nil
}

func (t *Tap) note(sent ...Sent) {
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
	c.Tap.note(sentRequest(r, string(body)))
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

// WebAnswer is what a recording has of an answer of a base's web server. It
// reads and closes the body.
func WebAnswer(r *http.Response) (string, error) {
	defer func() { _ = r.Body.Close() }() // what counts has been read
	body, err := io.ReadAll(r.Body)
	return fmt.Sprintf("HTTP/1.1 %d\r\nContent-Type: %s\r\n\r\n%s", r.StatusCode, r.Header.Get("Content-Type"), body), err
}

// Hanging is a server that takes requests and does not answer them until Release: then
// it says 404. Its methods may be called concurrently.
type Hanging struct {
	mu      sync.Mutex
	waiting int
	gate    chan struct{} // closed by Release; nil = nobody has waited since
}

// ServeHTTP lets a request wait.
func (h *Hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.gate == nil {
		h.gate = make(chan struct{})
	}
	gate := h.gate
	h.waiting++
	h.mu.Unlock()
	select {
	case <-gate:
		http.NotFound(w, r)
	case <-r.Context().Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
}

// Asked tells whether a request waits.
func (h *Hanging) Asked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting > 0
}

// Release answers the requests that wait; later ones wait again.
func (h *Hanging) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate != nil {
		close(h.gate)
		h.gate = nil
	}
}
