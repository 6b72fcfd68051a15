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
	// within is how long something may take that must happen, and never how long something is looked at that
	// must not.
	within = check.Patience
	never  = 200 * time.Millisecond
)

// rig is a broker behind a view, with two bases and a controller.
type rig struct {
	*mqttfault.View
	faults *fault.Set
	t      *testing.T
	broker *broker.Broker

	mu     sync.Mutex
	events []string
	kill   func(n int)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t}
	r.faults = fault.NewSet(func(group string, e events.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events,
			strings.TrimSpace(fmt.Sprintf("%s %s %s %s", group, e.Fault.ID, e.Fault.Change, e.Fault.Base)))
	})
	r.View = mqttfault.New(mqttfault.Options{
		Faults: r.faults,
		Who: func(identity string) mqttfault.Client {
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
	r.broker, err = broker.New(broker.Options{Env: "dev", ListenOptions: broker.ListenOptions{View: r.View}})
	if err != nil {
		t.Fatal(err)
	}
	check.Run(t, r.broker.Start)
	return r
}

// client is a client of the broker.
type client struct {
	paho.Client
	t     *testing.T
	heard chan string
	lost  chan error
}

// connect connects a controller, or a base in memory, which hears all that is for it.
func (r *rig) connect(identity string) *client {
	r.t.Helper()
	c := &client{t: r.t, heard: make(chan string, 100), lost: make(chan error, 10)}
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
	if token := c.Connect(); !token.WaitTimeout(within) || token.Error() != nil {
		r.t.Fatalf("%s does not get in: %v", identity, token.Error())
	}
	r.t.Cleanup(func() { c.Disconnect(0) })
	subscribed := c.Subscribe(topic, 1, func(_ paho.Client, m paho.Message) {
		mark := ""
		if m.Duplicate() {
			mark = " again"
		}
		c.heard <- m.Topic()[strings.LastIndex(m.Topic(), "/")+1:] + " " + string(m.Payload()) + mark
	})
	if !subscribed.WaitTimeout(within) || subscribed.Error() != nil {
		r.t.Fatal(subscribed.Error())
	}
	return c
}

// say publishes, and returns when that is acknowledged.
func (c *client) say(topic, payload string) {
	c.t.Helper()
	if token := c.Publish("koupleless_dev/"+topic, 1, false, payload); !token.WaitTimeout(within) ||
		token.Error() != nil {
		c.t.Fatalf("%s is not acknowledged: %v", topic, token.Error())
	}
}

func (c *client) hears(want ...string) {
	c.t.Helper()
	var got []string
	for range want {
		select {
		case heard := <-c.heard:
			got = append(got, heard)
		case <-time.After(within):
			c.t.Fatalf("heard %v, and nothing more", got)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("heard (-want +got):\n%s", diff)
	}
}

func (c *client) hearsNothing() {
	c.t.Helper()
	select {
	case heard := <-c.heard:
		c.t.Errorf("heard %q", heard)
	case <-time.After(never):
	}
}

func (c *client) isLost() {
	c.t.Helper()
	select {
	case err := <-c.lost:
		c.t.Logf("the client says: %v", err)
	case <-time.After(within):
		c.t.Fatal("the connection stays")
	}
}

// set sets a rule of the group run, as a scenario would: for bases, or for a controller.
func (r *rig) set(x v1alpha1.Fault, replica int, bases ...string) {
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

func (r *rig) clear(id string) {
	r.t.Helper()
	if gone := r.faults.Clear(func(i fault.Injection) bool { return i.ID == id }); len(gone) != 1 {
		r.t.Fatalf("cleared %v", gone)
	}
}

func (r *rig) rule(id string) fault.Status {
	rules := r.faults.List("run")
	i := slices.IndexFunc(rules, func(x fault.Status) bool { return x.ID == id })
	if i < 0 {
		r.t.Fatalf("no rule %s", id)
	}
	return rules[i]
}

func (r *rig) told(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.events); diff != "" {
		r.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// What is held in one direction comes in order when the rule ends; the other direction, and other
// clients, go on.
func TestHold(t *testing.T) {
	r := newRig(t)
	controller, one, two := r.connect("c1"), r.connect("run.b1"), r.connect("run.b2")
	r.set(v1alpha1.Fault{ID: "deaf", Kind: v1alpha1.MQTTHold,
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}, 0, "run-b1")
	controller.say("run.b1/installBiz", "1") // the broker has it
	controller.say("run.b1/installBiz", "2")
	controller.say("run.b2/installBiz", "3")
	two.hears("installBiz 3")
	one.hearsNothing()
	heart := one.Publish("koupleless_dev/run.b1/base/heart", 1, false, "4") // its acknowledgement is held too
	controller.hears("heart 4")
	r.clear("deaf")
	one.hears("installBiz 1", "installBiz 2")
	if !heart.WaitTimeout(within) || heart.Error() != nil {
		t.Errorf("the heartbeat is not acknowledged: %v", heart.Error())
	}
	controller.say("run.b1/installBiz", "5")
	one.hears("installBiz 5")
	r.told("run deaf set b1", "run deaf fired b1", "run deaf cleared b1")
}

// What goes to the broker is held likewise, and a rule ends by itself.
func TestHoldToBroker(t *testing.T) {
	r := newRig(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{ID: "mute", Kind: v1alpha1.MQTTHold, For: core.Duration(never),
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}, 0, "run-b1")
	began := time.Now()
	base.say("run.b1/base/heart", "1") // is acknowledged when the rule has ended
	if took := time.Since(began); took < never {
		t.Errorf("it came after %s", took)
	}
	controller.hears("heart 1")
}

// A half-open connection loses what comes, in one direction, and ends with the rule.
func TestHalfOpen(t *testing.T) {
	r := newRig(t)
	controller, base, other := r.connect("c1"), r.connect("run.b1"), r.connect("run.b2")
	r.set(v1alpha1.Fault{ID: "gone", Kind: v1alpha1.MQTTHalfOpen,
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}}, 0, "run-b1", "run-b2")
	base.Publish("koupleless_dev/run.b1/base/heart", 1, false, "1")
	controller.say("run.b1/installBiz", "2")
	base.hears("installBiz 2") // comes; its acknowledgement is lost
	controller.hearsNothing()
	r.clear("gone")
	base.isLost()
	controller.say("run.b2/installBiz", "3")
	other.hears("installBiz 3") // had lost nothing
	again := r.connect("run.b1")
	again.say("run.b1/base/heart", "4")
	controller.hears("heart 4")
}

// A cut ends the connections of a client and refuses new ones until it ends.
func TestCut(t *testing.T) {
	r := newRig(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{Kind: v1alpha1.MQTTCut}, 0, "run-b1")
	base.isLost()
	o := paho.NewClientOptions().AddBroker("tcp://" + r.broker.Addr()).SetClientID(
		"koupleless@@@run.b1").SetAutoReconnect(false).
		SetUsername(broker.BaseUser).SetPassword(r.broker.Passwords().Base)
	refused := paho.NewClient(o).Connect()
	if !refused.WaitTimeout(within) || refused.Error() == nil {
		t.Errorf("it got in again: %v", refused.Error())
	}
	r.connect("run.b2").say("run.b2/base/heart", "1")
	controller.hears("heart 1")
	if x := r.rule("cut"); x.Fired < 2 {
		t.Errorf("it fired %d times", x.Fired)
	}
	r.clear("cut")
	r.connect("run.b1").say("run.b1/base/heart", "2")
	controller.hears("heart 2")
}

// What is delayed comes later, in order.
func TestDelay(t *testing.T) {
	r := newRig(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: core.Delay{Min: core.Duration(never)},
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker}}, 0, "run-b1")
	began := time.Now()
	for i := range 5 {
		controller.say("run.b1/installBiz", fmt.Sprint(i))
	}
	base.hears("installBiz 0", "installBiz 1", "installBiz 2", "installBiz 3", "installBiz 4")
	if took := time.Since(began); took < never {
		t.Errorf("they came after %s", took)
	}
}

// The n-th message of a kind is delivered twice, the second time marked, and its sender hears of one
// delivery: the next message of its gets through.
func TestDuplicate(t *testing.T) {
	for _, direction := range []v1alpha1.Direction{v1alpha1.ToBroker, v1alpha1.FromBroker} {
		t.Run(string(direction), func(t *testing.T) {
			r := newRig(t)
			controller, base := r.connect("c1"), r.connect("run.b1")
			r.set(v1alpha1.Fault{Kind: v1alpha1.MQTTDuplicate, Skip: 1,
				Match: v1alpha1.FaultMatch{Direction: direction, Messages: []string{"installBiz"}}}, 0, "run-b1")
			if direction == v1alpha1.ToBroker {
				r.set(v1alpha1.Fault{ID: "c", Kind: v1alpha1.MQTTDuplicate, Skip: 1,
					Match: v1alpha1.FaultMatch{Direction: direction, Messages: []string{"installBiz"}}}, 1)
			}
			for i := range 4 {
				controller.say("run.b1/health", fmt.Sprint(i))
				controller.say("run.b1/installBiz", fmt.Sprint(i))
			}
			mark := " again"
			if direction == v1alpha1.ToBroker {
				mark = "" // the broker delivers both as its own
			}
			base.hears("health 0", "installBiz 0", "health 1", "installBiz 1", "installBiz 1"+mark, "health 2",
				"installBiz 2", "health 3", "installBiz 3")
			base.hearsNothing()
		})
	}
}

// A message comes after the next one of another topic, those of its own topic behind it; and after a
// second if there is none.
func TestReorder(t *testing.T) {
	r := newRig(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	reorder := v1alpha1.Fault{Kind: v1alpha1.MQTTReorder,
		Match: v1alpha1.FaultMatch{Direction: v1alpha1.FromBroker, Messages: []string{"installBiz"}}}
	r.set(reorder, 0, "run-b1")
	controller.say("run.b1/installBiz", "1")
	controller.say("run.b1/installBiz", "2")
	controller.say("run.b1/uninstallBiz", "3")
	base.hears("uninstallBiz 3", "installBiz 1", "installBiz 2")
	r.set(reorder, 0, "run-b1")
	controller.say("run.b1/installBiz", "4")
	base.hears("installBiz 4")
}

// The controller is killed before its n-th message, which never comes, or after it; messages for the
// bases of others do not count.
func TestKill(t *testing.T) {
	for kind, comes := range map[core.Kind]bool{v1alpha1.MQTTKillBefore: false, v1alpha1.MQTTKillAfter: true} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t)
			controller, second, base, other := r.connect("c1"), r.connect("c2"), r.connect("run.b1"), r.connect(
				"other.b1")
			killed := make(chan int, 1)
			r.kill = func(n int) {
				controller.Disconnect(0)
				killed <- n
			}
			r.set(v1alpha1.Fault{ID: "k", Kind: kind, Skip: 1,
				Match: v1alpha1.FaultMatch{Messages: []string{"installBiz"}}}, 1)
			controller.say("run.b1/installBiz", "1")
			controller.say("other.b1/installBiz", "2")
			second.say("run.b1/installBiz", "3")
			base.hears("installBiz 1", "installBiz 3")
			other.hears("installBiz 2")
			controller.Publish("koupleless_dev/run.b1/installBiz", 1, false, "4")
			select {
			case n := <-killed:
				if n != 1 {
					t.Errorf("controller %d was killed", n)
				}
			case <-time.After(within):
				t.Fatal("nobody was killed")
			}
			if comes {
				base.hears("installBiz 4")
			}
			base.hearsNothing()
			if x := r.rule("k"); x.Fired != 1 || x.Ended == "" {
				t.Errorf("the rule is %+v", x)
			}
		})
	}
}

// A rule that notes ends at the n-th message, and ids belong to groups.
func TestNote(t *testing.T) {
	r := newRig(t)
	controller, base := r.connect("c1"), r.connect("run.b1")
	r.set(v1alpha1.Fault{ID: "third", Kind: v1alpha1.MQTTNote, Skip: 2,
		Match: v1alpha1.FaultMatch{Messages: []string{"installBiz"}}}, 0)
	note := v1alpha1.Fault{ID: "third", Kind: v1alpha1.MQTTNote, Count: 9}
	v1alpha1.SetFaultDefaults(v1alpha1.TargetMQTT, &note)
	if _, err := r.Inject(fault.Injection{Fault: note, Target: v1alpha1.TargetMQTT, Group: "run"}); err == nil {
		t.Error("the id is there twice in a group")
	}
	if _, err := r.Inject(fault.Injection{Fault: note, Target: v1alpha1.TargetMQTT, Group: "other"}); err != nil {
		t.Error(err)
	}
	var ended []bool
	for i := range 3 {
		controller.say("run.b1/installBiz", fmt.Sprint(i))
		ended = append(ended, r.rule("third").Ended != "")
	}
	base.hears("installBiz 0", "installBiz 1", "installBiz 2")
	if diff := cmp.Diff([]bool{false, false, true}, ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
}
