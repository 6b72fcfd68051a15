package fault

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

var (
	// ErrExists is returned, wrapped, if the group already has a fault in effect with the same ID.
	ErrExists = fault.ErrExists
	// ErrUnknown is returned, wrapped, if no fault has the given ID, or no controller has the given number.
	ErrUnknown = errors.New("not found")
)

// maxReports is the maximum number of trigger events that are reported per fault. For delays and for faults that stay
// in effect, only one trigger event is reported.
const maxReports = 20

// Injection is a fault together with the target, bases or controllers on which it acts.
type Injection struct {
	v1alpha1.Fault `json:"fault"`
	// Target is the target of the fault. Default: base.
	Target v1alpha1.FaultTarget `json:"target,omitempty"`
	// Bases contains the host names of the bases on which the fault acts. If it is empty, a fault with the target
	// mqtt acts on controllers.
	Bases []string `json:"bases,omitempty"`
	// Replica is the number of the controller on which the fault acts, counted from 1. 0 means all controllers.
	Replica int `json:"replica,omitempty"`
	// Group is the group of bases that the fault belongs to. The fault is cleared when the group is deleted. Default:
	// no group.
	Group string `json:"group,omitempty"`
}

// Status describes a fault that has been set and not yet cleared.
type Status struct {
	Injection
	// Triggered is the number of times that the fault was triggered.
	Triggered int `json:"fired"`
	// Ended is the reason why the fault has ended; empty while the fault is in effect.
	Ended string `json:"ended,omitempty"`
}

// Active is a fault that has been set, together with its trigger count and its end reason.
type Active = fault.Active[Injection]

// Set contains the faults of the targets api and mqtt. Its mutex also guards the state of the two targets.
type Set struct {
	sync.Mutex
	core    fault.Set[Injection]
	onEvent func(group string, e events.Event)
	onEnded map[v1alpha1.FaultTarget]func(*Active)
}

// NewSet returns an empty Set. The Set calls onEvent when a fault is set, is triggered or ends. The mutex is locked
// during the call, so onEvent must not block.
func NewSet(onEvent func(group string, e events.Event)) *Set {
	s := &Set{onEvent: onEvent, onEnded: map[v1alpha1.FaultTarget]func(*Active){}}
	s.core.Mutex = s
	s.core.OnEnded = func(x *Active) {
		if f := s.onEnded[x.Fault.Target]; f != nil {
			f(x)
		}
		s.report(x, "", events.FaultCleared, fmt.Sprintf("triggered %s: %s", times(x.Triggered), x.Ended))
	}
	return s
}

// OnEnded sets the function that is called when a fault with the given target ends. The mutex is locked during the
// call.
func (s *Set) OnEnded(target v1alpha1.FaultTarget, f func(*Active)) { s.onEnded[target] = f }

// Add adds a fault to the Set. The fault must be valid and have its defaults set. The caller holds the mutex.
func (s *Set) Add(i Injection) (*Active, error) {
	x, err := s.core.Add(fault.Rule{
		ID: i.ID, Scope: i.Group, Skip: i.Skip, Count: i.Count, Probability: i.Probability, Seed: i.Seed,
		For: time.Duration(i.For),
	}, i)
	if err != nil {
		return nil, err
	}
	x.Fault.ID = x.ID
	s.report(x, "", events.FaultSet, x.Fault.details())
	return x, nil
}

// InEffect iterates over the faults of a target that are in effect. The caller holds the mutex.
func (s *Set) InEffect(target v1alpha1.FaultTarget) iter.Seq[*Active] {
	return func(yield func(*Active) bool) {
		for x := range s.core.InEffect() {
			if x.Fault.Target == target && !yield(x) {
				return
			}
		}
	}
}

// RecordTrigger records that a fault was triggered on a base, or on a controller if base is empty. cause describes
// the affected request or message. The caller holds the mutex.
func (s *Set) RecordTrigger(x *Active, base, cause string) {
	limit := maxReports
	if x.Fault.Target.IsState(x.Fault.Kind) || x.Fault.Kind == v1alpha1.APIDelay {
		limit = 1
	}
	if x.Triggered < limit {
		s.report(x, base, events.FaultTriggered, cause)
	}
	s.core.RecordTrigger(x)
}

// Finish ends a fault that cannot be triggered again. The caller holds the mutex.
func (s *Set) Finish(x *Active) { s.core.End(x, fault.UsedUp) }

// Clear ends the faults for which match returns true, removes them from the Set, and returns their IDs.
func (s *Set) Clear(match func(Injection) bool) (ids []string) {
	s.Lock()
	defer s.Unlock()
	for _, x := range s.core.Clear(func(x *Active) bool { return match(x.Fault) }) {
		ids = append(ids, x.ID)
	}
	return ids
}

// List returns the faults of a group in the order in which they were set. If group is empty, it returns all faults.
func (s *Set) List(group string) (list []Status) {
	s.Lock()
	defer s.Unlock()
	for x := range s.core.All() {
		if group == "" || x.Fault.Group == group {
			list = append(list, Status{x.Fault, x.Triggered, x.Ended})
		}
	}
	return list
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// report calls onEvent for a change of a fault. If base is empty, report calls onEvent once for each base of the
// fault, or once in total if the fault has no bases.
func (s *Set) report(x *Active, base string, change events.FaultChange, message string) {
	bases := x.Fault.Bases
	if base != "" || len(bases) == 0 {
		bases = []string{base}
	}
	for _, base := range bases {
		s.onEvent(x.Fault.Group, events.Event{Time: time.Now(), Fault: &events.FaultEvent{
			Target: x.Fault.Target, Base: strings.TrimPrefix(base, x.Fault.Group+"-"), ID: x.ID, Kind: x.Fault.Kind,
			Change: change, Message: message,
		}})
	}
}

// ActsOn reports whether the fault acts on the given base. If base is empty, ActsOn reports whether the fault acts on
// the controller with the number replica.
func (i *Injection) ActsOn(base string, replica int) bool {
	if len(i.Bases) > 0 || base != "" {
		return slices.Contains(i.Bases, base)
	}
	return i.Replica == 0 || i.Replica == replica
}

// details describes the settings of the fault, without its kind.
func (i *Injection) details() string {
	var parts []string
	if i.Status != 0 {
		parts = append(parts, fmt.Sprint(i.Status))
	}
	if d := time.Duration(i.Delay.Min); d != 0 {
		parts = append(parts, d.String())
	}
	if i.Match.Direction != v1alpha1.BothDirections {
		parts = append(parts, string(i.Match.Direction))
	}
	parts = append(parts, i.Match.Resource)
	switch {
	case i.Replica != 0:
		parts = append(parts, fmt.Sprintf("of controller %d", i.Replica))
	case len(i.Bases) == 0:
		parts = append(parts, "of controllers")
	}
	return events.Join(" ", parts...)
}

// Selector selects faults. A fault matches if it matches every field that is set. An empty Selector matches all
// faults.
type Selector struct {
	Group  string               `json:"group,omitempty"`
	Target v1alpha1.FaultTarget `json:"target,omitempty"`
	// Bases lists host names of bases. A fault matches if it acts on at least one of these bases.
	Bases []string `json:"bases,omitempty"`
	IDs   []string `json:"ids,omitempty"`
}

// Matches reports whether the selector matches a fault.
func (r *Selector) Matches(i Injection) bool {
	return (r.Group == "" || r.Group == i.Group) && (r.Target == "" || r.Target == i.Target) &&
		(len(r.IDs) == 0 || slices.Contains(r.IDs, i.ID)) &&
		(len(r.Bases) == 0 || slices.ContainsFunc(r.Bases,
			func(base string) bool { return slices.Contains(i.Bases, base) }))
}
