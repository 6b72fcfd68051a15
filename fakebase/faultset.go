package fakebase

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// subject is what a fault may match.
type subject struct {
	command, biz, version string
	message               string // last part of a topic
	url, main             string // for the texts of exceptions
}

// firing is a fault that was triggered.
type firing struct {
	fault.Fault
	wait    time.Duration   // drawn from Delay
	cleared <-chan struct{} // closed when the fault is taken away
}

// faultSet holds the faults of a base. Safe for concurrent use; asking costs
// one atomic read while there are none.
type faultSet struct {
	mu    sync.Mutex
	speed int // divides what is drawn; 0 = 1
	fault.Set[fault.Fault]
}

// add arms a valid fault and returns it with its ID. It ends after lasts, if that is not zero.
func (s *faultSet) add(f fault.Fault, lasts time.Duration) (fault.Fault, error) {
	if err := f.Validate(); err != nil {
		return f, fmt.Errorf("injecting fault %q: %w", f.ID, err)
	}
	f.Probability = cmp.Or(f.Probability, 1)
	if f.Kind == fault.KindCrash && f.Count == 0 {
		f.Count = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.Add(fault.Rule{ID: f.ID, Skip: f.Skip, Count: f.Count, Probability: f.Probability, Seed: f.Seed,
		For: lasts}, f)
	if err != nil {
		return f, fmt.Errorf("injecting a fault: %w", err)
	}
	a.Fault.ID = a.ID
	return a.Fault, nil
}

// remove removes faults by id, all without an id, and returns them.
func (s *faultSet) remove(ids ...string) []*fault.Active[fault.Fault] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Clear(func(a *fault.Active[fault.Fault]) bool { return len(ids) == 0 || slices.Contains(ids, a.ID) })
}

func (s *faultSet) status() []fault.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []fault.Status{}
	for a := range s.All() {
		out = append(out, fault.Status{Fault: a.Fault, Triggered: a.Triggered, Ended: a.Ended})
	}
	return out
}

// fire triggers a fault of the kind that matches the subject, and reports whether there is one.
func (s *faultSet) fire(kind fault.Kind, sub subject) (firing, bool) {
	return s.fireIf(sub, func(f *fault.Fault) bool { return f.Kind == kind })
}

// fail returns the exception of a fault for this step of the command, or nil.
func (s *faultSet) fail(at step, sub subject) *exception {
	f, ok := s.fireIf(sub, func(f *fault.Fault) bool {
		return f.Kind == fault.KindError && errorSpecs[f.Code].step == at
	})
	if !ok {
		return nil
	}
	if f.Message != "" {
		return parseException(f.Code, f.Message)
	}
	spec := errorSpecs[f.Code]
	text := strings.NewReplacer("$url", sub.url, "$main", sub.main).Replace(spec.text)
	if spec.class == validationException {
		return invalid(f.Code, text)
	}
	return thrown(f.Code, spec.class, text)
}

func (s *faultSet) fireIf(sub subject, wanted func(*fault.Fault) bool) (firing, bool) {
	if s.None() {
		return firing{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.InEffect() {
		if wanted(&a.Fault) && covers(a.Fault.Match, sub) && a.ShouldTrigger() {
			f := firing{Fault: a.Fault, wait: a.Fault.Delay.Sample(a.Float64) / time.Duration(max(s.speed, 1)),
				cleared: a.Done}
			s.RecordTrigger(a)
			return f, true
		}
	}
	return firing{}, false
}

// holds reports whether a state fault of the kind is in effect for the subject.
func (s *faultSet) holds(kind fault.Kind, sub subject) (fault.Fault, bool) {
	return s.holdsIf(func(f *fault.Fault) bool { return f.Kind == kind && covers(f.Match, sub) })
}

func (s *faultSet) holdsIf(wanted func(*fault.Fault) bool) (fault.Fault, bool) {
	if s.None() {
		return fault.Fault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.InEffect() {
		if wanted(&a.Fault) {
			return a.Fault, true
		}
	}
	return fault.Fault{}, false
}

// narrow reports whether the match selects commands or modules.
func narrow(m fault.Match) bool { return len(m.Commands) > 0 || m.Biz != "" || m.Version != "" }

func covers(m fault.Match, s subject) bool {
	return (len(m.Commands) == 0 || slices.Contains(m.Commands, s.command)) &&
		(len(m.Messages) == 0 || slices.Contains(m.Messages, s.message)) &&
		(m.Biz == "" || m.Biz == s.biz) &&
		(m.Version == "" || m.Version == s.version)
}
