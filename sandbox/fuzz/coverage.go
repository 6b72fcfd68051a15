package fuzz

import (
	"slices"
	"sync"
)

// coverage counts the pairs of moves, with the trigger of the second, that there were. It may be used
// concurrently.
type coverage struct {
	mu    sync.Mutex
	pairs map[pair]int
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
// ones have no advantage, and counts its own.
func (c *coverage) prefer(list []Schedule) Schedule {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pairs == nil {
		c.pairs = map[pair]int{}
	}
	fresh := func(s Schedule) (n int) {
		for _, p := range s.pairs() {
			if c.pairs[p] == 0 {
				n++
			}
		}
		return n
	}
	best := slices.MaxFunc(list, func(a, b Schedule) int { return fresh(a)*len(b.Moves) - fresh(b)*len(a.Moves) })
	for _, p := range best.pairs() {
		c.pairs[p]++
	}
	return best
}

// size is how many pairs there were.
func (c *coverage) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pairs)
}
