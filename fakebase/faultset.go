package fakebase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// subject is what a fault may match.
type subject struct {
	command, biz, version string
	message               string // last part of a topic
	url, main             string // for the texts of exceptions
}

// firing is a fault that happens now.
type firing struct {
	fault.Fault
	wait    time.Duration   // drawn from Delay
	cleared <-chan struct{} // closed when the fault is taken away
}

// faultSet holds the faults of a base. Safe for concurrent use; asking costs
// one atomic read while there are none.
type faultSet struct {
	seed  uint64
	speed int // divides what is drawn; 0 = 1
	count atomic.Int32
	fired func(*fault.Fault) // is told when a fault happens; nil = nobody is

	mu   sync.Mutex
	list []*armed
	made int
}

type armed struct {
	fault.Fault
	rnd     *rand.Rand
	fired   int
	cleared chan struct{}
}

// add arms a valid fault and returns it with its ID.
func (s *faultSet) add(f fault.Fault) (fault.Fault, error) {
	if err := f.Validate(); err != nil {
		return f, fmt.Errorf("injecting fault %q: %w", f.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	if f.ID == "" {
		f.ID = "fault-" + strconv.Itoa(s.made)
	}
	if slices.ContainsFunc(s.list, func(a *armed) bool { return a.ID == f.ID }) {
		return f, fmt.Errorf("injecting fault %q: there is one with this id, clear it first", f.ID)
	}
	if f.Probability == 0 {
		f.Probability = 1
	}
	if f.Kind == fault.KindCrash && f.Count == 0 {
		f.Count = 1
	}
	seed := f.Seed
	if seed == 0 {
		seed = s.seed
	}
	s.list = append(s.list, &armed{Fault: f, rnd: rand.New(rand.NewPCG(seed, uint64(s.made))), cleared: make(chan struct{})}) //nolint:gosec // any number will do
	s.count.Store(int32(len(s.list)))                                                                                         //nolint:gosec // a list has far fewer
	return f, nil
}

// remove takes faults away, all if no id is given, and returns them.
func (s *faultSet) remove(ids ...string) []fault.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []fault.Fault
	s.list = slices.DeleteFunc(s.list, func(a *armed) bool {
		if len(ids) > 0 && !slices.Contains(ids, a.ID) {
			return false
		}
		gone = append(gone, a.Fault)
		close(a.cleared)
		return true
	})
	s.count.Store(int32(len(s.list))) //nolint:gosec // a list has far fewer
	return gone
}

func (s *faultSet) status() []fault.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]fault.Status, 0, len(s.list))
	for _, a := range s.list {
		out = append(out, fault.Status{Fault: a.Fault, Fired: a.fired})
	}
	return out
}

// fire asks whether a fault of the kind happens to the subject now.
func (s *faultSet) fire(kind fault.Kind, sub subject) (firing, bool) {
	return s.fireIf(sub, func(f *fault.Fault) bool { return f.Kind == kind })
}

// fail asks whether an error belongs to this step of the command.
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
	if s.count.Load() == 0 {
		return firing{}, false
	}
	f, hit := s.find(sub, wanted)
	if hit && s.fired != nil {
		s.fired(&f.Fault)
	}
	return f, hit
}

func (s *faultSet) find(sub subject, wanted func(*fault.Fault) bool) (firing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.list {
		if !wanted(&a.Fault) || !covers(a.Match, sub) || (a.Count > 0 && a.fired >= a.Count) {
			continue
		}
		if a.Probability < 1 && a.rnd.Float64() >= a.Probability {
			continue
		}
		a.fired++
		return firing{Fault: a.Fault, wait: a.Delay.Draw(a.rnd.Float64) / time.Duration(max(s.speed, 1)), cleared: a.cleared}, true
	}
	return firing{}, false
}

// holds asks whether a state fault of the kind is there for the subject.
func (s *faultSet) holds(kind fault.Kind, sub subject) (fault.Fault, bool) {
	return s.holdsIf(func(f *fault.Fault) bool { return f.Kind == kind && covers(f.Match, sub) })
}

func (s *faultSet) holdsIf(wanted func(*fault.Fault) bool) (fault.Fault, bool) {
	if s.count.Load() == 0 {
		return fault.Fault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.list {
		if wanted(&a.Fault) {
			return a.Fault, true
		}
	}
	return fault.Fault{}, false
}

// narrow tells whether the match is about commands or modules at all.
func narrow(m fault.Match) bool { return len(m.Commands) > 0 || m.Biz != "" || m.Version != "" }

func covers(m fault.Match, s subject) bool {
	return (len(m.Commands) == 0 || slices.Contains(m.Commands, s.command)) &&
		(len(m.Messages) == 0 || slices.Contains(m.Messages, s.message)) &&
		(m.Biz == "" || m.Biz == s.biz) &&
		(m.Version == "" || m.Version == s.version)
}
