package fuzz

import (
	"slices"
	"sync"
)

// coverage counts the pairs of moves, with the trigger of the second, that there were, and the features
// that were seen: kinds of events and of lines of logs. It may be used concurrently.
type coverage struct {
	mu       sync.Mutex
	pairs    map[pair]int
	features map[string]bool
	// fruitful are the pairs whose last schedule has shown a feature that was new.
	fruitful map[pair]bool
}

// pair is a move that comes after another one.
type pair struct {
	First  string
	When   Trigger
	Second string
}

// pairs are those of a schedule; a first move has itself as the one before.
func (s Schedule) pairs() (list []pair) {
	before := ""
	for _, m := range s.Moves {
		list = append(list, pair{before, m.When, m.Do})
		before = m.Do
	}
	return list
}

// prefer returns the schedule with the largest share of pairs that there were not yet, so that long
// ones have no advantage, and counts its own. A pair whose last schedule has shown something new counts
// half.
func (c *coverage) prefer(list []Schedule) Schedule {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pairs == nil {
		c.pairs = map[pair]int{}
	}
	score := func(s Schedule) (n int) {
		for _, p := range s.pairs() {
			switch {
			case c.pairs[p] == 0:
				n += 2
			case c.fruitful[p]:
				n++
			}
		}
		return n
	}
	best := slices.MaxFunc(list, func(a, b Schedule) int { return score(a)*len(b.Moves) - score(b)*len(a.Moves) })
	for _, p := range best.pairs() {
		c.pairs[p]++
	}
	return best
}

// saw notes the features that a schedule has shown.
func (c *coverage) saw(s Schedule, features []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.features == nil {
		c.features, c.fruitful = map[string]bool{}, map[pair]bool{}
	}
	known := len(c.features)
	for _, f := range features {
		c.features[f] = true
	}
	for _, p := range s.pairs() {
		c.fruitful[p] = len(c.features) > known
	}
}

// size is how many pairs there were, and how many features were seen.
func (c *coverage) size() (pairs, features int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pairs), len(c.features)
}
