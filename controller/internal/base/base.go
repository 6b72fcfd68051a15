package base

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Info is what a base says of itself.
type Info struct {
	Identity string
	Name     string
	Version  string
	Cluster  string
	IP       string
	HostName string
	// Port is the arklet HTTP port; 0 over MQTT.
	Port   int
	Tunnel tunnel.Key
}

// Liveness is how long ago a base gave a sign of life.
type Liveness int

// The three stages of silence.
const (
	// Alive bases were heard of within Options.UnreachableAfter.
	Alive Liveness = iota
	// Unreachable bases are silent, but may come back: nothing is sent but probes.
	Unreachable
	// Gone bases were silent for Options.DeadAfter, or said that they are not activated.
	Gone
)

func (l Liveness) String() string {
	return [...]string{"alive", "unreachable", "gone"}[l]
}

// Snapshot is everything that is known of a base at one moment. It is a copy; Modules is shared and
// must not be changed.
type Snapshot struct {
	Info
	Liveness Liveness
	// LastSeen is when the last message arrived, by the controller's clock.
	LastSeen time.Time
	// Observed says whether its silence means anything.
	Observed Observation
	// Adopted says that it had a Node when this controller began.
	Adopted bool
	// Doubted says that its Node was deleted, and that it has not spoken since.
	Doubted bool
	// Health is the last health document; HealthAt is zero before the first.
	Health   arklet.Health
	HealthAt time.Time
	// Modules is the last list of modules, by their names; nil before the first, empty when the base
	// has none.
	Modules []arklet.Biz
	// ListedAt is the Origin.At of that list.
	ListedAt time.Time
	// HeardAt is when the list came, by the clock of this machine.
	HeardAt time.Time
}

// Module finds a module in the last list.
func (s Snapshot) Module(name, version string) (arklet.Biz, bool) {
	for _, m := range s.Versions(name) {
		if m.Version == version {
			return m, true
		}
	}
	return arklet.Biz{}, false
}

// Versions are those of a module in the last list. They are shared, and must not be changed.
func (s Snapshot) Versions(name string) []arklet.Biz {
	by := func(m arklet.Biz, name string) int { return strings.Compare(m.Name, name) }
	from, _ := slices.BinarySearchFunc(s.Modules, name, by)
	to := from
	for to < len(s.Modules) && s.Modules[to].Name == name {
		to++
	}
	return s.Modules[from:to]
}

// record is the state of one base; the Registry's lock guards it.
type record struct {
	info     Info
	liveness Liveness
	owned    bool
	// elsewhere is true while another controller serves the base. heardHere is true after the first message from the base.
	elsewhere, heardHere bool

	peer     string // peer address of the last heartbeat, which came at peerAt; empty if unknown
	peerAt   time.Time
	source   netip.Prefix // key of Registry.sources
	lostAt   time.Time    // when this controller served the base last, or could not read which controller serves it
	lastSeen time.Time
	came     time.Time // when it spoke for the first time, or its Node was made; zero if that is not known

	health   arklet.Health
	healthAt time.Time
	modules  []arklet.Biz
	listed   bool
	listedAt time.Time
	heardAt  time.Time
	older    int       // lists in a row that were older than listedAt
	olderAt  time.Time // when the first of them came
	// listTurn counts accepted lists; a question waits for a later turn than it saw.
	listTurn uint64
	turned   chan struct{} // closed and renewed at every accepted list; nil while nobody waits

	nextHealth time.Time
	nextList   time.Time
	missed     bool // a missed heartbeat was counted for this silence

	observed   Observation
	quietUntil time.Time // silence before does not count: nothing could be heard
	heldSince  time.Time // since when it is one of many that fell silent; zero = it is not
	adopted    bool      // it had a Node when this controller began
	doubted    time.Time // since when its Node is deleted and it has not spoken; zero = no
	heldUntil  time.Time // until when it was: silence before makes it neither unreachable nor gone
	away       bool      // its tunnel was connected again, and it has not spoken since
}

func (r *record) snapshot() Snapshot {
	s := Snapshot{Info: r.info, Liveness: r.liveness, LastSeen: r.lastSeen, Observed: r.observed, Adopted: r.adopted, Doubted: !r.doubted.IsZero(), Health: r.health, HealthAt: r.healthAt, ListedAt: r.listedAt, HeardAt: r.heardAt}
	if r.listed {
		s.Modules = r.modules
	}
	return s
}

// isObserved reports whether this controller evaluates missed heartbeats of the base. It does not evaluate them
// if another controller serves the base, and this controller may not receive the heartbeats. Over HTTP each
// heartbeat reaches one controller. Over MQTT the other controller may use another broker.
func (r *record) isObserved() bool {
	return !r.elsewhere || !r.doubted.IsZero() || r.info.Tunnel == tunnel.MQTT && r.heardHere
}

func (r *record) address() tunnel.Address {
	return tunnel.Address{Identity: r.info.Identity, IP: r.info.IP, Port: r.info.Port}
}
