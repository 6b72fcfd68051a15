// Package mqtt carries arklet messages over an MQTT broker (protocol 3).
//
// One connection serves all bases. It subscribes with one wildcard, again on every connect, so that
// no base is lost when the broker comes back. Commands go out with QoS 1 and are never retained: a
// base that connects later must not run what was meant for another.
package mqtt

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// ErrNotConnected says that a command was not sent because the broker is away.
var ErrNotConnected = errors.New("not connected to the MQTT broker")

// Options configure a Tunnel.
type Options struct {
	// Broker is a URL: tcp://host:port or ssl://host:port.
	Broker string
	// Username and Password are sent when Username is not empty.
	Username, Password string
	// ClientID is the prefix of the MQTT client id. Each connection appends a random part: a broker disconnects
	// a client if another one connects with its id, so no client may know the id of a controller.
	ClientID string
	// Env is the environment in topics; it is written in lower case, as bases do (protocol 2.3).
	Env string
	// Networks are the networks in which the address of a base must be. If there are none, any address is
	// allowed that is not refused in general; see CheckUnproven.
	Networks tunnel.Networks
	// TLS returns the configuration of the next connection to an ssl:// broker. Nil verifies the broker
	// with the authorities of the system.
	TLS func() *tls.Config
	// Notice is how soon a connection that carries nothing any more counts as lost; 0 means 14 s,
	// and less than 3 s counts as 3 s.
	Notice time.Duration
	// Speed divides the pauses between two attempts to connect.
	Speed pace.Speed
	// ClearRetained removes, once, the commands and baselines of this environment that the broker
	// has retained: a controller before this one left them, and bases that connect would run them.
	ClearRetained bool
	// OnConnected is called after every connect, once the subscription stands; it may be nil.
	OnConnected func()
	// Logger is where connection changes go; nil discards them.
	Logger *slog.Logger
}

// Tunnel is the MQTT side of the controller. All its methods may be called concurrently.
type Tunnel struct {
	opts    Options
	handler tunnel.Handler
	prefix  string // koupleless_<env>/
	self    string // the identity in the topics of echo messages, which this process sends to itself
	inbox   *inbox
	queries *inbox // of baselines, which block

	conn    atomic.Pointer[connection] // that stands, nil without one
	echo    atomic.Pointer[echo]       // of the last connection
	trouble atomic.Pointer[error]      // nil while connected and subscribed
	cleared bool                       // retained commands; only Start's goroutine uses it
}

// New prepares a tunnel that tells handler what bases say. Nothing is dialled before Start.
func New(opts Options, handler tunnel.Handler) *Tunnel {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Notice = max(cmp.Or(opts.Notice, defaultNotice), minNotice)
	t := &Tunnel{opts: opts, handler: handler, prefix: "koupleless_" + strings.ToLower(opts.Env) + "/", self: "controller-" + rand.Text()}
	t.trouble.Store(&ErrNotConnected)
	t.echo.Store(&echo{})
	return t
}

// Key names the tunnel.
func (t *Tunnel) Key() tunnel.Key { return tunnel.MQTT }

// Connected says whether the broker can be reached at this moment, and sends what bases say.
func (t *Tunnel) Connected() bool { return t.trouble.Load() == nil }

// Trouble says why the tunnel is not connected and subscribed; nil if it is.
func (t *Tunnel) Trouble() error {
	if err := t.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Send publishes a command for a base and returns when it is handed to the connection; the answer
// comes through the Handler. Without a connection it fails with ErrNotConnected: a command must not
// wait in a queue for a base that is another one by then. A question that is still on its way to the broker
// after a second is not sent once more; when too much is on its way, nothing is.
func (t *Tunnel) Send(_ context.Context, to tunnel.Address, r arklet.Request) error {
	if r.Command == arklet.CommandSwitchBiz {
		return fmt.Errorf("%s: %w", r.Command, tunnel.ErrNotSupported)
	}
	body, err := r.Body()
	if err != nil {
		return err
	}
	if !t.Connected() {
		return ErrNotConnected
	}
	return t.publish(t.prefix+to.Identity+"/"+string(r.Command), r.Command.IsQuestion(), body)
}

func (t *Tunnel) publish(topic string, question bool, body []byte) error {
	c := t.conn.Load()
	if c == nil || !c.client.IsConnectionOpen() {
		return fmt.Errorf("publishing to %s: %w", topic, ErrNotConnected)
	}
	if may, err := c.unacknowledged.admit(topic, question, time.Now()); err != nil {
		return fmt.Errorf("publishing to %s: %w", topic, err)
	} else if !may {
		return nil
	}
	token := c.client.Publish(topic, 1, false, body)
	c.unacknowledged.note(topic, question, token, time.Now())
	select {
	case <-token.Done():
		if err := token.Error(); err != nil {
			return fmt.Errorf("publishing to %s: %w", topic, err)
		}
	default: // on its way
	}
	return nil
}

// receive runs in the connection's reading goroutine, so what takes long goes through the inbox.
func (t *Tunnel) receive(c paho.Client, m paho.Message) {
	identity, kind, ok, err := t.parseTopic(m.Topic())
	if !ok {
		return
	}
	if err != nil { // nothing of it is shown as a name
		t.handler.Rejected(tunnel.Origin{Tunnel: tunnel.MQTT}, kind, tunnel.ReasonOf(err), err)
		return
	}
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity}
	if kind == "baseline" { // our own baselines match the wildcard too
		if identity == t.self && !m.Retained() {
			t.heardItself(m)
		}
		t.clear(c, m)
		return
	}
	if m.Retained() { // a base retains nothing: this is what an older controller or somebody else left behind
		t.handler.Rejected(from, kind, tunnel.Retained, nil)
		return
	}
	if len(m.Payload()) > arklet.MaxPayload {
		t.handler.Rejected(from, kind, tunnel.Oversized, arklet.ErrTooLarge)
		return
	}
	if !t.inbox.put(identity, len(m.Payload()), func() { t.read(from, kind, m.Payload()) }) {
		t.handler.Rejected(from, kind, tunnel.TooMany, errFull)
	}
}

// errFull says why a message was not read.
var errFull = errors.New("more messages wait than there is room for")

// read decodes a message and acts on it.
func (t *Tunnel) read(from tunnel.Origin, kind string, payload []byte) {
	e, err := arklet.DecodeEnvelope(payload)
	if err != nil {
		t.handler.Rejected(from, kind, tunnel.ReasonOf(err), err)
		return
	}
	from.At = time.UnixMilli(e.PublishTimestamp)
	if reason, err := t.dispatch(from, kind, e.Data); reason != "" {
		t.handler.Rejected(from, kind, reason, err)
	}
}

// parseTopic splits koupleless_<env>/<identity>/base/<kind>. A topic of something else is not ok; err
// says what is wrong with the identity.
func (t *Tunnel) parseTopic(topic string) (identity, kind string, ok bool, err error) {
	rest, ok := strings.CutPrefix(topic, t.prefix)
	if !ok {
		return "", "", false, nil
	}
	i := strings.LastIndex(rest, "/base/")
	if i < 0 {
		return "", "", false, nil
	}
	identity, kind = rest[:i], rest[i+len("/base/"):]
	if arklet.CheckIdentity(kind) != nil { // no base sends it
		kind = "other"
	}
	return identity, kind, true, arklet.CheckIdentity(identity)
}

// dispatch decodes by kind and calls the handler; a reason says why it did not.
func (t *Tunnel) dispatch(from tunnel.Origin, kind string, data []byte) (reason tunnel.Rejection, err error) {
	switch kind {
	case "heart":
		var h arklet.Heartbeat
		if h, err = arklet.DecodeHeartbeat(data); err != nil {
			break
		}
		if h.Identity != "" && h.Identity != from.Identity {
			return tunnel.WrongIdentity, fmt.Errorf("the heartbeat on the topic of %q is from %q", from.Identity, h.Identity)
		}
		h.Identity = from.Identity // generations A and B say it in the topic only
		if h.IP != "" {
			if h.IP, err = t.opts.Networks.CheckUnproven(h.IP); err != nil {
				break
			}
		}
		t.handler.Heartbeat(from, h)
	case "queryBaseline":
		var m arklet.Metadata
		if m, err = arklet.DecodeMetadata(data); err != nil {
			break
		}
		if m.Identity != "" && m.Identity != from.Identity {
			return tunnel.WrongIdentity, fmt.Errorf("the baseline query on the topic of %q is from %q", from.Identity, m.Identity)
		}
		m.Identity = from.Identity
		return t.answerBaseline(from, m)
	case "health":
		err = pass(from, data, arklet.DecodeHealth, t.handler.Health)
	case "simpleBiz":
		err = pass(from, data, arklet.DecodeSimpleBiz, t.handler.BizList)
	case "biz": // generation A
		err = pass(from, data, arklet.DecodeBizListOutput, t.handler.BizList)
	case "bizOperation":
		err = pass(from, data, arklet.DecodeBizOperation, func(from tunnel.Origin, a arklet.Answer) {
			a.PublishedAt = from.At
			t.handler.Answer(from, a)
		})
	case "batchInstallBizResponse":
		err = pass(from, data, arklet.DecodeBatchInstall, t.handler.BatchAnswer)
	default:
		return tunnel.Unexpected, nil
	}
	if err != nil {
		return tunnel.ReasonOf(err), err
	}
	return "", nil
}

// pass decodes a message and passes it on. It also passes on a list from which invalid entries were dropped.
func pass[M any](from tunnel.Origin, data []byte, decode func([]byte) (M, error), on func(tunnel.Origin, M)) error {
	m, err := decode(data)
	if err == nil || errors.Is(err, arklet.ErrDropped) {
		on(from, m)
	}
	return err
}

// answerBaseline asks the handler apart from other messages: choosing the modules reads many objects.
func (t *Tunnel) answerBaseline(from tunnel.Origin, m arklet.Metadata) (tunnel.Rejection, error) {
	if !t.queries.put(from.Identity, 0, func() {
		body, err := arklet.BaselineBody(t.handler.BaselineQuery(from, m))
		if err == nil {
			err = t.publish(t.prefix+from.Identity+"/base/baseline", false, body)
		}
		if err != nil {
			t.opts.Logger.Warn("could not answer a baseline query", "base", from.Identity, "err", err)
		}
	}) {
		return tunnel.TooMany, errFull
	}
	return "", nil
}
