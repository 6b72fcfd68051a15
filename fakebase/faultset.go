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

// subject contains the attributes of a command or message that a fault can match.
type subject struct {
	command, biz, version string
	message               string // last part of the MQTT topic
	url, main             string // jar URL for exception messages
}

// triggeredFault is a fault that was triggered, with the delay of this trigger.
type triggeredFault struct {
	fault.Fault
	wait    time.Duration   // random duration from Delay
	cleared <-chan struct{} // closed when the fault is cleared
}

// faultSet contains the faults of a base. It is safe for concurrent use. Checking a command against an empty faultSet
// costs only one atomic read.
type faultSet struct {
	mu    sync.Mutex
	speed int // time scale; 0 = 1
	fault.Set[fault.Fault]
}

// add adds a valid fault for a duration, and returns the fault with its ID. The duration 0 means no limit.
func (s *faultSet) add(f fault.Fault, duration time.Duration) (fault.Fault, error) {
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
		For: duration}, f)
	if err != nil {
		return f, fmt.Errorf("injecting a fault: %w", err)
	}
	a.Fault.ID = a.ID
	return a.Fault, nil
}

// remove removes the faults with these IDs, or all faults if there are no IDs, and returns the removed faults.
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

// trigger triggers the first fault of the kind that matches the subject. It returns false if no fault matches.
func (s *faultSet) trigger(kind fault.Kind, sub subject) (triggeredFault, bool) {
	return s.triggerIf(sub, func(f *fault.Fault) bool { return f.Kind == kind })
}

// exceptionAt triggers the first matching fault for a step of a command, and returns its exception. It returns nil if
// no fault matches.
func (s *faultSet) exceptionAt(step commandStep, sub subject) *exception {
	f, ok := s.triggerIf(sub, func(f *fault.Fault) bool {
		return f.Kind == fault.KindError && errorSpecs[f.Code].step == step
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
		return newValidationException(f.Code, text)
	}
	return newException(f.Code, spec.class, text)
}

func (s *faultSet) triggerIf(sub subject, match func(*fault.Fault) bool) (triggeredFault, bool) {
	if s.None() {
		return triggeredFault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.InEffect() {
		if match(&a.Fault) && matches(a.Fault.Match, sub) && a.ShouldTrigger() {
			f := triggeredFault{Fault: a.Fault, wait: a.Fault.Delay.Sample(a.Float64) / time.Duration(max(s.speed, 1)),
				cleared: a.Done}
			s.RecordTrigger(a)
			return f, true
		}
	}
	return triggeredFault{}, false
}

// inEffectFor returns the first state fault of the kind that matches the subject. It returns false if no fault
// matches.
func (s *faultSet) inEffectFor(kind fault.Kind, sub subject) (fault.Fault, bool) {
	return s.inEffectIf(func(f *fault.Fault) bool { return f.Kind == kind && matches(f.Match, sub) })
}

func (s *faultSet) inEffectIf(match func(*fault.Fault) bool) (fault.Fault, bool) {
	if s.None() {
		return fault.Fault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.InEffect() {
		if match(&a.Fault) {
			return a.Fault, true
		}
	}
	return fault.Fault{}, false
}

// isSelective reports whether the match of a fault selects certain commands or modules.
func isSelective(m fault.Match) bool { return len(m.Commands) > 0 || m.Biz != "" || m.Version != "" }

func matches(m fault.Match, s subject) bool {
	return (len(m.Commands) == 0 || slices.Contains(m.Commands, s.command)) &&
		(len(m.Messages) == 0 || slices.Contains(m.Messages, s.message)) &&
		(m.Biz == "" || m.Biz == s.biz) &&
		(m.Version == "" || m.Version == s.version)
}
