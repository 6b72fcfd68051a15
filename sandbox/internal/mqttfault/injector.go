package mqttfault

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// Client identifies the client of a connection, which is a base or a controller.
type Client struct {
	// Base is the host name of the base. Group is the group of the base. Both are empty for a controller.
	Base, Group string
	// Replica is the number of the controller, from 1. It is 0 for a base or an unknown client.
	Replica int
}

// Options configures an Injector.
type Options struct {
	// ClientOf returns the client with the given identity, which is the last part of the MQTT client ID and is also
	// used in topics. ClientOf must not block or call the Injector. Required.
	ClientOf func(identity string) Client
	// Faults contains the faults of the sandbox. Required.
	Faults *fault.Set
	// Kill kills the controller with the number n and blocks until it has exited. n is 0 if the number is unknown.
	// Required.
	Kill func(n int)
}

// Injector injects faults into MQTT connections. Its methods may be called concurrently. The mutex of the embedded
// Set guards all fields.
type Injector struct {
	o Options
	*fault.Set
	conns map[*conn]struct{}
	// halfOpenConns contains, for each halfOpen fault, the connections on which the fault has dropped packets.
	halfOpenConns map[*fault.Active]map[*conn]bool
}

// New returns an Injector without connections.
func New(o Options) *Injector {
	j := &Injector{o: o, Set: o.Faults, conns: map[*conn]struct{}{}, halfOpenConns: map[*fault.Active]map[*conn]bool{}}
	j.OnEnded(v1alpha1.TargetMQTT, j.onEnded)
	return j
}

func (j *Injector) inEffect() iter.Seq[*fault.Active] { return j.InEffect(v1alpha1.TargetMQTT) }

// Inject sets a fault and returns its ID. The fault must be valid and have its defaults set.
func (j *Injector) Inject(i fault.Injection) (id string, err error) {
	j.Lock()
	defer j.Unlock()
	x, err := j.Add(i)
	if err != nil {
		return "", err
	}
	for c := range j.conns {
		j.updateConn(c)
		j.cutConn(x, c)
	}
	return x.ID, nil
}

func (j *Injector) cutConn(x *fault.Active, c *conn) {
	if x.Fault.Kind == v1alpha1.MQTTCut && c.known && actsOn(x, c.client) {
		j.RecordTrigger(x, c.client.Base, "a connection")
		c.disconnect()
	}
}

// actsOn reports whether a fault applies to the connections of a client.
func actsOn(x *fault.Active, c Client) bool { return x.Fault.ActsOn(c.Base, c.Replica) }

// actsIn reports whether a fault applies to packets in the direction d.
func actsIn(x *fault.Active, d v1alpha1.Direction) bool {
	return x.Fault.Match.Direction == d || x.Fault.Match.Direction == v1alpha1.BothDirections
}

// matchesMessage reports whether the packet m is a message that the fault matches. On the connection of a controller,
// the fault matches only messages to and from the bases in its group.
func matchesMessage(x *fault.Active, client Client, m *packet, clientOf func(identity string) Client) bool {
	if m.topic == "" || m.qos == 0 {
		return false
	}
	parts := strings.Split(m.topic, "/")
	if messages := x.Fault.Match.Messages; len(messages) > 0 && !slices.Contains(messages, parts[len(parts)-1]) {
		return false
	}
	if client.Base != "" || x.Fault.Group == "" {
		return true
	}
	return len(parts) > 1 && clientOf(parts[1]).Group == x.Fault.Group
}

// effects describes what faults do to one packet.
type effects struct {
	delay      time.Duration
	drop       bool // whether to drop the packet
	duplicate  bool // whether to deliver the packet twice
	reorder    bool // whether to deliver the packet after the next message of another topic
	kill       bool // whether to kill the controller that sends or receives the packet
	disconnect bool // whether to close the connection, as after a network failure
}

// applyFaults returns the combined effects of all faults on a packet. It adds up the delays of all faults. Of the
// faults that act on single messages, only the one that was set first has an effect.
func (j *Injector) applyFaults(c *conn, d v1alpha1.Direction, m *packet) (out effects) {
	j.Lock()
	defer j.Unlock()
	decided := false
	for x := range j.inEffect() {
		kind := x.Fault.Kind
		if !actsOn(x, c.client) || !actsIn(x, d) && kind != v1alpha1.MQTTCut {
			continue
		}
		switch kind {
		case v1alpha1.MQTTCut:
			out.disconnect = true
			continue
		case v1alpha1.MQTTHalfOpen:
			out.drop = true
			if j.halfOpenConns[x] == nil {
				j.halfOpenConns[x] = map[*conn]bool{}
			}
			j.halfOpenConns[x][c] = true
		case v1alpha1.MQTTHold:
		case v1alpha1.MQTTDelay:
			out.delay += x.Fault.Delay.Sample(x.Float64)
		default:
			if !matchesMessage(x, c.client, m, j.o.ClientOf) || kind != v1alpha1.MQTTNote && decided ||
				!x.ShouldTrigger() {
				continue
			}
			switch kind {
			case v1alpha1.MQTTDuplicate:
				out.duplicate = true
			case v1alpha1.MQTTReorder:
				out.reorder = true
			case v1alpha1.MQTTKillBefore:
				out.kill, out.drop = true, true
			case v1alpha1.MQTTKillAfter:
				out.kill = true
			}
			decided = decided || kind != v1alpha1.MQTTNote
		}
		j.RecordTrigger(x, c.client.Base, m.String())
	}
	return out
}

// updateConn makes the packets of a connection pass through the pipes if a fault acts on the connection, and updates
// the holds of both directions.
func (j *Injector) updateConn(c *conn) {
	for x := range j.inEffect() {
		if c.identity == "" {
			return
		}
		if !c.known {
			c.client, c.known = j.o.ClientOf(c.identity), true
		}
		if actsOn(x, c.client) {
			c.piped.Store(true)
		}
	}
	j.updateHolds(c)
}

// updateHolds stops the delivery in each direction of a connection on which a hold fault acts, and resumes the
// delivery in the other directions.
func (j *Injector) updateHolds(c *conn) {
	for _, p := range c.pipes() {
		held := false
		for x := range j.inEffect() {
			held = held || x.Fault.Kind == v1alpha1.MQTTHold && c.known && actsOn(x, c.client) && actsIn(x, p.direction)
		}
		p.hold(held)
	}
}

func (j *Injector) onEnded(x *fault.Active) {
	for c := range j.conns {
		j.updateHolds(c)
		if j.halfOpenConns[x][c] {
			c.disconnect()
		}
	}
	delete(j.halfOpenConns, x)
}
