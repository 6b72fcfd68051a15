package mqttfault_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"

	core "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttfault"
)

const (
	// waitTimeout is the timeout for expected events. quietTime is how long a test checks that an unexpected event
	// does not occur.
	waitTimeout = check.WaitTimeout
	quietTime   = 200 * time.Millisecond
)

// fixture is a test setup: a broker whose connections pass through an Injector.
type fixture struct {
	*mqttfault.Injector
	faults *fault.Set
	t      *testing.T
	broker *broker.Broker

	mu     sync.Mutex
	events []string
	kill   func(n int)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := &fixture{t: t}
	r.faults = fault.NewSet(func(group string, e events.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events,
			strings.TrimSpace(fmt.Sprintf("%s %s %s %s", group, e.Fault.ID, e.Fault.Change, e.Fault.Base)))
	})
	r.Injector = mqttfault.New(mqttfault.Options{
		Faults: r.faults,
		ClientOf: func(identity string) mqttfault.Client {
			if group, set, is := strings.Cut(identity, "."); is {
				return mqttfault.Client{Base: group + "-" + set, Group: group}
			}
			return mqttfault.Client{Replica: map[string]int{"c1": 1, "c2": 2}[identity]}
		},
		Kill: func(n int) {
			r.mu.Lock()
			kill := r.kill
			r.mu.Unlock()
			kill(n)
		},
	})
	var err error
	r.broker, err = broker.New(broker.Options{Env: "dev", ListenOptions: broker.ListenOptions{View: r.Injector}})
	if err != nil {
		t.Fatal(err)
	}
	check.Run(t, r.broker.Start)
	return r
}

// client is an MQTT client that is connected to the broker.
type client struct {
	paho.Client
	t        *testing.T
	received chan string
	lost     chan error
}

// connect connects a controller or a base to the broker and subscribes to its topics.
func (r *fixture) connect(identity string) *client {
	r.t.Helper()
	c := &client{t: r.t, received: make(chan string, 100), lost: make(chan error, 10)}
	o := paho.NewClientOptions().AddBroker("tcp://" + r.broker.Addr()).SetClientID(
		"koupleless@@@" + identity).SetAutoReconnect(false).SetOrderMatters(true).
		SetConnectionLostHandler(func(_ paho.Client, err error) { c.lost <- err })
	topic := "koupleless_dev/+/base/+"
	if strings.Contains(identity, ".") {
		o.SetUsername(broker.BaseUser).SetPassword(r.broker.Passwords().Base)
		topic = "koupleless_dev/" + identity + "/+"
	} else {
		o.SetUsername(broker.ControllerUser).SetPassword(r.broker.Passwords().Controller)
	}
	c.Client = paho.NewClient(o)
	if token := c.Connect(); !token.WaitTimeout(waitTimeout) || token.Error() != nil {
		r.t.Fatalf("connecting as %s: %v", identity, token.Error())
	}
	r.t.Cleanup(func() { c.Disconnect(0) })
	subscribed := c.Subscribe(topic, 1, func(_ paho.Client, m paho.Message) {
		mark := ""
		if m.Duplicate() {
			mark = " again"
		}
		c.received <- m.Topic()[strings.LastIndex(m.Topic(), "/")+1:] + " " + string(m.Payload()) + mark
	})
	if !subscribed.WaitTimeout(waitTimeout) || subscribed.Error() != nil {
		r.t.Fatal(subscribed.Error())
	}
	return c
}

// publish sends a message and blocks until the broker has acknowledged it.
func (c *client) publish(topic, payload string) {
	c.t.Helper()
	if token := c.Publish("koupleless_dev/"+topic, 1, false, payload); !token.WaitTimeout(waitTimeout) ||
		token.Error() != nil {
		c.t.Fatalf("publishing on %s: %v", topic, token.Error())
	}
}

func (c *client) wantMessages(want ...string) {
	c.t.Helper()
	var got []string
	for range want {
		select {
		case message := <-c.received:
			got = append(got, message)
		case <-time.After(waitTimeout):
			c.t.Fatalf("received %v before the timeout, want %v", got, want)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("received messages (-want +got):\n%s", diff)
	}
}

func (c *client) wantNoMessage() {
	c.t.Helper()
	select {
	case message := <-c.received:
		c.t.Errorf("unexpected message %q", message)
	case <-time.After(quietTime):
	}
}

func (c *client) wantDisconnect() {
	c.t.Helper()
	select {
	case err := <-c.lost:
		c.t.Logf("connection lost: %v", err)
	case <-time.After(waitTimeout):
		c.t.Fatal("connection is still open")
	}
}

// set sets a fault of the group "run" for bases or for a controller.
func (r *fixture) set(x v1alpha1.Fault, replica int, bases ...string) {
	r.t.Helper()
	v1alpha1.SetFaultDefaults(v1alpha1.TargetMQTT, &x)
	if errs := v1alpha1.ValidateFault(v1alpha1.TargetMQTT, &x); len(errs) > 0 {
		r.t.Fatal(errs.ToAggregate())
	}
	if x.ID == "" {
		x.ID = string(x.Kind)
	}
	if _, err := r.Inject(fault.Injection{Fault: x, Target: v1alpha1.TargetMQTT, Bases: bases, Replica: replica,
		Group: "run"}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *fixture) clear(id string) {
	r.t.Helper()
	if cleared := r.faults.Clear(func(i fault.Injection) bool { return i.ID == id }); len(cleared) != 1 {
		r.t.Fatalf("cleared faults = %v, want one", cleared)
	}
}

func (r *fixture) status(id string) fault.Status {
	list := r.faults.List("run")
	i := slices.IndexFunc(list, func(x fault.Status) bool { return x.ID == id })
	if i < 0 {
		r.t.Fatalf("fault %s not found", id)
	}
	return list[i]
}

func (r *fixture) wantEvents(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.events); diff != "" {
		r.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestHold checks that a hold fault in one direction does not affect the other direction or other clients, and that
// the held messages are delivered in order when the fault is cleared.
func TestHold(t *testing.T) {
	r := newFixture(t)
	controller, one, two := r.connect("c1"), r.connect("run.b1"), r.connect("run.b2")
	r.set(v1alpha1.Fault{ID: "hold", Kind: v1alpha1.MQTTHold,
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}, 0, "run-b1")
	controller.publish("run.b1/installBiz", "1") // the broker acknowledges it
	controller.publish("run.b1/installBiz", "2")
	controller.publish("run.b2/installBiz", "3")
	two.wantMessages("installBiz 3")
	one.wantNoMessage()
	heart := one.Publish("koupleless_dev/run.b1/base/heart", 1, false, "4") // the acknowledgement is held, too
	controller.wantMessages("heart 4")
	r.clear("hold")
	one.wantMessages("installBiz 1", "installBiz 2")
	if !heart.WaitTimeout(waitTimeout) || heart.Error() != nil {
		t.Errorf("publishing a heartbeat: %v", heart.Error())
	}
	controller.publish("run.b1/installBiz", "5")
	one.wantMessages("installBiz 5")
	r.wantEvents("run hold set b1", "run hold fired b1", "run hold cleared b1")
}

// TestHoldToBroker checks that messages held on their way to the broker are delivered when the hold fault expires.
func TestHoldToBroker(t *testing.T) {
	r := newFixture(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{ID: "hold", Kind: v1alpha1.MQTTHold, For: core.Duration(quietTime),
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}, 0, "run-b1")
	began := time.Now()
	base.publish("run.b1/base/heart", "1") // acknowledged when the fault has expired
	if took := time.Since(began); took < quietTime {
		t.Errorf("acknowledged after %s, want at least %s", took, quietTime)
	}
	controller.wantMessages("heart 1")
}

// TestHalfOpen checks that a halfOpen fault drops the packets in one direction, and that the connection is closed
// when the fault is cleared if the fault has dropped a packet.
func TestHalfOpen(t *testing.T) {
	r := newFixture(t)
	controller, base, other := r.connect("c1"), r.connect("run.b1"), r.connect("run.b2")
	r.set(v1alpha1.Fault{ID: "halfOpen", Kind: v1alpha1.MQTTHalfOpen,
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}, 0, "run-b1", "run-b2")
	base.Publish("koupleless_dev/run.b1/base/heart", 1, false, "1")
	controller.publish("run.b1/installBiz", "2")
	base.wantMessages("installBiz 2") // the acknowledgement is dropped
	controller.wantNoMessage()
	r.clear("halfOpen")
	base.wantDisconnect()
	controller.publish("run.b2/installBiz", "3")
	other.wantMessages("installBiz 3") // no packet was dropped, so the connection is still open
	again := r.connect("run.b1")
	again.publish("run.b1/base/heart", "4")
	controller.wantMessages("heart 4")
}

// TestCut checks that a cut fault closes the connections of a client, and that new connections are refused until the
// fault is cleared.
func TestCut(t *testing.T) {
	r := newFixture(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{Kind: v1alpha1.MQTTCut}, 0, "run-b1")
	base.wantDisconnect()
	o := paho.NewClientOptions().AddBroker("tcp://" + r.broker.Addr()).SetClientID(
		"koupleless@@@run.b1").SetAutoReconnect(false).
		SetUsername(broker.BaseUser).SetPassword(r.broker.Passwords().Base)
	refused := paho.NewClient(o).Connect()
	if !refused.WaitTimeout(waitTimeout) || refused.Error() == nil {
		t.Errorf("connecting during the cut: error = %v, want an error", refused.Error())
	}
	r.connect("run.b2").publish("run.b2/base/heart", "1")
	controller.wantMessages("heart 1")
	if x := r.status("cut"); x.Triggered < 2 {
		t.Errorf("triggered %d times, want at least 2", x.Triggered)
	}
	r.clear("cut")
	r.connect("run.b1").publish("run.b1/base/heart", "2")
	controller.wantMessages("heart 2")
}

// TestDelay checks that delayed messages are delivered late and in order.
func TestDelay(t *testing.T) {
	r := newFixture(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: core.Delay{Min: core.Duration(quietTime)},
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}, 0, "run-b1")
	began := time.Now()
	for i := range 5 {
		controller.publish("run.b1/installBiz", fmt.Sprint(i))
	}
	base.wantMessages("installBiz 0", "installBiz 1", "installBiz 2", "installBiz 3", "installBiz 4")
	if took := time.Since(began); took < quietTime {
		t.Errorf("messages arrived after %s, want at least %s", took, quietTime)
	}
}

// TestDuplicate checks that a duplicate fault delivers the n-th matching message twice, the second time with the DUP
// flag, and that the sender gets only one acknowledgement.
func TestDuplicate(t *testing.T) {
	for _, direction := range []v1alpha1.Direction{v1alpha1.ToBroker, v1alpha1.FromBroker} {
		t.Run(string(direction), func(t *testing.T) {
			r := newFixture(t)
			controller, base := r.connect("c1"), r.connect("run.b1")
			r.set(v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate, Skip: 1,
				Match: v1alpha1.FaultMatch{Direction: direction, Messages: []string{"installBiz"}}}, 0, "run-b1")
			if direction == v1alpha1.ToBroker {
				r.set(v1alpha1.Fault{ID: "c", Kind: v1alpha1.MQTTDuplicate, Skip: 1,
					Match: v1alpha1.FaultMatch{Direction: direction, Messages: []string{"installBiz"}}}, 1)
			}
			for i := range 4 {
				controller.publish("run.b1/health", fmt.Sprint(i))
				controller.publish("run.b1/installBiz", fmt.Sprint(i))
			}
			mark := " again"
			if direction == v1alpha1.ToBroker {
				mark = "" // the broker forwards them as two messages
			}
			base.wantMessages("health 0", "installBiz 0", "health 1", "installBiz 1", "installBiz 1"+mark, "health 2",
				"installBiz 2", "health 3", "installBiz 3")
			base.wantNoMessage()
		})
	}
}

// TestReorder checks that a reorder fault delivers a message after the next message of another topic, or after one
// second. Messages of the same topic must keep their order.
func TestReorder(t *testing.T) {
	r := newFixture(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	reorder := v1alpha1.Fault{Kind: v1alpha1.MQTTReorder,
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker, Messages: []string{"installBiz"}}}
	r.set(reorder, 0, "run-b1")
	controller.publish("run.b1/installBiz", "1")
	controller.publish("run.b1/installBiz", "2")
	controller.publish("run.b1/uninstallBiz", "3")
	base.wantMessages("uninstallBiz 3", "installBiz 1", "installBiz 2")
	r.set(reorder, 0, "run-b1")
	controller.publish("run.b1/installBiz", "4")
	base.wantMessages("installBiz 4")
}

// TestKill checks that a kill fault kills the controller before or after the delivery of its n-th matching message.
// Messages to bases of other groups must not match.
func TestKill(t *testing.T) {
	for kind, delivered := range map[core.Kind]bool{v1alpha1.MQTTKillBefore: false, v1alpha1.MQTTKillAfter: true} {
		t.Run(string(kind), func(t *testing.T) {
			r := newFixture(t)
			controller, second, base, other := r.connect("c1"), r.connect("c2"), r.connect("run.b1"), r.connect(
				"other.b1")
			killed := make(chan int, 1)
			r.kill = func(n int) {
				controller.Disconnect(0)
				killed <- n
			}
			r.set(v1alpha1.Fault{ID: "k", Kind: kind, Skip: 1,
				Match: v1alpha1.FaultMatch{Messages: []string{"installBiz"}}}, 1)
			controller.publish("run.b1/installBiz", "1")
			controller.publish("other.b1/installBiz", "2")
			second.publish("run.b1/installBiz", "3")
			base.wantMessages("installBiz 1", "installBiz 3")
			other.wantMessages("installBiz 2")
			controller.Publish("koupleless_dev/run.b1/installBiz", 1, false, "4")
			select {
			case n := <-killed:
				if n != 1 {
					t.Errorf("killed controller = %d, want 1", n)
				}
			case <-time.After(waitTimeout):
				t.Fatal("no controller was killed")
			}
			if delivered {
				base.wantMessages("installBiz 4")
			}
			base.wantNoMessage()
			if x := r.status("k"); x.Triggered != 1 || x.Ended == "" {
				t.Errorf("fault = %+v, want it triggered once and ended", x)
			}
		})
	}
}

// TestNote checks that a note fault ends at the n-th matching message. It also checks that fault IDs are unique
// within a group, but may repeat in other groups.
func TestNote(t *testing.T) {
	r := newFixture(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{ID: "third", Kind: v1alpha1.MQTTNote, Skip: 2,
		Match: v1alpha1.FaultMatch{Messages: []string{"installBiz"}}}, 0)
	note := v1alpha1.Fault{ID: "third", Kind: v1alpha1.MQTTNote, Count: 9}
	v1alpha1.SetFaultDefaults(v1alpha1.TargetMQTT, &note)
	if _, err := r.Inject(fault.Injection{Fault: note, Target: v1alpha1.TargetMQTT, Group: "run"}); err == nil {
		t.Error("two faults in a group have the same ID, want an error")
	}
	if _, err := r.Inject(fault.Injection{Fault: note, Target: v1alpha1.TargetMQTT, Group: "other"}); err != nil {
		t.Error(err)
	}
	var ended []bool
	for i := range 3 {
		controller.publish("run.b1/installBiz", fmt.Sprint(i))
		ended = append(ended, r.status("third").Ended != "")
	}
	base.wantMessages("installBiz 0", "installBiz 1", "installBiz 2")
	if diff := cmp.Diff([]bool{false, false, true}, ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}
