// Package mqtt carries arklet messages over an MQTT broker (protocol 3).
//
// One connection serves all bases. It subscribes with one wildcard, again on every connect, so that
// no base is lost when the broker comes back. Commands go out with QoS 1 and are never retained: a
// base that connects later must not run what was meant for another.
package mqtt

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/mutation"
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
	// ClientID is unique on the broker: two clients of one name throw each other out.
	ClientID string
	// Env is the environment in topics; it is written in lower case, as bases do (protocol 2.3).
	Env string
	// TLS is used with ssl:// brokers; nil verifies against the system's authorities.
	TLS *tls.Config
	// OnConnected is called after every connect, once the subscription stands; it may be nil.
	OnConnected func()
	// Logger is where connection changes go; nil discards them.
	Logger *slog.Logger
}

// Tunnel is the MQTT side of the controller. All its methods may be called concurrently.
type Tunnel struct {
	opts    Options
	handler tunnel.Handler
	client  paho.Client
	prefix  string // koupleless_<env>/
	answers sync.WaitGroup
}

// keepAlive is what the original controller uses; a base uses 60 s (protocol 3.1).
const keepAlive = 180 * time.Second

// New prepares a tunnel that tells handler what bases say. Nothing is dialled before Start.
func New(opts Options, handler tunnel.Handler) *Tunnel {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	t := &Tunnel{opts: opts, handler: handler, prefix: "koupleless_" + strings.ToLower(opts.Env) + "/"}
	o := paho.NewClientOptions().
		AddBroker(opts.Broker).
		SetClientID(opts.ClientID).
		SetCleanSession(true).
		SetKeepAlive(keepAlive).
		SetConnectTimeout(10 * time.Second).
		SetWriteTimeout(10 * time.Second).
		SetAutoReconnect(true).
		SetMaxReconnectInterval(5 * time.Second).
		SetConnectRetry(true).
		SetConnectRetryInterval(500 * time.Millisecond).
		SetOrderMatters(true).
		SetOnConnectHandler(t.subscribe).
		SetConnectionLostHandler(func(_ paho.Client, err error) {
			t.opts.Logger.Warn("lost the connection to the MQTT broker", "broker", opts.Broker, "err", err)
		})
	if opts.Username != "" {
		o.SetUsername(opts.Username).SetPassword(opts.Password)
	}
	if opts.TLS != nil {
		o.SetTLSConfig(opts.TLS)
	}
	t.client = paho.NewClient(o)
	return t
}

// Key names the tunnel.
func (t *Tunnel) Key() tunnel.Key { return tunnel.MQTT }

// Start connects, retrying for as long as it takes, and blocks until ctx ends.
func (t *Tunnel) Start(ctx context.Context) error {
	t.client.Connect() // retries on its own; what becomes of it shows in Connected
	<-ctx.Done()
	t.client.Disconnect(100) // milliseconds for what is under way
	t.answers.Wait()
	return nil
}

// Connected says whether the broker can be reached at this moment.
func (t *Tunnel) Connected() bool { return t.client.IsConnectionOpen() }

func (t *Tunnel) subscribe(c paho.Client) {
	filter := t.prefix + "+/base/+"
	token := c.Subscribe(filter, 1, t.receive)
	token.Wait()
	if err := token.Error(); err != nil {
		t.opts.Logger.Error("subscribing failed", "topic", filter, "err", err)
		return
	}
	t.opts.Logger.Info("connected to the MQTT broker", "broker", t.opts.Broker, "topic", filter)
	if t.opts.OnConnected != nil {
		t.opts.OnConnected()
	}
}

// Send publishes a command for a base and returns when it is handed to the connection; the answer
// comes through the Handler. Without a connection it fails with ErrNotConnected: a command must not
// wait in a queue for a base that is another one by then.
func (t *Tunnel) Send(_ context.Context, to tunnel.Address, r arklet.Request) error {
	if r.Command == arklet.CommandSwitchBiz {
		return fmt.Errorf("%s: %w", r.Command, tunnel.ErrNotSupported)
	}
	body, err := r.Body()
	if err != nil {
		return err
	}
	return t.publish(t.prefix+to.Identity+"/"+string(r.Command), body)
}

func (t *Tunnel) publish(topic string, body []byte) error {
	if !t.client.IsConnectionOpen() {
		return fmt.Errorf("publishing to %s: %w", topic, ErrNotConnected)
	}
	token := t.client.Publish(topic, 1, mutation.RetainCommands, body)
	select {
	case <-token.Done():
		if err := token.Error(); err != nil {
			return fmt.Errorf("publishing to %s: %w", topic, err)
		}
	default: // on its way
	}
	return nil
}

// receive runs in the connection's reading goroutine.
func (t *Tunnel) receive(_ paho.Client, m paho.Message) {
	identity, kind, ok := t.parseTopic(m.Topic())
	from := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity}
	if !ok || kind == "baseline" { // our own baselines match the wildcard too
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
	e, err := arklet.DecodeEnvelope(m.Payload())
	if err != nil {
		t.handler.Rejected(from, kind, tunnel.Malformed, err)
		return
	}
	from.At = time.UnixMilli(e.PublishTimestamp)
	if reason, err := t.dispatch(from, kind, e.Data); reason != "" {
		t.handler.Rejected(from, kind, reason, err)
	}
}

// parseTopic splits koupleless_<env>/<identity>/base/<kind>.
func (t *Tunnel) parseTopic(topic string) (identity, kind string, ok bool) {
	rest, ok := strings.CutPrefix(topic, t.prefix)
	if !ok {
		return "", "", false
	}
	identity, kind, ok = strings.Cut(rest, "/base/")
	return identity, kind, ok && identity != "" && kind != ""
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
		t.answerBaseline(from, m)
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
		return tunnel.Malformed, err
	}
	return "", nil
}

// pass decodes a message and passes it on.
func pass[M any](from tunnel.Origin, data []byte, decode func([]byte) (M, error), on func(tunnel.Origin, M)) error {
	m, err := decode(data)
	if err == nil {
		on(from, m)
	}
	return err
}

// answerBaseline asks the handler off the reading goroutine, since choosing the modules reads many
// objects.
func (t *Tunnel) answerBaseline(from tunnel.Origin, m arklet.Metadata) {
	t.answers.Go(func() {
		body, err := arklet.BaselineBody(t.handler.BaselineQuery(from, m))
		if err == nil {
			err = t.publish(t.prefix+from.Identity+"/base/baseline", body)
		}
		if err != nil {
			t.opts.Logger.Warn("could not answer a baseline query", "base", from.Identity, "err", err)
		}
	})
}
