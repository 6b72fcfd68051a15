// Package mqtt implements the MQTT tunnel, which exchanges arklet messages with bases through a broker (protocol 3).
//
// One connection with one wildcard subscription serves all bases. Commands have QoS 1. They are not retained, because a
// base that connects later must not execute them.
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

// ErrNotConnected means that a command was not sent because the tunnel is not connected to the broker.
var ErrNotConnected = errors.New("not connected to the MQTT broker")

// Options configure a Tunnel.
type Options struct {
	// Broker is the broker URL: tcp://host:port or ssl://host:port.
	Broker             string
	Username, Password string
	// ClientID is the prefix of the MQTT client ID. Each connection appends a random suffix, because a client that
	// knows the ID could disconnect the controller.
	ClientID string
	// Env is the environment. Topics contain it in lower case (protocol 3.2).
	Env string
	// Networks are the networks that contain the addresses that bases may report; see CheckUnproven.
	Networks tunnel.Networks
	// TLS returns the TLS configuration for the next connection to an ssl:// broker. If it is nil, the system
	// certificate authorities are used.
	TLS func() *tls.Config
	// DetectWithin is the time within which a half-open connection is detected; default 14 s, minimum 3 s.
	DetectWithin time.Duration
	// TimeScale divides the delays between two connection attempts.
	TimeScale pace.TimeScale
	// ClearRetained makes the tunnel remove the retained commands and baselines of this environment from the broker.
	// ModuleController V2 leaves them on the broker, and bases execute them when they connect.
	ClearRetained bool
	// OnConnected is called each time the tunnel has connected and subscribed. It may be nil.
	OnConnected func()
	Logger      *slog.Logger
}

// Tunnel is the MQTT tunnel. Its methods are safe for concurrent use.
type Tunnel struct {
	opts    Options
	handler tunnel.Handler
	prefix  string // topic prefix: koupleless_<env>/
	self    string // identity of this process in the topic of echoes
	inbox   *inbox
	queries *inbox // queue of baseline queries, whose handler blocks

	conn            atomic.Pointer[connection] // nil while not connected
	echo            atomic.Pointer[echo]       // echo of the current or last connection
	connErr         atomic.Pointer[error]      // nil while the tunnel is connected and subscribed
	retainedCleared bool                       // retained commands were removed; used only by the goroutine of Start
}

// New returns a Tunnel that passes messages to handler. It does not connect before Start is called.
func New(opts Options, handler tunnel.Handler) *Tunnel {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.DetectWithin = max(cmp.Or(opts.DetectWithin, defaultDetectWithin), minDetectWithin)
	t := &Tunnel{opts: opts, handler: handler, prefix: "koupleless_" + strings.ToLower(opts.Env) + "/",
		self: "controller-" + rand.Text()}
	t.connErr.Store(&ErrNotConnected)
	t.echo.Store(&echo{})
	return t
}

// Key returns tunnel.MQTT.
func (t *Tunnel) Key() tunnel.Key { return tunnel.MQTT }

// Connected reports whether the tunnel is connected to the broker and subscribed.
func (t *Tunnel) Connected() bool { return t.connErr.Load() == nil }

// ConnectionError returns the reason why the tunnel is not connected and subscribed. It is nil if the tunnel is
// connected and subscribed.
func (t *Tunnel) ConnectionError() error {
	if err := t.connErr.Load(); err != nil {
		return *err
	}
	return nil
}

// Send publishes a command. The answer is passed to the Handler. If the tunnel is not connected, Send returns
// ErrNotConnected, because a queued command could arrive much later. Send does not repeat a query if the broker has
// not acknowledged the previous one within a second.
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
	return t.publish(t.prefix+to.Identity+"/"+string(r.Command), r.Command.IsQuery(), body)
}

func (t *Tunnel) publish(topic string, isQuery bool, body []byte) error {
	c := t.conn.Load()
	if c == nil || !c.client.IsConnectionOpen() {
		return fmt.Errorf("publishing to %s: %w", topic, ErrNotConnected)
	}
	if isQuery && c.queries.isPending(topic, time.Now()) {
		return nil
	}
	token := c.client.Publish(topic, 1, false, body)
	if isQuery {
		c.queries.add(topic, token, time.Now())
	}
	select {
	case <-token.Done():
		if err := token.Error(); err != nil {
			return fmt.Errorf("publishing to %s: %w", topic, err)
		}
	default: // not sent yet
	}
	return nil
}

// receive queues a received message. It must not block, because it runs in the goroutine that reads from the
// connection.
func (t *Tunnel) receive(c paho.Client, m paho.Message) {
	identity, kind, ok, err := t.parseTopic(m.Topic())
	if !ok {
		return
	}
	if err != nil { // the origin has no identity, because it is invalid
		t.handler.Rejected(tunnel.Origin{Tunnel: tunnel.MQTT}, kind, tunnel.ReasonOf(err), err)
		return
	}
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity}
	if kind == "baseline" { // the wildcard matches the baselines of controllers
		if identity == t.self && !m.Retained() {
			t.handleEcho(m)
		}
		t.clear(c, m)
		return
	}
	if m.Retained() { // bases do not send retained messages
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

var errFull = errors.New("too many messages are queued")

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

// parseTopic parses a topic of the form koupleless_<env>/<identity>/base/<kind>. ok reports whether the topic has
// this form. err is not nil if the identity is invalid.
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
	if arklet.CheckIdentity(kind) != nil { // kind is a metric label
		kind = "other"
	}
	return identity, kind, true, arklet.CheckIdentity(identity)
}

// dispatch decodes a message and passes it to the handler. If the message is rejected, dispatch returns the reason.
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
				fmt.Errorf("received a heartbeat of base %q on the topic of base %q", h.Identity, from.Identity)
		}
		h.Identity = from.Identity // in generations A and B, only the topic has the identity
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
				fmt.Errorf("received a baseline query of base %q on the topic of base %q", m.Identity,
					from.Identity)
		}
		m.Identity = from.Identity
		return t.answerBaseline(from, m)
	case "health":
		err = decodeAndHandle(from, data, arklet.DecodeHealth, t.handler.Health)
	case "simpleBiz":
		err = decodeAndHandle(from, data, arklet.DecodeSimpleBiz, t.handler.BizList)
	case "biz": // generation A
		err = decodeAndHandle(from, data, arklet.DecodeBizListOutput, t.handler.BizList)
	case "bizOperation":
		err = decodeAndHandle(from, data, arklet.DecodeBizOperation, func(from tunnel.Origin, a arklet.Answer) {
			a.PublishedAt = from.At
			t.handler.Answer(from, a)
		})
	case "batchInstallBizResponse":
		err = decodeAndHandle(from, data, arklet.DecodeBatchInstall, t.handler.BatchAnswer)
	default:
		return tunnel.Unexpected, nil
	}
	if err != nil {
		return tunnel.ReasonOf(err), err
	}
	return "", nil
}

// decodeAndHandle decodes a message and passes it to handle. If invalid entries of a module list were dropped, it
// still passes the list.
func decodeAndHandle[M any](from tunnel.Origin, data []byte, decode func([]byte) (M, error),
	handle func(tunnel.Origin, M)) error {
	m, err := decode(data)
	if err == nil || errors.Is(err, arklet.ErrDropped) {
		handle(from, m)
	}
	return err
}

// answerBaseline queues a baseline query. It uses a separate queue, because the handler of baseline queries blocks.
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
