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

// ErrExists is returned, wrapped, if another fault that is in effect has the same ID.
var ErrExists = errors.New("already exists; clear it first")

// The reasons why a fault ends.
const (
	UsedUp  = "the count was reached"
	Expired = "the duration has passed"
	Cleared = "it was cleared"
)

// maxEnded is the maximum number of ended faults in the list of a Set.
const maxEnded = 1000

// Rule is the part of a fault that all targets have.
type Rule struct {
	// ID identifies the fault within its scope. Default: a generated ID.
	ID string
	// Scope is the namespace of the ID.
	Scope string
	// Skip is the number of matches before the first one that can trigger the fault.
	Skip int
	// Count is the number of times that the fault is triggered before it ends; zero = unlimited.
	Count int
	// Probability is the probability that a match triggers the fault; zero = 1.
	Probability float64
	// Seed is the random seed; zero = the seed of the Set.
	Seed uint64
	// For is the duration of the fault; zero = until it is cleared.
	For time.Duration
}

// Active is a fault that was set. It stays in the list of its Set until it is cleared, also after it has ended.
type Active[F any] struct {
	Rule
	// Fault is the fault as defined by the target.
	Fault F
	// Triggered is the number of times that the fault was triggered.
	Triggered int
	// Ended is the reason why the fault has ended; empty = it is in effect.
	Ended string
	// Done is closed when the fault is cleared or its duration has passed, but not when its count is reached.
	Done chan struct{}

	matched, claimed int
	rnd              *rand.Rand
	doneClosed       bool
	stopTimer        func() // the timer
}

// Set has the faults of a target. The mutex of its owner guards it: the caller of a method, except None, holds the mutex.
// OnTriggered and OnEnded are called with the mutex locked. The zero value of all fields except Mutex is usable.
type Set[F any] struct {
	// Mutex is the mutex of the owner. Required for faults with a duration, whose timers lock it.
	Mutex sync.Locker
	// Seed is the random seed of faults without a seed.
	Seed uint64
	// AfterFunc starts a timer. Default: time.AfterFunc.
	AfterFunc func(time.Duration, func()) (stop func())
	// OnTriggered is called when a fault is triggered, OnEnded when it ends.
	OnTriggered, OnEnded func(*Active[F])
	// OnExpired is called when the duration of a fault has passed. The mutex is not locked.
	OnExpired func(*Active[F])

	all      []*Active[F]
	added    int
	inEffect atomic.Int32
}

// None reports whether no fault is in effect. It needs no mutex.
func (s *Set[F]) None() bool { return s.inEffect.Load() == 0 }

// Add sets a fault.
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
	a.rnd = rand.New(rand.NewPCG(cmp.Or(r.Seed, s.Seed), uint64(s.added))) //nolint:gosec // not used for security
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
	ended := s.End(a, Expired)
	s.Mutex.Unlock()
	if ended && s.OnExpired != nil {
		s.OnExpired(a)
	}
}

// All iterates over all faults in the order in which they were set, including ended ones.
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

// ShouldTrigger reports whether a match triggers the fault. If it returns true, the caller must call RecordTrigger when
// the fault has had its effect, or CancelTrigger.
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

// CancelTrigger reverts a call of ShouldTrigger that returned true, because the fault had no effect.
func (a *Active[F]) CancelTrigger() { a.claimed-- }

// Float64 returns a random number in [0, 1), from the seed of the fault.
func (a *Active[F]) Float64() float64 { return a.rnd.Float64() }

// RecordTrigger records that a fault was triggered, and ends the fault if its count is reached.
func (s *Set[F]) RecordTrigger(a *Active[F]) {
	a.Triggered++
	if s.OnTriggered != nil {
		s.OnTriggered(a)
	}
	if a.Count > 0 && a.Triggered >= a.Count {
		s.End(a, UsedUp)
	}
}

// End ends a fault, and reports whether it was in effect.
func (s *Set[F]) End(a *Active[F], reason string) bool {
	if reason != UsedUp && !a.doneClosed { // effects continue after the count is reached
		a.doneClosed = true
		close(a.Done)
		a.stopTimer()
	}
	if a.Ended != "" {
		return false
	}
	a.Ended = reason
	s.inEffect.Add(-1)
	if s.OnEnded != nil {
		s.OnEnded(a)
	}
	return true
}

// Clear ends the matching faults, removes them from the list, and returns them.
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

// StopTimers stops the timers of all faults. Faults in effect stay in effect.
func (s *Set[F]) StopTimers() {
	for _, a := range s.all {
		a.stopTimer()
	}
}
