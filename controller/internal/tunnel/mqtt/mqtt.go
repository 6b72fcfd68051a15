// Package mqtt carries arklet messages over an MQTT broker (protocol 3).
//
// One connection serves all bases, with one wildcard subscription. Commands have QoS 1 and are never retained: a base
// that connects later must not execute them.
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

// ErrNotConnected reports a command that was not sent because there is no connection to the broker.
var ErrNotConnected = errors.New("not connected to the MQTT broker")

// Options configure a Tunnel.
type Options struct {
	// Broker is a URL: tcp://host:port or ssl://host:port.
	Broker             string
	Username, Password string
	// ClientID is the prefix of the MQTT client ID. Each connection appends a random part, so that no client knows
	// the ID and can disconnect the controller by using it.
	ClientID string
	// Env is the environment in topics, where it is in lower case (protocol 2.3).
	Env string
	// Networks are those in which the address of a base must be; see CheckUnproven.
	Networks tunnel.Networks
	// TLS returns the configuration of the next connection to an ssl:// broker. Nil uses the certificate authorities
	// of the system.
	TLS func() *tls.Config
	// Notice is how soon a half-open connection is closed; default 14 s, minimum 3 s.
	Notice time.Duration
	// Speed divides the pauses between two attempts to connect.
	Speed pace.TimeScale
	// ClearRetained removes the commands and baselines of this environment that the broker has retained.
	// ModuleController V2 leaves them, and bases that connect execute them.
	ClearRetained bool
	// OnConnected is called after each connect and subscription. It may be nil.
	OnConnected func()
	Logger      *slog.Logger
}

// Tunnel is the MQTT tunnel. Its methods may be called concurrently.
type Tunnel struct {
	opts    Options
	handler tunnel.Handler
	prefix  string // koupleless_<env>/
	self    string // the identity in the topics of echo messages, which this process sends to itself
	inbox   *inbox
	queries *inbox // of baselines, which block

	conn    atomic.Pointer[connection] // nil if there is none
	echo    atomic.Pointer[echo]       // of the last connection
	trouble atomic.Pointer[error]      // nil while connected and subscribed
	cleared bool                       // retained commands; only Start's goroutine uses it
}

// New returns a Tunnel that passes messages to handler. It does not connect before Start.
func New(opts Options, handler tunnel.Handler) *Tunnel {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Notice = max(cmp.Or(opts.Notice, defaultNotice), minNotice)
	t := &Tunnel{opts: opts, handler: handler, prefix: "koupleless_" + strings.ToLower(opts.Env) + "/",
		self: "controller-" + rand.Text()}
	t.trouble.Store(&ErrNotConnected)
	t.echo.Store(&echo{})
	return t
}

// Key implements the interface of a tunnel.
func (t *Tunnel) Key() tunnel.Key { return tunnel.MQTT }

// Connected reports whether the tunnel is connected and subscribed.
func (t *Tunnel) Connected() bool { return t.trouble.Load() == nil }

// Trouble returns why the tunnel is not connected and subscribed; nil if it is.
func (t *Tunnel) Trouble() error {
	if err := t.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Send publishes a command; the Handler gets the answer. Without a connection it fails with ErrNotConnected, because
// a queued command could reach the base much later. It omits a query that the broker has not acknowledged within a
// second.
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
	if question && c.queries.pending(topic, time.Now()) {
		return nil
	}
	token := c.client.Publish(topic, 1, false, body)
	if question {
		c.queries.add(topic, token, time.Now())
	}
	select {
	case <-token.Done():
		if err := token.Error(); err != nil {
			return fmt.Errorf("publishing to %s: %w", topic, err)
		}
	default: // on its way
	}
	return nil
}

// receive runs in the reading goroutine of the connection, so it only queues messages.
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
	if m.Retained() { // bases retain no messages
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

var errFull = errors.New("more messages wait than there is room for")

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

// parseTopic splits koupleless_<env>/<identity>/base/<kind>. err is about the identity.
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

// dispatch decodes a message and passes it to the handler, or returns why it does not.
func (t *Tunnel) dispatch(from tunnel.Origin, kind string, data []byte) (reason tunnel.Rejection, err error) {
	switch kind {
	case "heart":
		var h arklet.Heartbeat
		h, err = arklet.DecodeHeartbeat(data)
		if err != nil {
			break
		}
		if h.Identity != "" && h.Identity != from.Identity {
			return tunnel.WrongIdentity,
				fmt.Errorf("the heartbeat on the topic of %q is from %q", from.Identity, h.Identity)
		}
		h.Identity = from.Identity // generations A and B say it in the topic only
		if h.IP != "" {
			h.IP, err = t.opts.Networks.CheckUnproven(h.IP)
			if err != nil {
				break
			}
		}
		t.handler.Heartbeat(from, h)
	case "queryBaseline":
		var m arklet.Metadata
		m, err = arklet.DecodeMetadata(data)
		if err != nil {
			break
		}
		if m.Identity != "" && m.Identity != from.Identity {
			return tunnel.WrongIdentity,
				fmt.Errorf("the baseline query on the topic of %q is from %q", from.Identity, m.Identity)
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

// pass decodes a message and passes it on, also a list without its invalid entries.
func pass[M any](from tunnel.Origin, data []byte, decode func([]byte) (M, error), on func(tunnel.Origin, M)) error {
	m, err := decode(data)
	if err == nil || errors.Is(err, arklet.ErrDropped) {
		on(from, m)
	}
	return err
}

// answerBaseline uses a queue of its own, because the handler reads many objects.
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
