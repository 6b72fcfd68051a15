package agent

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// Source is what a stream may pick from now, and what is closed when that may have changed; nil =
// nobody says when. It does not block.
type Source func() (traffic.Choice, <-chan struct{})

// difference is what has to be done to a Choice to make it the next one.
type difference struct {
	// Set are targets that are new or different, Gone the addresses of those that are no more.
	Set  []traffic.Target `json:"set,omitempty"`
	Gone []string         `json:"gone,omitempty"`
	// Affinity and None are those of the next one.
	Affinity time.Duration `json:"affinity,omitempty"`
	None     string        `json:"none,omitempty"`
}

// between says how two choices differ; same = not at all.
func between(was, is traffic.Choice) (d difference, same bool) {
	d.Affinity, d.None = is.Affinity, is.None
	before := byIP(was.Targets)
	for _, t := range is.Targets {
		if b, ok := before[t.IP]; !ok || b != t {
			d.Set = append(d.Set, t)
		}
		delete(before, t.IP)
	}
	d.Gone = slices.Sorted(maps.Keys(before))
	return d, len(d.Set)+len(d.Gone) == 0 && was.Affinity == is.Affinity && was.None == is.None
}

// after is a choice with a difference.
func (d difference) after(was traffic.Choice) traffic.Choice {
	all := byIP(was.Targets)
	for _, ip := range d.Gone {
		delete(all, ip)
	}
	for _, t := range d.Set {
		all[t.IP] = t
	}
	return traffic.Choice{Targets: ordered(slices.Collect(maps.Values(all))), Affinity: d.Affinity, None: d.None}
}

func byIP(list []traffic.Target) map[string]traffic.Target {
	all := make(map[string]traffic.Target, len(list))
	for _, t := range list {
		all[t.IP] = t
	}
	return all
}

// ordered sorts targets by their addresses, so that the same draw picks the same one.
func ordered(list []traffic.Target) []traffic.Target {
	return slices.SortedFunc(slices.Values(list), func(a, b traffic.Target) int { return cmp.Compare(a.IP, b.IP) })
}

// choices are what the streams of an agent pick from.
type choices struct {
	mu  sync.Mutex // guards what follows
	all map[streamRequest]*held
}

// held is what one of them picks from.
type held struct {
	picks  traffic.Picks
	choice traffic.Choice
}

// begin gives a stream its first choice.
func (s *choices) begin(of streamRequest, c traffic.Choice) *traffic.Picks {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &held{choice: c}
	t.picks.Set(t.choice)
	s.all[of] = t
	return &t.picks
}

// tell changes that of a stream. One that is over needs to know nothing.
func (s *choices) tell(of streamRequest, d difference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.all[of]; t != nil {
		t.choice = d.after(t.choice)
		t.picks.Set(t.choice)
	}
}

// forget forgets the streams of a group, or the one with a name.
func (s *choices) forget(group, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, func(of streamRequest, _ *held) bool { return of.Group == group && (name == "" || of.Name == name) })
}
