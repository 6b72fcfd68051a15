package broker_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
)

// TestTheBrokerEndsWhileClientsLeave holds the broker's end to the moment at
// which mochi's own would wait for ever: clients that leave while it goes.
func TestTheBrokerEndsWhileClientsLeave(t *testing.T) {
	b, err := broker.New(broker.Options{Env: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Start(ctx) }()
	const clients = 200
	var leave sync.WaitGroup
	begin := make(chan struct{})
	for i := range clients {
		o := options(b, base(b, fmt.Sprintf("base-%d", i))).SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			return b.Dial(ctx)
		})
		c := paho.NewClient(o)
		if err := done(c.Connect()); err != nil {
			t.Fatalf("connecting client %d: %v", i, err)
		}
		leave.Go(func() {
			<-begin
			c.Disconnect(0)
		})
	}
	close(begin)
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("broker ended with: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the broker did not end")
	}
	leave.Wait()
}
