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
	// BaseUser is the user name that all bases share; a base is told from another
	// by its client id, which is <prefix>@@@<identity> (protocol 3.1).
	BaseUser = "base"

	idSeparator = "@@@"
)

// Passwords are the secrets of a broker's two users.
type Passwords struct {
	Controller string `json:"controller"`
	Base       string `json:"base"`
}

// NewPasswords makes a pair that cannot be guessed.
func NewPasswords() Passwords {
	return Passwords{Controller: rand.Text(), Base: rand.Text()}
}

// access is the hook that decides who may do what. It does not allocate, as
// mochi asks it for every message and every receiver.
type access struct {
	mqtt.HookBase
	passwords Passwords
	root      string // "koupleless_<env>/"
	log       *slog.Logger
}

// ID names the hook.
func (a *access) ID() string { return "access" }

// Provides tells mochi which questions the hook answers.
func (a *access) Provides(question byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnectAuthenticate, mqtt.OnACLCheck}, question) >= 0
}

// OnConnectAuthenticate accepts the two users with their passwords. It refuses a base whose identity has a wildcard of
// topic filters, because this base could subscribe to the topics of other bases.
func (a *access) OnConnectAuthenticate(cl *mqtt.Client, pk packets.Packet) bool {
	var want string
	switch string(pk.Connect.Username) {
	case ControllerUser:
		want = a.passwords.Controller
	case BaseUser:
		if _, ok := identityOf(cl.ID); !ok {
			a.log.Warn("base turned away: its client id is not <prefix>@@@<identity> with an identity free of / + #",
				"clientID", cl.ID)
			return false
		}
		want = a.passwords.Base
	default:
		a.log.Warn("client turned away: unknown user", "clientID", cl.ID, "user", string(pk.Connect.Username))
		return false
	}
	if subtle.ConstantTimeCompare(pk.Connect.Password, []byte(want)) != 1 {
		a.log.Warn("client turned away: wrong password", "clientID", cl.ID, "user", string(pk.Connect.Username))
		return false
	}
	return true
}

// OnACLCheck decides on publishing (write) and on subscribing and receiving. For
// a subscription the topic is its filter.
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
