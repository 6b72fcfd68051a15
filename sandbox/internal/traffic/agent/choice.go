package agent

import (
	"maps"
	"slices"
	"sync"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// Source returns what a stream may pick from now, and a channel that is closed at the next change. The channel
// is nil if the source does not report changes. A Source does not block.
type Source func() (traffic.Choice, <-chan struct{})

func equal(a, b traffic.Choice) bool {
	return slices.Equal(a.Targets, b.Targets) && a.Affinity == b.Affinity && a.None == b.None
}

// choices are what the streams of an agent pick from. Its methods may be called concurrently.
type choices struct {
	mu  sync.Mutex
	all map[streamRequest]*traffic.Picks
}

// begin sets the first choice of a stream.
func (s *choices) begin(of streamRequest, c traffic.Choice) *traffic.Picks {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &traffic.Picks{}
	p.Set(c)
	s.all[of] = p
	return p
}

// tell changes the choice of a stream, unless the stream has ended.
func (s *choices) tell(of streamRequest, c traffic.Choice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[of]; p != nil {
		p.Set(c)
	}
}

// forget forgets the stream with a name, or all streams of a group if the name is empty.
func (s *choices) forget(group, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, func(of streamRequest, _ *traffic.Picks) bool {
		return of.Group == group && (name == "" || of.Name == name)
	})
}
