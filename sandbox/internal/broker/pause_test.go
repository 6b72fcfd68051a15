package broker_test

import (
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// pauseSeen is how long nothing must pass for a pause to be believed.
const pauseSeen = 200 * time.Millisecond

// While the broker is paused connections stay and nothing passes; afterwards
// everything that waited does, and who connected in the meantime is in.
func TestPause(t *testing.T) {
	b := run(t, broker.Options{})
	heard := make(chan string, 10)
	lost := make(chan error, 10)
	c := connect(t, options(b, controller(b)).SetConnectionLostHandler(func(_ paho.Client, err error) { lost <- err }))
	if err := done(c.Subscribe("koupleless_dev/+/base/heart", 1,
		func(_ paho.Client, m paho.Message) { heard <- string(m.Payload()) })); err != nil {
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
	case m := <-heard:
		t.Errorf("%q passed", m)
	case <-said.Done():
		t.Error("a message was acknowledged")
	case <-coming.Done():
		t.Errorf("a client in memory got in: %v", coming.Error())
	case <-comingTCP.Done():
		t.Errorf("a client got in over TCP: %v", comingTCP.Error())
	case err := <-lost:
		t.Errorf("a connection was lost: %v", err)
	case <-time.After(pauseSeen):
	}
	b.Resume()
	for _, token := range []paho.Token{said, coming, comingTCP} {
		check.Must(t, done(token))
	}
	defer second.Disconnect(0)
	defer third.Disconnect(0)
	if m := <-heard; m != "while paused" {
		t.Errorf("heard %q", m)
	}
	check.Must(t, done(second.Publish("koupleless_dev/b2/base/heart", 1, false, "afterwards")))
	if m := <-heard; m != "afterwards" {
		t.Errorf("heard %q", m)
	}
	select {
	case err := <-lost:
		t.Errorf("a connection was lost: %v", err)
	default:
	}
}
