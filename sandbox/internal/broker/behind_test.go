package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// open starts a broker, and connects to it with TCP as a controller and as a base.
func open(t *testing.T) (b *Broker, controller, base paho.Client) {
	t.Helper()
	b, err := New(Options{Env: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("broker ended with: %v", err)
		}
	})
	connect := func(id, user, password string, version uint) paho.Client {
		c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + b.Addr()).SetClientID(id).SetUsername(user).SetPassword(password).
			SetProtocolVersion(version).SetAutoReconnect(false).SetAutoAckDisabled(true))
		wait(t, c.Connect())
		t.Cleanup(func() { c.Disconnect(0) })
		return c
	}
	return b, connect("c", ControllerUser, b.Passwords().Controller, 4), connect("koupleless@@@b", BaseUser, b.Passwords().Base, 3)
}

func wait(t *testing.T, token paho.Token) {
	t.Helper()
	if !token.WaitTimeout(20 * time.Second) {
		t.Fatal("no answer from the broker")
	}
	if err := token.Error(); err != nil {
		t.Fatal(err)
	}
}

// A client that acknowledges nothing for a while is sent so much and no more, and then what comes next.
func TestAClientThatIsBehind(t *testing.T) {
	b, controller, base := open(t)
	const more = 100
	heard := make(chan paho.Message, maxInflight+more+1)
	wait(t, controller.Subscribe("koupleless_dev/+/base/heart", 1, func(_ paho.Client, m paho.Message) { heard <- m }))
	tokens := make([]paho.Token, 0, maxInflight+more)
	for i := range maxInflight + more {
		tokens = append(tokens, base.Publish("koupleless_dev/b/base/heart", 1, false, fmt.Sprint(i)))
	}
	for _, token := range tokens {
		wait(t, token)
	}
	if got := b.Stats().Inflight; got != maxInflight {
		t.Errorf("%d messages wait for an acknowledgement, want %d", got, maxInflight)
	}
	for i := range maxInflight {
		m := <-heard
		if got := string(m.Payload()); got != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, got)
		}
		m.Ack()
	}
	for b.Stats().Inflight > 0 { // go test ends it if it never does
		wait(t, controller.Subscribe("koupleless_dev/x", 0, nil)) // comes after the acknowledgements
	}
	wait(t, base.Publish("koupleless_dev/b/base/heart", 1, false, "last"))
	if m := <-heard; string(m.Payload()) != "last" {
		t.Errorf("heard %s after everything was acknowledged, want the next message", m.Payload())
	}
}
