// Package tunnel defines the common types of the MQTT tunnel and the HTTP tunnel, which exchange arklet messages with
// bases. The tunnels do not depend on Kubernetes.
package tunnel

import (
	"errors"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Key is the name of a tunnel. It is also the value of the label labels.Tunnel of a Node.
type Key string

// Names of the two tunnels, as in the Koupleless documentation.
const (
	MQTT Key = "mqtt_tunnel_provider"
	HTTP Key = "http_tunnel_provider"
)

// ErrNotSupported means that a tunnel does not support a command, such as switchBiz over MQTT (protocol 3.3).
var ErrNotSupported = errors.New("command not supported by this tunnel")

// Reasons why a request gets no answer. Any other error is a network failure.
var (
	// ErrRefused means that the arklet of the base does not respond at the address of the base.
	ErrRefused = errors.New("no arklet answered at the address of the base")
	// ErrTimedOut means that the base received the request but did not answer in time. The state of the module is
	// unknown.
	ErrTimedOut = errors.New("the base received the request but did not answer in time")
)

// Address is the destination of the commands for a base.
type Address struct {
	Identity string
	// IP and Port are the values that the base reported. Only the HTTP tunnel uses them.
	IP   string
	Port int
}

// MaxBaselineQueries is the maximum number of baseline queries that one tunnel handles concurrently.
const MaxBaselineQueries = 8

// Origin describes the sender and the time of a message.
type Origin struct {
	Tunnel   Key
	Identity string
	// IP is the verified address of the base. Over HTTP, it is the localIP from a heartbeat, or the address to which
	// a command was sent. Over MQTT, it is empty.
	IP string
	// Peer is the remote address of the connection over which an HTTP request arrived. It is empty over MQTT, and for
	// answers to commands.
	Peer string
	// Certified is true if a client certificate proves the identity of the base.
	Certified bool
	// At is the time of the message. It does not decrease for one base and tunnel unless the clock of the base is set
	// back. Over MQTT, it is the publishTimestamp of the base. Over HTTP, it is on the clock of the controller: the
	// time of the request for a module list, and the time of the answer for an operation.
	At time.Time
}

// Handler receives the messages from bases. Its methods must not block, except BaselineQuery. The messages from one
// base arrive in order.
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
	// Rejected is called for an ignored message, or for an ignored part of a module list. kind is the last segment of
	// the topic or path.
	Rejected(from Origin, kind string, reason Rejection, err error)
}

// Rejection is the reason why a message was ignored. It is also a label value of a metric.
type Rejection string

// Reasons for rejecting a message.
const (
	Malformed     Rejection = "malformed"
	Oversized     Rejection = "oversized"
	Stale         Rejection = "stale"
	WrongIdentity Rejection = "wrong-identity"
	Retained      Rejection = "retained"
	Unexpected    Rejection = "unexpected"
	// BeyondLimits means that the message exceeds the limits in package arklet.
	BeyondLimits Rejection = "beyond-limits"
	// WrongAddress means that the base reports an address that is not allowed, or sends from a new address.
	WrongAddress Rejection = "wrong-address"
	// OtherTunnel means that the base is registered with the other tunnel.
	OtherTunnel Rejection = "other-tunnel"
	// Unauthorized means that the message lacks the required token or certificate.
	Unauthorized Rejection = "unauthorized"
	// TooMany means that a message, a connection or a new base exceeds a limit.
	TooMany Rejection = "too-many"
	// TooManyOfAddress means that a new base exceeds the maximum number of bases for its address.
	TooManyOfAddress Rejection = "too-many-of-address"
)
