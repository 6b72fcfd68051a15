package broker

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"log/slog"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	// ControllerUser is the user name of the module controller.
	ControllerUser = "controller"
	// BaseUser is the user name that all bases share. The broker identifies a base by its client ID,
	// <prefix>@@@<identity> (protocol 3.1).
	BaseUser = "base"

	idSeparator = "@@@"
)

// Passwords contains the passwords of the two broker users.
type Passwords struct {
	Controller string `json:"controller"`
	Base       string `json:"base"`
}

// NewPasswords returns random passwords for the two broker users.
func NewPasswords() Passwords {
	return Passwords{Controller: rand.Text(), Base: rand.Text()}
}

// access is the mochi hook for authentication and authorization. Its ACL check does not allocate memory, because
// mochi calls it for every message and every receiver.
type access struct {
	mqtt.HookBase
	passwords Passwords
	root      string // prefix of all topics: "koupleless_<env>/"
	log       *slog.Logger
}

// ID returns the name of the hook.
func (a *access) ID() string { return "access" }

// Provides reports whether the hook handles an event.
func (a *access) Provides(question byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnectAuthenticate, mqtt.OnACLCheck}, question) >= 0
}

// OnConnectAuthenticate accepts the two users with their passwords. It rejects a base whose identity contains an MQTT
// wildcard character, because such a base could subscribe to the topics of other bases.
func (a *access) OnConnectAuthenticate(cl *mqtt.Client, pk packets.Packet) bool {
	var want string
	switch string(pk.Connect.Username) {
	case ControllerUser:
		want = a.passwords.Controller
	case BaseUser:
		if _, ok := identityOf(cl.ID); !ok {
			a.log.Warn("rejected a base: its client ID is not PREFIX@@@IDENTITY, or its identity contains /, + or #",
				"clientID", cl.ID)
			return false
		}
		want = a.passwords.Base
	default:
		a.log.Warn("rejected a client: unknown user", "clientID", cl.ID, "user", string(pk.Connect.Username))
		return false
	}
	if subtle.ConstantTimeCompare(pk.Connect.Password, []byte(want)) != 1 {
		a.log.Warn("rejected a client: wrong password", "clientID", cl.ID, "user", string(pk.Connect.Username))
		return false
	}
	return true
}

// OnACLCheck reports whether a client may publish to a topic (if write is true), or subscribe to the topic and
// receive its messages. For a subscription, topic is the topic filter.
func (a *access) OnACLCheck(cl *mqtt.Client, topic string, write bool) bool {
	rest, ok := strings.CutPrefix(topic, a.root)
	if !ok {
		return false
	}
	if string(cl.Properties.Username) == ControllerUser {
		return true
	}
	identity, ok := identityOf(cl.ID)
	if !ok {
		return false
	}
	rest, ok = strings.CutPrefix(rest, identity)
	if !ok || rest == "" || rest[0] != '/' {
		return false
	}
	rest = rest[1:]
	if write {
		answer, ok := strings.CutPrefix(rest, "base/")
		return ok && !strings.Contains(answer, "/")
	}
	return rest == "base/baseline" || rest != "#" && !strings.Contains(rest, "/")
}

func identityOf(clientID string) (string, bool) {
	_, identity, ok := strings.Cut(clientID, idSeparator)
	return identity, ok && identity != "" && !strings.ContainsAny(identity, "/+#")
}
