package broker_test

import (
	"fmt"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
)

// A client that acknowledges nothing for a while is sent so much and no more, and then what comes next.
func TestAClientThatIsBehind(t *testing.T) {
	b := run(t, broker.Options{})
	behind, sender := connect(t, options(b, controller(b)).SetAutoAckDisabled(true)), connect(t, options(b, base(b, "b")))
	const more = 100
	heard := make(chan paho.Message, broker.MaxInflight+more+1)
	must := func(token paho.Token) {
		t.Helper()
		if err := done(token); err != nil {
			t.Fatal(err)
		}
	}
	must(behind.Subscribe("koupleless_dev/+/base/heart", 1, func(_ paho.Client, m paho.Message) { heard <- m }))
	tokens := make([]paho.Token, 0, broker.MaxInflight+more)
	for i := range broker.MaxInflight + more {
		tokens = append(tokens, sender.Publish("koupleless_dev/b/base/heart", 1, false, fmt.Sprint(i)))
	}
	for _, token := range tokens {
		must(token)
	}
	if got := b.Stats().Inflight; got != broker.MaxInflight {
		t.Errorf("%d messages wait for an acknowledgement, want %d", got, broker.MaxInflight)
	}
	for i := range broker.MaxInflight {
		m := <-heard
		if got := string(m.Payload()); got != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, got)
		}
		m.Ack()
	}
	for b.Stats().Inflight > 0 { // go test ends it if it never does
		must(behind.Subscribe("koupleless_dev/x", 0, nil)) // comes after the acknowledgements
	}
	must(sender.Publish("koupleless_dev/b/base/heart", 1, false, "last"))
	if m := <-heard; string(m.Payload()) != "last" {
		t.Errorf("heard %s after everything was acknowledged, want the next message", m.Payload())
	}
}
