package base

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Info is what a base reports about itself.
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

// Liveness is how long ago a base sent a message.
type Liveness int

const (
	// Reachable bases sent a message within Options.UnreachableAfter.
	Reachable Liveness = iota
	// Unreachable bases miss heartbeats and may recover. They get health checks only.
	Unreachable
	// Gone bases missed heartbeats for Options.DeadAfter, or reported that they are not active.
	Gone
)

func (l Liveness) String() string {
	return [...]string{"alive", "unreachable", "gone"}[l]
}

// Snapshot is the state of a base at one moment. It is a copy, but Modules is shared and must not be changed.
type Snapshot struct {
	Info
	Liveness Liveness
	// LastSeen is the time of the last message, on the controller's clock.
	LastSeen time.Time
	// Observed reports whether missed heartbeats of the base are evaluated.
	Observed Observation
	// Adopted reports whether the base had a Node when this controller started.
	Adopted bool
	// NeedsHeartbeat reports whether the Node of the base was deleted, and the base has sent no message since.
	NeedsHeartbeat bool
	// Health is the last answer to a health check; HealthAt is zero before the first.
	Health   arklet.Health
	HealthAt time.Time
	// Modules is the last module list, sorted by name; nil before the first, empty if the base has no modules.
	Modules []arklet.Biz
	// ListedAt is the Origin.At of the module list.
	ListedAt time.Time
	// ListReceivedAt is when the module list arrived, on the controller's clock.
	ListReceivedAt time.Time
}

// Module returns a module of the last list.
func (s Snapshot) Module(name, version string) (arklet.Biz, bool) {
	for _, m := range s.Versions(name) {
		if m.Version == version {
			return m, true
		}
	}
	return arklet.Biz{}, false
}

// Versions returns all versions of a module in the last list. They are shared, and must not be changed.
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
	came     time.Time // when its first message arrived, or its Node was created; zero if unknown

	health   arklet.Health
	healthAt time.Time
	modules  []arklet.Biz
	listed   bool
	listedAt time.Time
	heardAt  time.Time
	older    int       // lists in a row that were older than listedAt
	olderAt  time.Time // when the first of them came
	// listTurn is the number of accepted lists.
	listTurn uint64
	turned   chan struct{} // closed at the next accepted list; nil if no call waits

	nextHealth time.Time
	nextList   time.Time
	missed     bool // the missed heartbeat was counted

	observed   Observation
	quietUntil time.Time // missed heartbeats before do not count
	heldSince  time.Time // when its mass outage began; zero if there is none
	adopted    bool      // it had a Node when this controller began
	doubted    time.Time // when its Node was deleted, without a message since; zero if not
	heldUntil  time.Time // end of the mass outage: missed heartbeats before do not change the liveness
	away       bool      // its tunnel was connected again, without a message since
}

func (r *record) snapshot() Snapshot {
	s := Snapshot{Info: r.info, Liveness: r.liveness, LastSeen: r.lastSeen, Observed: r.observed, Adopted: r.adopted,
		NeedsHeartbeat: !r.doubted.IsZero(), Health: r.health, HealthAt: r.healthAt, ListedAt: r.listedAt, ListReceivedAt: r.heardAt}
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
