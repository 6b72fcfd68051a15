package fault

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ErrExists is returned, wrapped, for a fault whose ID belongs to another fault that is in effect.
var ErrExists = errors.New("there is one with this id, clear it first")

// The reasons for which a fault ends.
const (
	UsedUp  = "its count is reached"
	Expired = "its time is over"
	Cleared = "it was cleared"
)

// maxEnded is how many faults that have ended a Set lists.
const maxEnded = 1000

// Rule is the part of a fault that does not depend on its target.
type Rule struct {
	// ID names the fault. Default: a number is given.
	ID string
	// Scope is what the ID is unique in.
	Scope string
	// Skip is how many matches pass before the first one triggers the fault.
	Skip int
	// Count is how often the fault is triggered before it ends; zero = without limit.
	Count int
	// Probability is the share of the matches that trigger the fault; zero = 1.
	Probability float64
	// Seed makes Probability repeatable; zero = the seed of the Set.
	Seed uint64
	// For is how long the fault is in effect; zero = until it is cleared.
	For time.Duration
}

// Active is a fault that was set. It stays listed after its end until it is cleared.
type Active[F any] struct {
	Rule
	// Fault is what the target knows of the fault.
	Fault F
	// Triggered is how often the fault was triggered.
	Triggered int
	// Ended is the reason for which the fault has ended; empty = it is in effect.
	Ended string
	// Done is closed when the fault is cleared or its time is over.
	Done chan struct{}

	matched, claimed int
	rnd             *rand.Rand
	doneClosed            bool
	stopTimer            func() // the timer
}

// Set holds the faults of a target. The mutex of its owner guards it; hooks are called with that
// mutex locked, but for OnExpired. The zero value of all fields but Mutex is usable.
type Set[F any] struct {
	// Mutex of the owner, which the timers of faults lock. Required for faults with a limited time.
	Mutex sync.Locker
	// Seed of faults without their own.
	Seed uint64
	// AfterFunc starts timers. Default: time.AfterFunc.
	AfterFunc func(time.Duration, func()) (stop func())
	// OnTriggered is called when a fault is triggered, OnEnded when it ends.
	OnTriggered, OnEnded func(*Active[F])
	// OnExpired is called, without the mutex, after the time of a fault is over.
	OnExpired func(*Active[F])

	all  []*Active[F]
	added int
	inEffect atomic.Int32
}

// None reports whether no fault is in effect. It needs no mutex.
func (s *Set[F]) None() bool { return s.inEffect.Load() == 0 }

// Add puts a fault into effect.
func (s *Set[F]) Add(r Rule, f F) (*Active[F], error) {
	s.added++
	r.ID = cmp.Or(r.ID, "fault-"+strconv.Itoa(s.added))
	same := func(a *Active[F]) bool { return a.ID == r.ID && a.Scope == r.Scope }
	if slices.ContainsFunc(s.all, func(a *Active[F]) bool { return same(a) && a.Ended == "" }) {
		return nil, fmt.Errorf("fault %q: %w", r.ID, ErrExists)
	}
	ended := 0
	for _, a := range s.all {
		if a.Ended != "" {
			ended++
		}
	}
	s.all = slices.DeleteFunc(s.all, func(a *Active[F]) bool { return a.Ended != "" && (ended >= maxEnded || same(a)) })
	a := &Active[F]{Rule: r, Fault: f, Done: make(chan struct{}), stopTimer: func() {}}
	a.rnd = rand.New(rand.NewPCG(cmp.Or(r.Seed, s.Seed), uint64(s.added))) //nolint:gosec // any number will do
	s.all = append(s.all, a)
	s.inEffect.Add(1)
	if r.For > 0 {
		a.stopTimer = s.after(r.For, func() { s.expire(a) })
	}
	return a, nil
}

func (s *Set[F]) after(d time.Duration, f func()) (stop func()) {
	if s.AfterFunc != nil {
		return s.AfterFunc(d, f)
	}
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}

func (s *Set[F]) expire(a *Active[F]) {
	s.Mutex.Lock()
	over := s.End(a, Expired)
	s.Mutex.Unlock()
	if over && s.OnExpired != nil {
		s.OnExpired(a)
	}
}

// All iterates over the faults in the order in which they were set, those that have ended too.
func (s *Set[F]) All() iter.Seq[*Active[F]] { return slices.Values(s.all) }

// InEffect iterates over the faults that are in effect. They may end during the iteration.
func (s *Set[F]) InEffect() iter.Seq[*Active[F]] {
	return func(yield func(*Active[F]) bool) {
		for _, a := range slices.Clone(s.all) {
			if a.Ended == "" && !yield(a) {
				return
			}
		}
	}
}

// ShouldTrigger reports whether a match triggers the fault. The caller calls Fire when that has happened, or
// Miss.
func (a *Active[F]) ShouldTrigger() bool {
	a.matched++
	if a.matched <= a.Skip || a.Count > 0 && a.claimed >= a.Count {
		return false
	}
	if p := a.Probability; p > 0 && p < 1 && a.rnd.Float64() >= p {
		return false
	}
	a.claimed++
	return true
}

// CancelTrigger takes a Strike back that had no effect.
func (a *Active[F]) CancelTrigger() { a.claimed-- }

// Float64 draws a number in [0, 1) from the seed of the fault.
func (a *Active[F]) Float64() float64 { return a.rnd.Float64() }

// RecordTrigger counts that a fault was triggered, and ends it when its count is reached.
func (s *Set[F]) RecordTrigger(a *Active[F]) {
	a.Triggered++
	if s.OnTriggered != nil {
		s.OnTriggered(a)
	}
	if a.Count > 0 && a.Triggered >= a.Count {
		s.End(a, UsedUp)
	}
}

// End ends a fault for a reason, and reports whether it was in effect.
func (s *Set[F]) End(a *Active[F], why string) bool {
	if why != UsedUp && !a.doneClosed { // what was triggered goes on beyond the count
		a.doneClosed = true
		close(a.Done)
		a.stopTimer()
	}
	if a.Ended != "" {
		return false
	}
	a.Ended = why
	s.inEffect.Add(-1)
	if s.OnEnded != nil {
		s.OnEnded(a)
	}
	return true
}

// Clear ends the faults that match, removes them from the list and returns them.
func (s *Set[F]) Clear(match func(*Active[F]) bool) (cleared []*Active[F]) {
	for _, a := range s.all {
		if match(a) {
			s.End(a, Cleared)
			cleared = append(cleared, a)
		}
	}
	s.all = slices.DeleteFunc(s.all, func(a *Active[F]) bool { return slices.Contains(cleared, a) })
	return cleared
}

// StopTimers ends the timers of all faults: those in effect stay so.
func (s *Set[F]) StopTimers() {
	for _, a := range s.all {
		a.stopTimer()
	}
}
