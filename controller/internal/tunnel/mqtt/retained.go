package mqtt

import (
	"context"
	"errors"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// retainedTime is how long to wait for retained messages. The broker sends them right after the SUBACK, without an
// end marker.
const retainedTime = 5 * time.Second

// subscribeRetries is the maximum number of retries after a refused subscription. The broker mochi refuses a
// subscription if its packet identifier is used by an unacknowledged message.
const subscribeRetries = 3

// clearRetained starts to remove the retained commands of this environment from the broker (protocol 3.4). It returns
// a channel that receives a value when the removal must be stopped. The channel is nil if the removal did not start.
func (t *Tunnel) clearRetained(ctx context.Context, client paho.Client) <-chan time.Time {
	if !t.opts.ClearRetained || t.retainedCleared {
		return nil
	}
	err := subscribe(ctx, client, t.commands(), t.clear)
	for retries := 0; errors.Is(err, ErrRefused) && retries < subscribeRetries; retries++ {
		err = subscribe(ctx, client, t.commands(), t.clear)
	}
	if err != nil {
		t.opts.Logger.Warn("could not remove retained commands", "topic", t.commands(), "err", err)
		return nil
	}
	return time.After(retainedTime)
}

// commands returns the topic filter of all commands: koupleless_<env>/<identity>/<command>.
func (t *Tunnel) commands() string { return t.prefix + "+/+" }

func (t *Tunnel) stopClearing(client paho.Client) {
	t.retainedCleared = true
	client.Unsubscribe(t.commands()) // ignore receives the remaining messages
}

// clear removes a retained message by publishing an empty message to the same topic [MQTT-3.3.1-10].
func (t *Tunnel) clear(client paho.Client, m paho.Message) {
	if !m.Retained() || !t.opts.ClearRetained {
		return
	}
	t.opts.Logger.Info("removing a retained message from an earlier controller", "topic", m.Topic())
	client.Publish(m.Topic(), 1, true, "") // if it is lost, the next start removes the message
}
