package traffic

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// TargetSet is what a stream may pick from.
type TargetSet struct {
	// Targets has each address once.
	Targets []Target `json:"targets,omitempty"`
	// Affinity is how long a stream stays with its endpoint; 0 = not at all.
	Affinity time.Duration `json:"affinity,omitempty"`
	// None says why there are no Targets.
	EmptyReason string `json:"emptyReason,omitempty"`
}

// choices are the targets of a stream that does not follow Services and bases itself. Its methods may be called
// concurrently.
type choices struct {
	mu     sync.Mutex
	choice TargetSet
	stick  stick
}

// set replaces the targets, which do not change afterwards.
func (p *choices) set(c TargetSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choice = c
}

func (p *choices) targets() []Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.choice.Targets
}

// pick chooses as Gateway.Pick does. It calls draw while it is locked; nil = at random.
func (p *choices) pick(draw func(n int) int) (Target, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.choice.Targets
	if len(all) == 0 {
		return Target{}, fmt.Errorf("%w: %s", ErrNoEndpoint, p.choice.EmptyReason)
	}
	if draw == nil {
		draw = rand.IntN
	}
	return all[p.stick.choose(len(all), func(i int) string { return all[i].IP }, p.choice.Affinity, time.Now(), draw)],
		nil
}

// stick is the endpoint that a client has picked last, and when it last used it.
type stick struct {
	ip   string
	last time.Time
}

// choose chooses one of n endpoints by draw, or the one of before while the client stays with it.
func (s *stick) choose(n int, ip func(i int) string, affinity time.Duration, now time.Time, draw func(n int) int) int {
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
	*s = stick{ip(i), now}
	return i
}
