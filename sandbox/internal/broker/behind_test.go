package broker_test

import (
	"fmt"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
)

// A client that acknowledges nothing gets up to the maximum number of messages. Further messages are dropped.
func TestAClientThatIsBehind(t *testing.T) {
	const most, more = 1000, 100
	b := run(t, broker.Options{}.WithInflight(most))
	behind, sender := connect(t, options(b, controller(b)).SetAutoAckDisabled(true)), connect(t, options(b, base(b, "b")))
	heard := make(chan paho.Message, most+more+1)
	must := func(token paho.Token) {
		t.Helper()
		if err := done(token); err != nil {
			t.Fatal(err)
		}
	}
	must(behind.Subscribe("koupleless_dev/+/base/heart", 1, func(_ paho.Client, m paho.Message) { heard <- m }))
	tokens := make([]paho.Token, 0, most+more)
	for i := range most + more {
		tokens = append(tokens, sender.Publish("koupleless_dev/b/base/heart", 1, false, fmt.Sprint(i)))
	}
	for _, token := range tokens {
		must(token)
	}
	must(sender.Subscribe("koupleless_dev/b/+", 0, nil)) // the broker counts what it answers, too, until shortly after
	if got := b.Stats().Inflight; got != most {
		t.Errorf("%d messages wait for an acknowledgement, want %d", got, most)
	}
	for i := range most {
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
