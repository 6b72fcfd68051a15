package mqtt

import (
	"context"
	"errors"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// retainedTime is how long the broker may take to send what it has retained: it comes right after
// the SUBACK, and nothing marks its end.
const retainedTime = 5 * time.Second

// subscribeAgain is how often a second subscription that was refused is tried again: mochi refuses one whose packet
// identifier is that of a message which it has sent and which is not acknowledged.
const subscribeAgain = 3

// clearRetained has the broker forget the commands of this environment that it has retained, as the
// existing controller leaves them (protocol 3.4). It returns a channel that tells when that is over;
// nil if there is nothing to do. What the broker keeps for another environment is not touched.
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

// commands is the filter of all commands: koupleless_<env>/<identity>/<command>.
func (t *Tunnel) commands() string { return t.prefix + "+/+" }

func (t *Tunnel) stopClearing(client paho.Client) {
	t.cleared = true
	client.Unsubscribe(t.commands()) // ignore takes what still comes
}

// clear removes a retained message by an empty one in its place [MQTT-3.3.1-10]. It runs in the
// connection's reading goroutine.
func (t *Tunnel) clear(client paho.Client, m paho.Message) {
	if !m.Retained() || !t.opts.ClearRetained {
		return
	}
	t.opts.Logger.Info("removed a retained message that a controller left", "topic", m.Topic())
	client.Publish(m.Topic(), 1, true, "") // if it is lost, the next start finds the message again
}
