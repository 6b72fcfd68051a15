// Package tunnel has what the two tunnels to bases have in common. The packages mqtt and http carry arklet messages
// and know nothing of Kubernetes.
package tunnel

import (
	"errors"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Key is the name of a tunnel, and the value of the label labels.Tunnel of a Node.
type Key string

// The two tunnels, as in the Koupleless documentation.
const (
	MQTT Key = "mqtt_tunnel_provider"
	HTTP Key = "http_tunnel_provider"
)

// ErrNotSupported reports a command that a tunnel does not have: switchBiz over MQTT (protocol 3.3).
var ErrNotSupported = errors.New("command not supported by this tunnel")

// Reasons why a request has no answer. Other errors are network failures.
var (
	// ErrRefused reports that there is no arklet of the base at its address.
	ErrRefused = errors.New("no arklet answers at the base's address")
	// ErrTimedOut reports that the base received the request and did not answer in time. The state of the module is
	// unknown.
	ErrTimedOut = errors.New("base took the request and did not answer in time")
)

// Address is where commands for a base are sent.
type Address struct {
	Identity string
	// IP and Port are reported by the base. Only HTTP uses them.
	IP   string
	Port int
}

// MaxBaselineQueries is the maximum number of concurrent baseline queries of a tunnel.
const MaxBaselineQueries = 8

// Origin is the sender and the time of a message.
type Origin struct {
	Tunnel   Key
	Identity string
	// IP is the proven address of the base: over HTTP, the localIP of a heartbeat that came from there, or the
	// address that a command was sent to. It is empty over MQTT.
	IP string
	// Peer is the address that a message over HTTP came from; empty over MQTT and for answers to commands.
	Peer string
	// Certified reports whether a client certificate proves the identity.
	Certified bool
	// At does not decrease for one base and tunnel unless the clock of the base is set back. Over MQTT it is the
	// publishTimestamp of the base; over HTTP the controller's time, of the request for a list and of the answer for
	// an operation.
	At time.Time
}

// Handler receives the messages of bases. Its methods must not block, except BaselineQuery. Calls for one base are in
// order.
type Handler interface {
	Heartbeat(from Origin, h arklet.Heartbeat)
	BaselineQuery(from Origin, m arklet.Metadata) []arklet.Module
	Health(from Origin, h arklet.Health)
	BizList(from Origin, list []arklet.Biz)
	Answer(from Origin, a arklet.Answer)
	BatchAnswer(from Origin, r arklet.BatchResult)
	// Unanswered is called when a request will have no answer; see ErrRefused and ErrTimedOut. MQTT never calls it.
	Unanswered(from Origin, r arklet.Request, err error)
	// Rejected is called for an ignored message or part of a list. kind is the last topic segment or the path.
	Rejected(from Origin, kind string, reason Rejection, err error)
}

// Rejection is the reason why a message was ignored, and a label value of a metric.
type Rejection string

// The reasons.
const (
	Malformed     Rejection = "malformed"
	Oversized     Rejection = "oversized"
	Stale         Rejection = "stale"
	WrongIdentity Rejection = "wrong-identity"
	Retained      Rejection = "retained"
	Unexpected    Rejection = "unexpected"
	// BeyondLimits is a message beyond the limits of package arklet.
	BeyondLimits Rejection = "beyond-limits"
	// WrongAddress is a base that reports an address that it cannot have, or sends from a new one.
	WrongAddress Rejection = "wrong-address"
	// OtherTunnel is a base that is registered with the other tunnel.
	OtherTunnel Rejection = "other-tunnel"
	// Unauthorized is a message without the required token or certificate.
	Unauthorized Rejection = "unauthorized"
	// TooMany is a message or a base beyond a limit.
	TooMany Rejection = "too-many"
	// TooManyOfAddress is a new base beyond the limit of its address.
	TooManyOfAddress Rejection = "too-many-of-address"
)
