package traffic

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// TargetSet is the set of targets from which a stream selects.
type TargetSet struct {
	// Targets contains at most one target for each address.
	Targets []Target `json:"targets,omitempty"`
	// Affinity is the session affinity timeout, during which a stream keeps its endpoint; 0 means that the stream
	// selects an endpoint for each connection.
	Affinity time.Duration `json:"affinity,omitempty"`
	// EmptyReason is the reason why Targets is empty; otherwise it is empty.
	EmptyReason string `json:"emptyReason,omitempty"`
}

// pushedTargets holds the targets of a stream that receives its targets from the caller; see Generator.SetTargets.
// Its methods may be called concurrently.
type pushedTargets struct {
	mu           sync.Mutex
	targetSet    TargetSet
	lastEndpoint lastEndpoint
}

// set replaces the targets. The caller must not modify c afterwards.
func (p *pushedTargets) set(c TargetSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targetSet = c
}

func (p *pushedTargets) targets() []Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targetSet.Targets
}

// pick selects a target in the same way as Gateway.Pick. It calls draw with the lock held. If draw is nil, it uses
// the default random source.
func (p *pushedTargets) pick(draw func(n int) int) (Target, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.targetSet.Targets
	if len(all) == 0 {
		return Target{}, fmt.Errorf("%w: %s", ErrNoEndpoint, p.targetSet.EmptyReason)
	}
	if draw == nil {
		draw = rand.IntN
	}
	return all[p.lastEndpoint.choose(len(all), func(i int) string { return all[i].IP }, p.targetSet.Affinity,
			time.Now(), draw)],
		nil
}

// lastEndpoint is the endpoint that a client used last, and the time of its last use.
type lastEndpoint struct {
	ip   string
	last time.Time
}

// choose returns the index of one of n endpoints: the last endpoint if it was used within the affinity timeout, and
// otherwise the endpoint that draw selects.
func (s *lastEndpoint) choose(n int, ip func(i int) string, affinity time.Duration, now time.Time,
	draw func(n int) int) int {
	if affinity <= 0 {
		return draw(n)
	}
	if now.Sub(s.last) < affinity {
		for i := range n {
			if ip(i) == s.ip {
				s.last = now
				return i
			}
		}
	}
	i := draw(n)
	*s = lastEndpoint{ip(i), now}
	return i
}
