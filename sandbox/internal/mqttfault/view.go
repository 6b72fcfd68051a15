package mqttfault

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// Client is the client that a connection belongs to: a base, or else a controller.
type Client struct {
	// Base is its host name, and Group its group of bases; both are empty for a controller.
	Base, Group string
	// Replica is the number of a controller, from 1; 0 = a base, or unknown.
	Replica int
}

// Options of a View.
type Options struct {
	// Who returns the client of an identity, which client ids end with and topics name. It must not block, nor
	// call the View. Required.
	Who func(identity string) Client
	// Faults of the sandbox. Required.
	Faults *fault.Set
	// Kill kills the n-th controller; 0 = all. It blocks until that has ended. Required.
	Kill func(n int)
}

// View applies faults to its connections. Its methods may be called concurrently. The mutex of the
// faults guards it.
type View struct {
	o Options
	*fault.Set
	conns map[*conn]struct{}
	// lost are the connections on which a halfOpen has lost something.
	lost map[*fault.Active]map[*conn]bool
}

// New returns a view without connections.
func New(o Options) *View {
	v := &View{o: o, Set: o.Faults, conns: map[*conn]struct{}{}, lost: map[*fault.Active]map[*conn]bool{}}
	v.OnEnded(v1alpha1.TargetMQTT, v.ended)
	return v
}

func (v *View) live() iter.Seq[*fault.Active] { return v.InEffect(v1alpha1.TargetMQTT) }

// Inject sets a valid fault that has its defaults, and returns its ID.
func (v *View) Inject(i fault.Injection) (id string, err error) {
	v.Lock()
	defer v.Unlock()
	x, err := v.Add(i)
	if err != nil {
		return "", err
	}
	for c := range v.conns {
		v.arm(c)
		v.cut(x, c)
	}
	return x.ID, nil
}

func (v *View) cut(x *fault.Active, c *conn) {
	if x.Fault.Kind == v1alpha1.MQTTCut && c.known && meets(x, c.client) {
		v.RecordTrigger(x, c.client.Base, "a connection")
		c.shut()
	}
}

// meets reports whether a fault acts on the connections of a client.
func meets(x *fault.Active, c Client) bool { return x.Fault.ActsOn(c.Base, c.Replica) }

// in reports whether a fault acts in a direction.
func in(x *fault.Active, d v1alpha1.Direction) bool {
	return x.Fault.Match.Direction == d || x.Fault.Match.Direction == v1alpha1.BothDirections
}

// about reports whether a message matches a fault. Of a controller, those to and from the bases of the
// fault's group do.
func about(x *fault.Active, by Client, m *packet, who func(identity string) Client) bool {
	if m.topic == "" || m.qos == 0 {
		return false
	}
	parts := strings.Split(m.topic, "/")
	if messages := x.Fault.Match.Messages; len(messages) > 0 && !slices.Contains(messages, parts[len(parts)-1]) {
		return false
	}
	if by.Base != "" || x.Fault.Group == "" {
		return true
	}
	return len(parts) > 1 && who(parts[1]).Group == x.Fault.Group
}

// verdict is the effect of the faults on a packet.
type verdict struct {
	delay time.Duration
	lose  bool // drop it
	again bool // deliver it twice
	aside bool // deliver it after the next message of another topic
	kill  bool // kill the controller that sends or receives it
	shut  bool // end the connection
}

// judge applies the faults to a packet. Delays add up. Of the faults that single messages trigger, the one that was
// set first counts.
func (v *View) judge(c *conn, d v1alpha1.Direction, m *packet) (out verdict) {
	v.Lock()
	defer v.Unlock()
	decided := false
	for x := range v.live() {
		kind := x.Fault.Kind
		if !meets(x, c.client) || !in(x, d) && kind != v1alpha1.MQTTCut {
			continue
		}
		switch kind {
		case v1alpha1.MQTTCut:
			out.shut = true
			continue
		case v1alpha1.MQTTHalfOpen:
			out.lose = true
			if v.lost[x] == nil {
				v.lost[x] = map[*conn]bool{}
			}
			v.lost[x][c] = true
		case v1alpha1.MQTTHold:
		case v1alpha1.MQTTDelay:
			out.delay += x.Fault.Delay.Sample(x.Float64)
		default:
			if !about(x, c.client, m, v.o.Who) || kind != v1alpha1.MQTTNote && decided || !x.ShouldTrigger() {
				continue
			}
			switch kind {
			case v1alpha1.MQTTDuplicate:
				out.again = true
			case v1alpha1.MQTTReorder:
				out.aside = true
			case v1alpha1.MQTTKillBefore:
				out.kill, out.lose = true, true
			case v1alpha1.MQTTKillAfter:
				out.kill = true
			}
			decided = decided || kind != v1alpha1.MQTTNote
		}
		v.RecordTrigger(x, c.client.Base, m.String())
	}
	return out
}

// arm routes the packets of a connection through its pipes if a fault acts on it, and applies faults that hold.
func (v *View) arm(c *conn) {
	for x := range v.live() {
		if c.identity == "" {
			return
		}
		if !c.known {
			c.client, c.known = v.o.Who(c.identity), true
		}
		if meets(x, c.client) {
			c.tapped.Store(true)
		}
	}
	v.hold(c)
}

// hold holds back the directions of a connection that a fault holds, and releases the others.
func (v *View) hold(c *conn) {
	for _, p := range c.pipes() {
		held := false
		for x := range v.live() {
			held = held || x.Fault.Kind == v1alpha1.MQTTHold && c.known && meets(x, c.client) && in(x, p.direction)
		}
		p.hold(held)
	}
}

func (v *View) ended(x *fault.Active) {
	for c := range v.conns {
		v.hold(c)
		if v.lost[x][c] {
			c.shut()
		}
	}
	delete(v.lost, x)
}
