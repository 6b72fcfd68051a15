package broker_test

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
)

// TestImmediateReconnect checks that a base that reconnects immediately receives its messages, whether the previous
// connection was closed, was cut, or is still open.
func TestImmediateReconnect(t *testing.T) {
	b := run(t, broker.Options{})
	sender := connect(t, options(b, controller(b)))
	const bases, rounds = 20, 30
	var wg sync.WaitGroup
	for i := range bases {
		wg.Go(func() {
			id := fmt.Sprintf("b%d", i)
			end := func() {}
			for round := range rounds {
				var conn net.Conn
				received := make(chan struct{}, 1)
				o := options(b, base(b, id)).SetCleanSession(true).SetCustomOpenConnectionFn(
					func(*url.URL, paho.ClientOptions) (c net.Conn, err error) {
						conn, err = b.Dial(t.Context())
						return conn, err
					})
				c := paho.NewClient(o)
				if round%3 < 2 { // otherwise the broker closes the old connection
					end()
				}
				if err := waitForToken(c.Connect()); err != nil {
					t.Errorf("%s: connection %d: %v", id, round, err)
					return
				}
				if err := waitForToken(
					c.Subscribe("koupleless_dev/"+id+"/+", 1,
						func(paho.Client, paho.Message) { received <- struct{}{} })); err != nil {
					t.Errorf("%s: subscription %d: %v", id, round, err)
					return
				}
				sender.Publish("koupleless_dev/"+id+"/health", 1, false, "x")
				select {
				case <-received:
				case <-time.After(waitTimeout):
					t.Errorf("%s received no message on connection %d", id, round)
					return
				}
				if round%3 == 0 {
					end = func() { _ = conn.Close() }
				} else {
					end = func() { c.Disconnect(0) }
				}
			}
			end()
		})
	}
	wg.Wait()
}
