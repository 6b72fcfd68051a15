package broker_test

import (
	"context"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
)

// On the way to the user's broker, too, each direction is disturbed by itself, for clients over TCP and
// for those of this process.
func TestRelayUnderRules(t *testing.T) {
	b, settings := theirs(t, broker.Options{})
	faults := fault.NewSet(func(string, events.Event) {})
	view := mqttfault.New(mqttfault.Options{
		Who: func(identity string) mqttfault.Client { return mqttfault.Client{Base: identity} }, Faults: faults, Kill: func(int) {},
	})
	r, err := broker.NewRelay(external(t, settings), broker.ListenOptions{View: view})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	outside := connect(t, options(b, controller(b)))
	listened := make(chan string, 10)
	if err := done(outside.Subscribe("koupleless_dev/+/base/heart", 1, func(_ paho.Client, m paho.Message) { listened <- string(m.Payload()) })); err != nil {
		t.Fatal(err)
	}
	for name, memory := range map[string]bool{"tcp": false, "memory": true} {
		t.Run(name, func(t *testing.T) {
			heard, lost := make(chan string, 10), make(chan error, 1)
			c := connect(t, throughRelay(t, b, r, name, memory).SetAutoReconnect(false).SetConnectionLostHandler(func(_ paho.Client, err error) { lost <- err }))
			if err := done(c.Subscribe("koupleless_dev/"+name+"/+", 1, func(_ paho.Client, m paho.Message) { heard <- string(m.Payload()) })); err != nil {
				t.Fatal(err)
			}
			next := func(from <-chan string, want string) {
				t.Helper()
				select {
				case got := <-from:
					if got != want {
						t.Errorf("heard %q, want %q", got, want)
					}
				case <-time.After(patience):
					t.Fatalf("not heard: %q", want)
				}
			}
			set := func(rule v1alpha1.Fault) {
				t.Helper()
				v1alpha1.SetFaultDefaults(v1alpha1.TargetMQTT, &rule)
				if _, err := view.Inject(fault.Injection{Fault: rule, Target: v1alpha1.TargetMQTT, Bases: []string{name}}); err != nil {
					t.Fatal(err)
				}
			}
			set(v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}})
			if err := done(outside.Publish("koupleless_dev/"+name+"/installBiz", 1, false, "held")); err != nil {
				t.Fatal(err)
			}
			said := c.Publish("koupleless_dev/"+name+"/base/heart", 1, false, "said")
			next(listened, "said")
			select {
			case text := <-heard:
				t.Errorf("heard %q", text)
			case <-said.Done():
				t.Error("the acknowledgement passed")
			case <-time.After(pauseSeen):
			}
			faults.Clear(func(i fault.Injection) bool { return i.Kind == v1alpha1.MQTTHold })
			next(heard, "held")
			if err := done(said); err != nil {
				t.Error(err)
			}
			set(v1alpha1.Fault{Kind: v1alpha1.MQTTCut})
			select {
			case err := <-lost:
				t.Logf("the client says: %v", err)
			case <-time.After(patience):
				t.Error("the connection stays")
			}
			faults.Clear(func(fault.Injection) bool { return true })
		})
	}
}
