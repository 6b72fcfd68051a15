package base

import (
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
)

// Blindness is why nothing can be concluded from the silence of a base. It is the reason of a
// Node's condition and of an Event.
type Blindness string

// The kinds of blindness. MassSilence is an error code of the documents (5.6), spelled as there.
const (
	TunnelDown          Blindness = api.ReasonTunnelDown
	ControllerSuspended Blindness = api.ReasonControllerSuspended
	MassSilence         Blindness = api.ReasonMassOutage
	// ControllerBehind is no reason of a Node's condition: a write for each Node would make it worse.
	ControllerBehind Blindness = "ControllerBehind"
)

// Observation says whether anything can be concluded from the silence of a base. The zero value
// says that it can.
type Observation struct {
	// Blind is empty, or why not.
	Blind Blindness
	// Since is since when, by the controller's clock.
	Since time.Time
}

// observe notes an observation and returns what changed by it. The time alone is no change.
func (r *record) observe(o Observation) []Change {
	if r.observed.Blind == o.Blind {
		return nil
	}
	r.observed = o
	return []Change{{Kind: ObservedChanged, Identity: r.info.Identity}}
}

// News is the beginning or the end of a blindness of one tunnel.
type News struct {
	// Tunnel is empty for ControllerSuspended, which concerns all.
	Tunnel string
	Blind  Blindness
	// Ended is false when it begins.
	Ended bool
	// Lasted is how long it lasted, with Ended and with ControllerSuspended.
	Lasted time.Duration
	// Silent of Bases are silent, with MassSilence.
	Silent, Bases int
}

// sight is what is known of one tunnel. The zero value sees.
type sight struct {
	downSince time.Time // zero while it is up
	told      bool      // that it is down
	mass      time.Time // since when many of its bases are silent; zero = they are not
	late      time.Time // since when what its bases say comes late; zero = it does not
}

// tellAfter is how long a tunnel is down before anybody is told: connections are made anew now and
// then, and a write for every Node is not worth it. Nothing is concluded meanwhile either.
const tellAfter = 5 * time.Second

// look notes whether a tunnel is up. down says that it is not; after is when that is worth telling.
func (s *sight) look(up bool, now time.Time, after time.Duration) (down bool, news []News) {
	switch {
	case up && s.downSince.IsZero():
		return false, nil
	case up:
		if s.told {
			news = []News{{Blind: TunnelDown, Ended: true, Lasted: now.Sub(s.downSince)}}
		}
		s.downSince, s.told = time.Time{}, false
		return false, news
	case s.downSince.IsZero():
		s.downSince = now
	}
	if !s.told && now.Sub(s.downSince) >= after {
		s.told = true
		news = []News{{Blind: TunnelDown}}
	}
	return true, news
}

// behind notes whether what bases say comes late, and says whether that is believed.
func (s *sight) behind(is bool, now time.Time, atMost time.Duration) (believed bool, news []News) {
	switch {
	case !is && s.late.IsZero():
		return false, nil
	case !is:
		news = []News{{Blind: ControllerBehind, Ended: true, Lasted: now.Sub(s.late)}}
		s.late = time.Time{}
		return false, news
	case s.late.IsZero():
		s.late = now
		news = []News{{Blind: ControllerBehind}}
	}
	return now.Sub(s.late) < atMost, news
}

// awake finds out that the process stood still: it was stopped, its machine slept, or it got no
// processor. What bases said meanwhile is lost, or waits unread.
type awake struct {
	atMost     time.Duration // between two looks
	mono, wall time.Time
}

// look returns for how long the process stood still before now; 0 if it did not. The monotonic
// clock stands still while some machines sleep, and the wall clock is set now and then: the longer
// of the two gaps counts.
func (a *awake) look(mono, wall time.Time) time.Duration {
	gap := max(mono.Sub(a.mono), wall.Sub(a.wall))
	first := a.mono.IsZero()
	a.mono, a.wall = mono, wall
	if first || gap <= a.atMost {
		return 0
	}
	return gap
}
