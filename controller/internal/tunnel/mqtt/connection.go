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

// ErrRefused reports that the broker accepted the connection and refused the subscription.
var ErrRefused = errors.New("the MQTT broker refused the subscription")

// How soon a half-open connection is closed, and the delays between connection attempts.
const (
	defaultDetectWithin = 14 * time.Second
	minDetectWithin     = 3 * time.Second
	firstPause          = 250 * time.Millisecond
	longestPause        = 5 * time.Second
	handshake           = 10 * time.Second // until CONNACK, and until SUBACK
)

// keepAlive returns the keep-alive period and the ping timeout. The library pings after at most 5/4 k without
// messages, and notices a missing answer within timeout + k/4. So a half-open connection is noticed within notice.
func keepAlive(notice time.Duration) (k, timeout time.Duration) {
	k = (notice * 3 / 7).Truncate(time.Second)
	return k, notice - k*3/2
}

// Start keeps the tunnel connected until ctx ends.
func (t *Tunnel) Start(ctx context.Context) error {
	t.inbox, t.queries = newInbox(inboxWorkers), newInbox(tunnel.MaxBaselineQueries)
	defer t.queries.stop()
	defer t.inbox.stop() // first: it puts queries
	pause, said := t.opts.Speed.Of(firstPause), ""
	for {
		served, err := t.serve(ctx)
		t.connErr.Store(&err)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // whatever ended the connection, it was to end
		}
		if served {
			pause, said = t.opts.Speed.Of(firstPause), ""
		}
		if err.Error() != said { // log the same error once
			said = err.Error()
			t.opts.Logger.Warn("no connection to the MQTT broker", "broker", t.opts.Broker, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, t.opts.Speed.Of(longestPause))
	}
}

type connection struct {
	client  paho.Client
	queries queries
}

// serve connects and blocks until the connection is lost or ctx ends. served reports whether it was subscribed. Each
// connection has a client of its own: otherwise the library would send unacknowledged commands again on the next
// connection.
func (t *Tunnel) serve(ctx context.Context) (served bool, err error) {
	lost := make(chan error, 1)
	options := t.clientOptions(func(err error) { lost <- err })
	client := paho.NewClient(options)
	defer client.Disconnect(100) // milliseconds for what is under way
	switch err := wait(ctx, client.Connect(), handshake); {
	case errors.Is(err, packets.ErrorRefusedIDRejected):
		// Without the random part of the id, so that Start logs the error once.
		return false, fmt.Errorf("the broker refuses the client id %q and a random part, %d bytes: %w; "+
			"allow it in its settings, or set another MQTT_CLIENT_PREFIX", t.opts.ClientID, len(options.ClientID), err)
	case err != nil:
		return false, fmt.Errorf("connecting: %w", err)
	}
	t.conn.Store(&connection{client: client, queries: queries{sent: map[string]sent{}}})
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
	e := t.echo.Load().anew()
	t.echo.Store(e)
	stands, ended := context.WithCancel(ctx)
	defer ended()
	go t.echoes(stands, client, e)
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

// randomID is the number of random characters in a client ID. It keeps IDs within 64 characters, the limit of some
// brokers.
const randomID = 7

func (t *Tunnel) clientOptions(lost func(error)) *paho.ClientOptions {
	k, timeout := keepAlive(t.opts.DetectWithin)
	o := paho.NewClientOptions().
		AddBroker(t.opts.Broker).
		SetClientID(t.opts.ClientID + "-" + rand.Text()[:randomID]).
		SetProtocolVersion(4). // 3.1.1; otherwise the library repeats each refused attempt with another version
		SetCleanSession(true).
		SetKeepAlive(k).
		SetPingTimeout(timeout).
		SetConnectTimeout(handshake).
		SetWriteTimeout(timeout). // a half-open connection takes no more at some time
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetOrderMatters(true).
		SetCustomOpenConnectionFn(dial).
		SetDefaultPublishHandler(ignore).
		SetConnectionLostHandler(func(_ paho.Client, err error) { lost(err) })
	if t.opts.Username != "" {
		o.SetUsername(t.opts.Username).SetPassword(t.opts.Password)
	}
	if t.opts.TLS != nil {
		o.SetTLSConfig(t.opts.TLS())
	}
	return o
}

// ignore receives messages without a subscription: the library acknowledges only messages that have a handler, and a
// broker stops sending when too many are not acknowledged.
func ignore(paho.Client, paho.Message) {}

// refused is the return code of a SUBACK [MQTT-3.9.3-1].
const refused = 0x80

// subscribe subscribes with QoS 1. The library reports no error if the broker refuses in the SUBACK.
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

// wait waits for a token.
func wait(ctx context.Context, token paho.Token, atMost time.Duration) error {
	late := time.NewTimer(atMost)
	defer late.Stop()
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return fmt.Errorf("no answer within %s", atMost)
	}
}
