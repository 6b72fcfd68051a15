// Package tunnel defines the common types of the MQTT tunnel and the HTTP tunnel, which exchange arklet messages with
// bases. The tunnels do not depend on Kubernetes.
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

// ErrNotSupported reports a command that a tunnel does not support: switchBiz over MQTT (protocol 3.3).
var ErrNotSupported = errors.New("command not supported by this tunnel")

// Reasons why a request has no answer. Other errors are network failures.
var (
	// ErrRefused reports that no arklet of the base answers at its address.
	ErrRefused = errors.New("no arklet answers at the address of the base")
	// ErrTimedOut reports that the base received the request and did not answer in time. The state of the module is
	// unknown.
	ErrTimedOut = errors.New("base received the request and did not answer in time")
)

// Address is the destination of commands for a base.
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
	// IP is the verified address of the base. Over HTTP, it is the localIP of a heartbeat, or the address that a
	// command was sent to. It is empty over MQTT.
	IP string
	// Peer is the remote address of the connection of a message over HTTP; empty over MQTT and for answers to commands.
	Peer string
	// Certified reports whether a client certificate proves the identity.
	Certified bool
	// At is the time of the message. It does not decrease for one base and tunnel unless the clock of the base is set
	// back. Over MQTT, it is the publishTimestamp of the base. Over HTTP, it is the time of the request for a list, and
	// the time of the answer for an operation, on the clock of the controller.
	At time.Time
}

// Handler receives the messages of bases. Its methods must not block, except BaselineQuery. The messages of one base
// arrive in order.
type Handler interface {
	Heartbeat(from Origin, h arklet.Heartbeat)
	BaselineQuery(from Origin, m arklet.Metadata) []arklet.Module
	Health(from Origin, h arklet.Health)
	BizList(from Origin, list []arklet.Biz)
	Answer(from Origin, a arklet.Answer)
	BatchAnswer(from Origin, r arklet.BatchResult)
	// Unanswered is called when a request gets no answer; see ErrRefused and ErrTimedOut. The MQTT tunnel never calls
	// it.
	Unanswered(from Origin, r arklet.Request, err error)
	// Rejected is called for an ignored message, or an ignored part of a list. kind is the last segment of the topic or
	// path.
	Rejected(from Origin, kind string, reason Rejection, err error)
}

// Rejection is the reason why a message was ignored, and a label value of a metric.
type Rejection string

// The reasons for rejections.
const (
	Malformed     Rejection = "malformed"
	Oversized     Rejection = "oversized"
	Stale         Rejection = "stale"
	WrongIdentity Rejection = "wrong-identity"
	Retained      Rejection = "retained"
	Unexpected    Rejection = "unexpected"
	// BeyondLimits is a message that exceeds the limits of package arklet.
	BeyondLimits Rejection = "beyond-limits"
	// WrongAddress is a message of a base that reports an address that is not allowed, or sends from a new address.
	WrongAddress Rejection = "wrong-address"
	// OtherTunnel is a message of a base that is registered with the other tunnel.
	OtherTunnel Rejection = "other-tunnel"
	// Unauthorized is a message without the required token or certificate.
	Unauthorized Rejection = "unauthorized"
	// TooMany is a message, a connection or a new base that exceeds a limit.
	TooMany Rejection = "too-many"
	// TooManyOfAddress is a new base that exceeds the limit of its address.
	TooManyOfAddress Rejection = "too-many-of-address"
)
