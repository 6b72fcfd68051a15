package mqttview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Status is a rule with what it has done.
type Status struct {
	v1alpha1.MQTTRule
	// Bases that it is for, by their host names; empty = controllers.
	Bases []string `json:"bases,omitempty"`
	// Replica of the controller that it is for; 0 = all.
	Replica int `json:"replica,omitempty"`
	// Group of bases whose owner has set it; empty = nobody's.
	Group string `json:"group,omitempty"`
	// Fired is how often it has done something: messages that it struck, connections that it cut, packets
	// that it kept back.
	Fired int `json:"fired"`
	// Ended says why it has ended; empty = it has not.
	Ended string `json:"ended,omitempty"`
}

// rule is a rule while it is known. Everything is guarded by View.mu.
type rule struct {
	Status
	matched, struck int
	timer           *time.Timer
	lost            map[*conn]bool // of halfOpen: of which something was lost
}

func (r *rule) live() bool { return r.Ended == "" }

// meets tells whether a connection is one that the rule is for.
func (r *rule) meets(p Party) bool {
	if len(r.Bases) > 0 {
		return slices.Contains(r.Bases, p.Base)
	}
	return p.Base == "" && (r.Replica == 0 || r.Replica == p.Replica)
}

// in tells whether the rule is for a direction.
func (r *rule) in(d v1alpha1.Direction) bool {
	return r.Direction == d || r.Direction == v1alpha1.BothDirections
}

// about tells whether a message is one that the rule strikes. Of a controller's those to and from the
// bases of the rule's group are.
func (r *rule) about(by Party, m *packet, who func(identity string) Party) bool {
	if m.topic == "" || m.qos == 0 {
		return false
	}
	parts := strings.Split(m.topic, "/")
	if len(r.Messages) > 0 && !slices.Contains(r.Messages, parts[len(parts)-1]) {
		return false
	}
	if by.Base != "" || r.Group == "" {
		return true
	}
	return len(parts) > 1 && who(parts[1]).Group == r.Group
}

// strikes tells whether a message that it is about is one that it strikes.
func (r *rule) strikes() bool {
	r.matched++
	if r.matched <= r.Skip || r.Count > 0 && r.struck >= r.Count {
		return false
	}
	r.struck++
	return true
}

// title says in a few words what the rule does.
func (r *rule) title() string {
	text := string(r.Kind)
	if r.Delay != nil {
		text += " " + r.Delay.Duration.String()
	}
	if r.Direction != "" && r.Direction != v1alpha1.BothDirections {
		text += " " + string(r.Direction)
	}
	switch {
	case len(r.Bases) > 0:
	case r.Replica != 0:
		text += fmt.Sprintf(" of controller %d", r.Replica)
	default:
		text += " of controllers"
	}
	return text
}
