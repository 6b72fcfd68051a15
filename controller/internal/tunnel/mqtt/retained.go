package mqtt

import (
	"context"
	"errors"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// retainedTime is how long to wait for the retained messages of the broker, which come right after the SUBACK without
// an end marker.
const retainedTime = 5 * time.Second

// subscribeAgain is how often a refused subscription is repeated: mochi refuses one whose packet identifier is that
// of an unacknowledged message.
const subscribeAgain = 3

// clearRetained removes the retained commands of this environment (protocol 3.4). It returns a channel that receives
// when that is over; nil if there is nothing to do.
func (t *Tunnel) clearRetained(ctx context.Context, client paho.Client) <-chan time.Time {
	if !t.opts.ClearRetained || t.cleared {
		return nil
	}
	err := subscribe(ctx, client, t.commands(), t.clear)
	for again := 0; errors.Is(err, ErrRefused) && again < subscribeAgain; again++ {
		err = subscribe(ctx, client, t.commands(), t.clear)
	}
	if err != nil {
		t.opts.Logger.Warn("could not look for retained commands", "topic", t.commands(), "err", err)
		return nil
	}
	return time.After(retainedTime)
}

// commands matches all commands: koupleless_<env>/<identity>/<command>.
func (t *Tunnel) commands() string { return t.prefix + "+/+" }

func (t *Tunnel) stopClearing(client paho.Client) {
	t.cleared = true
	client.Unsubscribe(t.commands()) // ignore takes what still comes
}

// clear replaces a retained message by an empty one [MQTT-3.3.1-10].
func (t *Tunnel) clear(client paho.Client, m paho.Message) {
	if !m.Retained() || !t.opts.ClearRetained {
		return
	}
	t.opts.Logger.Info("removed a retained message that a controller left", "topic", m.Topic())
	client.Publish(m.Topic(), 1, true, "") // if it is lost, the next start finds the message again
}
