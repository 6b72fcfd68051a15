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

// ErrExists is the cause of the error that Add returns if another fault in effect has the same ID.
var ErrExists = errors.New("already exists; clear it first")

// The reasons why a fault ended.
const (
	UsedUp  = "the count was reached"
	Expired = "the duration has passed"
	Cleared = "it was cleared"
)

// maxEnded is the maximum number of ended faults that a Set keeps in its list.
const maxEnded = 1000

// Rule contains the fields that the faults of all targets have in common.
type Rule struct {
	// ID identifies the fault within its scope. Default: a generated ID.
	ID string
	// Scope is the namespace in which the ID is unique.
	Scope string
	// Skip is the number of initial matches that do not trigger the fault.
	Skip int
	// Count is the number of times that the fault is triggered before it ends. Zero means unlimited.
	Count int
	// Probability is the probability that a match triggers the fault. Zero means 1.
	Probability float64
	// Seed is the random seed of the fault. Zero means the seed of the Set.
	Seed uint64
	// For is the duration of the fault. Zero means until the fault is cleared.
	For time.Duration
}

// Active is a fault that was added to a Set. It stays in the list of the Set until it is cleared, even after it has
// ended.
type Active[F any] struct {
	Rule
	// Fault is the target-specific part of the fault.
	Fault F
	// Triggered is the number of times that the fault was triggered.
	Triggered int
	// Ended is the reason why the fault has ended. It is empty while the fault is in effect.
	Ended string
	// Done is closed when the fault is cleared or its duration has passed, but not when its count is reached.
	Done chan struct{}

	matched, claimed int
	rnd              *rand.Rand
	doneClosed       bool
	stopTimer        func() // stops the timer that ends the fault
}

// Set holds the faults of one target. The mutex of the owner guards it: the caller of every method except None must
// hold the mutex. OnTriggered and OnEnded are called with the mutex locked. The zero value is usable for all fields
// except Mutex.
type Set[F any] struct {
	// Mutex is the mutex of the owner. It is required if faults have a duration, because their timers lock it.
	Mutex sync.Locker
	// Seed is the random seed for faults that have no seed.
	Seed uint64
	// OnTriggered is called when a fault is triggered. OnEnded is called when a fault ends.
	OnTriggered, OnEnded func(*Active[F])
	// OnExpired is called without the mutex when the duration of a fault has passed.
	OnExpired func(*Active[F])

	all      []*Active[F]
	added    int
	inEffect atomic.Int32
}

// None reports whether no fault is in effect. The caller does not need to hold the mutex.
func (s *Set[F]) None() bool { return s.inEffect.Load() == 0 }

// Add adds a fault to the set and puts it into effect.
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
		timer := time.AfterFunc(r.For, func() { s.expire(a) })
		a.stopTimer = func() { timer.Stop() }
	}
	return a, nil
}

func (s *Set[F]) expire(a *Active[F]) {
	s.Mutex.Lock()
	ended := s.End(a, Expired)
	s.Mutex.Unlock()
	if ended && s.OnExpired != nil {
		s.OnExpired(a)
	}
}

// All iterates over all faults, including ended ones, in the order in which they were added.
func (s *Set[F]) All() iter.Seq[*Active[F]] { return slices.Values(s.all) }

// InEffect iterates over the faults that are in effect. Faults may end during the iteration.
func (s *Set[F]) InEffect() iter.Seq[*Active[F]] {
	return func(yield func(*Active[F]) bool) {
		for _, a := range slices.Clone(s.all) {
			if a.Ended == "" && !yield(a) {
				return
			}
		}
	}
}

// ShouldTrigger reports whether a match triggers the fault. If it returns true, the caller must call RecordTrigger
// when the fault has had its effect, or CancelTrigger if the fault had no effect.
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

// CancelTrigger reverts a call of ShouldTrigger that returned true. Call it if the fault had no effect.
func (a *Active[F]) CancelTrigger() { a.claimed-- }

// Float64 returns a random number in [0, 1), generated from the seed of the fault.
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

// StopTimers stops the timers of all faults. The faults that are in effect stay in effect.
func (s *Set[F]) StopTimers() {
	for _, a := range s.all {
		a.stopTimer()
	}
}
