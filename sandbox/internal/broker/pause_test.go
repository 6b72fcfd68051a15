package broker_test

import (
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// pauseCheckDuration is how long the test checks that no data is transferred during a pause.
const pauseCheckDuration = 200 * time.Millisecond

// TestPause checks that connections stay open but transfer no data while the broker is paused. After the pause, the
// broker must deliver the held messages and accept the waiting connections.
func TestPause(t *testing.T) {
	b := run(t, broker.Options{})
	received := make(chan string, 10)
	lost := make(chan error, 10)
	c := connect(t, options(b, controller(b)).SetConnectionLostHandler(func(_ paho.Client, err error) { lost <- err }))
	if err := waitForToken(c.Subscribe("koupleless_dev/+/base/heart", 1,
		func(_ paho.Client, m paho.Message) { received <- string(m.Payload()) })); err != nil {
		t.Fatal(err)
	}
	lasting := func(id string) *paho.ClientOptions {
		return inMemory(t, b, id).SetConnectionLostHandler(func(_ paho.Client, err error) { lost <- err })
	}
	first := connect(t, lasting("b1"))
	b.Pause()
	said := first.Publish("koupleless_dev/b1/base/heart", 1, false, "while paused")
	second := paho.NewClient(lasting("b2"))
	coming := second.Connect()
	third := paho.NewClient(options(b, base(b, "b3")))
	comingTCP := third.Connect()
	select {
	case m := <-received:
		t.Errorf("%q passed", m)
	case <-said.Done():
		t.Error("a message was acknowledged during the pause")
	case <-coming.Done():
		t.Errorf("an in-memory client connected during the pause: %v", coming.Error())
	case <-comingTCP.Done():
		t.Errorf("a TCP client connected during the pause: %v", comingTCP.Error())
	case err := <-lost:
		t.Errorf("a connection was lost: %v", err)
	case <-time.After(pauseCheckDuration):
	}
	b.Resume()
	for _, token := range []paho.Token{said, coming, comingTCP} {
		check.Must(t, waitForToken(token))
	}
	defer second.Disconnect(0)
	defer third.Disconnect(0)
	if m := <-received; m != "while paused" {
		t.Errorf("received %q", m)
	}
	check.Must(t, waitForToken(second.Publish("koupleless_dev/b2/base/heart", 1, false, "afterwards")))
	if m := <-received; m != "afterwards" {
		t.Errorf("received %q", m)
	}
	select {
	case err := <-lost:
		t.Errorf("a connection was lost: %v", err)
	default:
	}
}
