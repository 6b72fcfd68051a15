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
	// ErrExists is returned, wrapped, for a fault whose ID belongs to another fault of its group that is in effect.
	ErrExists = fault.ErrExists
	// ErrUnknown is returned, wrapped, when no fault has an ID, or no controller a number.
	ErrUnknown = errors.New("there is none")
)

// maxTold limits how often a fault is reported as triggered. Delays, and faults that hold until they end, are
// reported once.
const maxTold = 20

// Injection is a fault with the place where it acts.
type Injection struct {
	v1alpha1.Fault `json:"fault"`
	// Target of the fault. Default: base.
	Target v1alpha1.FaultTarget `json:"target,omitempty"`
	// Bases by their host names. Without any, a fault of the target mqtt acts on controllers.
	Bases []string `json:"bases,omitempty"`
	// Replica of the controller, from 1; 0 = all.
	Replica int `json:"replica,omitempty"`
	// Group of bases whose owner has set the fault. It is cleared when the owner ends. Default: none.
	Group string `json:"group,omitempty"`
}

// Status is a fault that was set and not cleared yet.
type Status struct {
	Injection
	// Fired is how often it was triggered.
	Fired int `json:"fired"`
	// Ended is the reason for which it has ended; empty = it is in effect.
	Ended string `json:"ended,omitempty"`
}

// Active is an Injection that was set.
type Active = fault.Active[Injection]

// Set holds the faults of all targets but bases. Its mutex guards it, and what the targets do with its
// faults.
type Set struct {
	sync.Mutex
	core    fault.Set[Injection]
	changed func(group string, e events.Event)
	ended   map[v1alpha1.FaultTarget]func(*Active)
}

// NewSet returns an empty Set. It calls changed when a fault of a group is set, triggered or ends, with
// the mutex locked: changed must not block.
func NewSet(changed func(group string, e events.Event)) *Set {
	s := &Set{changed: changed, ended: map[v1alpha1.FaultTarget]func(*Active){}}
	s.core.Mutex = s
	s.core.OnEnded = func(x *Active) {
		if ended := s.ended[x.Fault.Target]; ended != nil {
			ended(x)
		}
		s.tell(x, "", events.FaultCleared, fmt.Sprintf("triggered %d times: %s", x.Fired, x.Ended))
	}
	return s
}

// OnEnded has a target called when one of its faults ends, with the mutex locked.
func (s *Set) OnEnded(target v1alpha1.FaultTarget, ended func(*Active)) { s.ended[target] = ended }

// Add puts a valid fault into effect that has its defaults. The mutex is locked.
func (s *Set) Add(i Injection) (*Active, error) {
	x, err := s.core.Add(fault.Rule{
		ID: i.ID, Scope: i.Group, Skip: i.Skip, Count: i.Count, Probability: i.Probability, Seed: i.Seed,
		For: time.Duration(i.For),
	}, i)
	if err != nil {
		return nil, err
	}
	x.Fault.ID = x.ID
	s.tell(x, "", events.FaultSet, x.Fault.details())
	return x, nil
}

// Live iterates over the faults of a target that are in effect. The mutex is locked.
func (s *Set) Live(target v1alpha1.FaultTarget) iter.Seq[*Active] {
	return func(yield func(*Active) bool) {
		for x := range s.core.Live() {
			if x.Fault.Target == target && !yield(x) {
				return
			}
		}
	}
}

// Fire counts that a fault was triggered by something, on a base or else a controller. The mutex is locked.
func (s *Set) Fire(x *Active, base, what string) {
	most := maxTold
	if x.Fault.Target.IsState(x.Fault.Kind) || x.Fault.Kind == v1alpha1.APIDelay {
		most = 1
	}
	if x.Fired < most {
		s.tell(x, base, events.FaultFired, what)
	}
	s.core.Fire(x)
}

// Finish ends a fault that has nothing left to do. The mutex is locked.
func (s *Set) Finish(x *Active) { s.core.End(x, fault.UsedUp) }

// Clear ends the faults that match and forgets them. It returns their IDs.
func (s *Set) Clear(match func(Injection) bool) (ids []string) {
	s.Lock()
	defer s.Unlock()
	for _, x := range s.core.Clear(func(x *Active) bool { return match(x.Fault) }) {
		ids = append(ids, x.ID)
	}
	return ids
}

// List returns the faults of a group, or of all if it is empty, in the order in which they were set.
func (s *Set) List(group string) (list []Status) {
	s.Lock()
	defer s.Unlock()
	for x := range s.core.All() {
		if group == "" || x.Fault.Group == group {
			list = append(list, Status{x.Fault, x.Fired, x.Ended})
		}
	}
	return list
}

// tell reports a change on a base, or on all bases of the fault, or without a base.
func (s *Set) tell(x *Active, base string, change events.FaultChange, message string) {
	bases := x.Fault.Bases
	if base != "" || len(bases) == 0 {
		bases = []string{base}
	}
	for _, base := range bases {
		s.changed(x.Fault.Group, events.Event{Time: time.Now(), Fault: &events.FaultEvent{
			Target: x.Fault.Target, Base: strings.TrimPrefix(base, x.Fault.Group+"-"), ID: x.ID, Kind: x.Fault.Kind,
			Change: change, Message: message,
		}})
	}
}

// On reports whether the fault acts on a base, or, if base is empty, on a controller by its number.
func (i *Injection) On(base string, replica int) bool {
	if len(i.Bases) > 0 || base != "" {
		return slices.Contains(i.Bases, base)
	}
	return i.Replica == 0 || i.Replica == replica
}

// details describes the fault without its kind.
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

// Selector selects faults. Each field that is given narrows it down.
type Selector struct {
	Group  string               `json:"group,omitempty"`
	Target v1alpha1.FaultTarget `json:"target,omitempty"`
	// Bases by their host names: a fault that acts on one of them matches.
	Bases []string `json:"bases,omitempty"`
	IDs   []string `json:"ids,omitempty"`
}

// Matches reports whether a fault is selected.
func (r *Selector) Matches(i Injection) bool {
	return (r.Group == "" || r.Group == i.Group) && (r.Target == "" || r.Target == i.Target) &&
		(len(r.IDs) == 0 || slices.Contains(r.IDs, i.ID)) &&
		(len(r.Bases) == 0 || slices.ContainsFunc(r.Bases,
			func(base string) bool { return slices.Contains(i.Bases, base) }))
}
