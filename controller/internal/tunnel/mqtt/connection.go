package mqtt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// ErrRefused means that the broker accepted the connection but refused the subscription.
var ErrRefused = errors.New("the MQTT broker refused the subscription")

// Defaults of the connection: the time to detect a half-open connection, the delays between connection attempts, and
// the handshake timeout.
const (
	defaultDetectWithin = 14 * time.Second
	minDetectWithin     = 3 * time.Second
	firstPause          = 250 * time.Millisecond
	longestPause        = 5 * time.Second
	handshake           = 10 * time.Second // until CONNACK, and until SUBACK
)

// keepAlive returns the keep-alive period k and the ping timeout for a maximum time to detect a half-open connection.
// The library sends a ping after at most 5/4 k without messages. It detects a missing ping response within timeout +
// k/4.
func keepAlive(detectWithin time.Duration) (k, timeout time.Duration) {
	k = (detectWithin * 3 / 7).Truncate(time.Second)
	return k, detectWithin - k*3/2
}

// Start connects the tunnel to the broker until ctx is done. It reconnects the tunnel after each lost connection.
func (t *Tunnel) Start(ctx context.Context) error {
	t.inbox, t.queries = newInbox(inboxWorkers), newInbox(tunnel.MaxBaselineQueries)
	defer t.queries.stop()
	defer t.inbox.stop() // first, because its workers queue baseline queries
	pause, logged := t.opts.TimeScale.Of(firstPause), ""
	for {
		served, err := t.serve(ctx)
		t.connErr.Store(&err)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the error of the connection does not matter
		}
		if served {
			pause, logged = t.opts.TimeScale.Of(firstPause), ""
		}
		if err.Error() != logged { // log the same error once
			logged = err.Error()
			t.opts.Logger.Warn("not connected to the MQTT broker", "broker", t.opts.Broker, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, t.opts.TimeScale.Of(longestPause))
	}
}

type connection struct {
	client  paho.Client
	queries queries
}

// serve connects to the broker, and blocks until the connection is lost or ctx is done. served reports whether the
// subscription succeeded. Each connection has a new client. Otherwise, the library would resend unacknowledged
// commands over the next connection.
func (t *Tunnel) serve(ctx context.Context) (served bool, err error) {
	lost := make(chan error, 1)
	options := t.clientOptions(func(err error) { lost <- err })
	client := paho.NewClient(options)
	defer client.Disconnect(100) // milliseconds for messages in progress
	switch err := wait(ctx, client.Connect(), handshake); {
	case errors.Is(err, packets.ErrorRefusedIDRejected):
		// The error does not contain the random part of the ID, so that Start logs it once.
		return false, fmt.Errorf("the broker rejected the client ID %q (%d bytes with its random suffix): %w; "+
			"allow this client ID in the settings of the broker, or set another MQTT_CLIENT_PREFIX", t.opts.ClientID,
			len(options.ClientID), err)
	case err != nil:
		return false, fmt.Errorf("connecting to the broker: %w", err)
	}
	t.conn.Store(&connection{client: client, queries: queries{sent: map[string]sentQuery{}}})
	defer t.conn.Store(nil)
	filter := t.prefix + "+/base/+"
	if err := subscribe(ctx, client, filter, t.receive); err != nil {
		return false, err
	}
	t.connErr.Store(nil)
	defer t.connErr.Store(&ErrNotConnected)
	t.opts.Logger.Info("connected to the MQTT broker", "broker", t.opts.Broker, "topic", filter)
	if t.opts.OnConnected != nil {
		t.opts.OnConnected()
	}
	cleared := t.clearRetained(ctx, client)
	e := t.echo.Load().forNextConnection()
	t.echo.Store(e)
	echoCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go t.echoes(echoCtx, client, e)
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case err := <-lost:
			return true, fmt.Errorf("the connection was lost: %w", cmp.Or(err, ErrNotConnected))
		case <-cleared:
			t.stopClearing(client)
			cleared = nil
		}
	}
}

// randomID is the number of random characters in an MQTT client ID. With usual prefixes, the ID has at most 64
// characters, which is the limit of some brokers.
const randomID = 7

func (t *Tunnel) clientOptions(onLost func(error)) *paho.ClientOptions {
	k, timeout := keepAlive(t.opts.DetectWithin)
	o := paho.NewClientOptions().
		AddBroker(t.opts.Broker).
		SetClientID(t.opts.ClientID + "-" + rand.Text()[:randomID]).
		SetProtocolVersion(4). // 3.1.1; without it, the library repeats each refused attempt with another version
		SetCleanSession(true).
		SetKeepAlive(k).
		SetPingTimeout(timeout).
		SetConnectTimeout(handshake).
		SetWriteTimeout(timeout). // writes to a half-open connection block at some point
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetOrderMatters(true).
		SetCustomOpenConnectionFn(dial).
		SetDefaultPublishHandler(ignore).
		SetConnectionLostHandler(func(_ paho.Client, err error) { onLost(err) })
	if t.opts.Username != "" {
		o.SetUsername(t.opts.Username).SetPassword(t.opts.Password)
	}
	if t.opts.TLS != nil {
		o.SetTLSConfig(t.opts.TLS())
	}
	return o
}

// ignore handles messages without a subscription. It is needed because the library acknowledges only messages with a
// handler, and a broker stops sending messages when too many messages are unacknowledged.
func ignore(paho.Client, paho.Message) {}

// refused is the SUBACK return code for a failed subscription [MQTT-3.9.3-1].
const refused = 0x80

// subscribe subscribes with QoS 1. It checks whether the SUBACK contains a refusal, because the library does not
// report it.
func subscribe(ctx context.Context, client paho.Client, filter string, receive paho.MessageHandler) error {
	token := client.Subscribe(filter, 1, receive)
	if err := wait(ctx, token, handshake); err != nil {
		return fmt.Errorf("subscribing to %s: %w", filter, err)
	}
	if granted, is := token.(*paho.SubscribeToken); is && granted.Result()[filter] >= refused {
		return fmt.Errorf("subscribing to %s: %w", filter, ErrRefused)
	}
	return nil
}

// wait blocks until a token is complete, ctx is done, or the time atMost has passed.
func wait(ctx context.Context, token paho.Token, atMost time.Duration) error {
	late := time.NewTimer(atMost)
	defer late.Stop()
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return fmt.Errorf("the MQTT broker did not respond within %s", atMost)
	}
}
