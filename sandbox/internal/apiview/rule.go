package apiview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Status is a rule with what it has done.
type Status struct {
	v1alpha1.APIRule
	// Replica of the controller that it is for; 0 = all.
	Replica int `json:"replica,omitempty"`
	// Group of bases whose owner has set it; empty = nobody's.
	Group string `json:"group,omitempty"`
	// Fired is how often it has done something: requests that it struck, events that it kept back,
	// packets that it stopped.
	Fired int `json:"fired"`
	// Ended says why it has ended; empty = it has not.
	Ended string `json:"ended,omitempty"`
}

// rule is a rule while it is known. Everything is guarded by Proxy.mu.
type rule struct {
	Status
	matched, struck int
	timer           *time.Timer
	lists           map[string]*list // of oldList, by key
	gone            []request        // of cutWatch: the watches whose next one is refused
}

func (r *rule) live() bool { return r.Ended == "" }

// meets tells whether a request is one of those that the rule is about.
func (r *rule) meets(replica int, q *request) bool {
	if r.Replica != 0 && r.Replica != replica || q.verb == "" {
		return false
	}
	resource, subresource, one := strings.Cut(r.Resource, "/")
	switch {
	case r.Resource != "" && resource != q.resource, one && subresource != q.subresource:
		return false
	case r.Namespace != "" && q.namespace != "" && r.Namespace != q.namespace:
		return false
	case r.Namespace != "" && q.namespace == "" && !slices.Contains([]string{"list", "watch", "deletecollection"}, q.verb): // what has none
		return false
	case len(r.Verbs) > 0 && !slices.Contains(r.Verbs, q.verb):
		return false
	}
	return r.Name == "" || q.name != "" && strings.HasPrefix(q.name, r.Name)
}

// swallows tells whether the rule makes the way of a controller a black hole.
func (r *rule) swallows(replica int) bool {
	return r.Kind == v1alpha1.APIBlackHole && r.live() && (r.Replica == 0 || r.Replica == replica)
}

// strikes tells whether a request that it meets is one that it strikes.
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
	if r.Code != 0 {
		text += fmt.Sprintf(" %d", r.Code)
	}
	if r.Delay != nil {
		text += " " + r.Delay.Duration.String()
	}
	if r.Resource != "" {
		text += " " + r.Resource
	}
	if r.Replica != 0 {
		text += fmt.Sprintf(" of controller %d", r.Replica)
	}
	return text
}
