// Package tunnel names the two ways to a base and what they have in common. Its folders mqtt and
// http carry arklet messages; neither knows Kubernetes.
package tunnel

import (
	"errors"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Key names a tunnel; it is the value of a Node's label labels.Tunnel.
type Key string

// The two tunnels (Module Controller V2 documents, "vnode" example).
const (
	MQTT Key = "mqtt_tunnel_provider"
	HTTP Key = "http_tunnel_provider"
)

// ErrNotSupported says that a tunnel has no such command: switchBiz over MQTT (protocol 3.3).
var ErrNotSupported = errors.New("command not supported by this tunnel")

// Why a request will have no answer, as far as callers tell it apart. Whatever is neither is
// trouble on the way: a reset, no route, an answer cut short.
var (
	// ErrRefused says that no arklet of that base is at the address: nobody listens there, or what
	// answered is not arklet, or is another base's.
	ErrRefused = errors.New("no arklet answers at the base's address")
	// ErrTimedOut says that the base took the request and did not answer in time: what it does is
	// unknown.
	ErrTimedOut = errors.New("base took the request and did not answer in time")
)

// Address is where commands for a base go.
type Address struct {
	Identity string
	// IP and Port are what the base said of itself; only HTTP uses them.
	IP   string
	Port int
}

// Baselines is how many baseline queries a tunnel has answered at once: each reads many objects.
const Baselines = 8

// Origin tells which base said something, and when.
type Origin struct {
	Tunnel   Key
	Identity string
	// IP is the base's address as far as the message proves it: over HTTP the localIP of a heartbeat
	// that came from there, or where a command was sent. It is empty where nothing proves it, as over
	// MQTT.
	IP string
	// Peer is the address that a message over HTTP came from; empty over MQTT, and for answers to commands.
	Peer string
	// Certified says that a client certificate proves the identity.
	Certified bool
	// At is a clock that never runs backwards for one base over one tunnel unless the base's clock
	// was set: the base's publishTimestamp over MQTT; over HTTP the controller's time, of the
	// request for a list and of the answer for an operation.
	At time.Time
}

// Handler receives what bases say. Tunnels call it from their reading goroutines, so it must not
// block; calls for one base come in the order of arrival.
type Handler interface {
	Heartbeat(from Origin, h arklet.Heartbeat)
	BaselineQuery(from Origin, m arklet.Metadata) []arklet.Module
	Health(from Origin, h arklet.Health)
	BizList(from Origin, list []arklet.Biz)
	Answer(from Origin, a arklet.Answer)
	BatchAnswer(from Origin, r arklet.BatchResult)
	// Unanswered tells that a request that was sent will have no answer, and why: see ErrRefused
	// and ErrTimedOut. A tunnel that can't know, as MQTT, never calls it.
	Unanswered(from Origin, r arklet.Request, err error)
	// Rejected counts a message that was ignored, or a list with entries that were ignored. kind is the
	// last topic segment or the path.
	Rejected(from Origin, kind string, reason Rejection, err error)
}

// Rejection is the reason why a message, or a part of it, was ignored. It is a label value of a metric.
type Rejection string

// The reasons to reject a message.
const (
	Malformed     Rejection = "malformed"
	Oversized     Rejection = "oversized"
	Stale         Rejection = "stale"
	WrongIdentity Rejection = "wrong-identity"
	Retained      Rejection = "retained"
	Unexpected    Rejection = "unexpected"
	// BeyondLimits is for what a base may not say: see arklet.ErrLimit.
	BeyondLimits Rejection = "beyond-limits"
	// WrongAddress is for a base that names an address that it cannot have, or speaks from another
	// one than before.
	WrongAddress Rejection = "wrong-address"
	// OtherTunnel is for a base that came by the other tunnel.
	OtherTunnel Rejection = "other-tunnel"
	// Unauthorized is for a message without the token or the certificate that is asked for.
	Unauthorized Rejection = "unauthorized"
	// TooMany is for what found no room: a base beyond the maximum, a message that would have waited.
	TooMany Rejection = "too-many"
	// TooManyOfAddress is for a new base from an address that has the maximum number of bases over HTTP.
	TooManyOfAddress Rejection = "too-many-of-address"
)
