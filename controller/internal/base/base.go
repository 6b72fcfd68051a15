package base

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Info is the data that a base reports about itself, such as its name and address.
type Info struct {
	Identity string
	Name     string
	Version  string
	Cluster  string
	// Labels are the Node labels that the base reports. The map must not be changed.
	Labels   map[string]string
	IP       string
	HostName string
	// Port is the arklet HTTP port; 0 over MQTT.
	Port   int
	Tunnel tunnel.Key
}

// Liveness is the liveness of a base, which depends on the time since its last message.
type Liveness int

const (
	// Reachable means that the base sent a message within Options.UnreachableAfter.
	Reachable Liveness = iota
	// Unreachable means that the base misses heartbeats but may recover. The controller sends it only health checks.
	Unreachable
)

func (l Liveness) String() string {
	return [...]string{"reachable", "unreachable"}[l]
}

// Snapshot is the state of a base at one point in time. It is a copy, but Modules is shared and must not be changed.
type Snapshot struct {
	Info
	Liveness Liveness
	// LastSeen is the time of the last message from the base, on the clock of the controller.
	LastSeen time.Time
	// Observed states whether missed heartbeats of the base are evaluated or ignored.
	Observed Observation
	// Adopted is true if the base already had a Node when this controller started.
	Adopted bool
	// NeedsHeartbeat is true if the base has not sent a message since its Node was deleted.
	NeedsHeartbeat bool
	// Health is the health document in the last answer to a health check. HealthAt is the arrival time of this
	// answer; zero before the first answer.
	Health   arklet.Health
	HealthAt time.Time
	Growth   Growth
	// Modules is the last module list, sorted by name. It is nil before the first list, and empty if the base has no
	// modules.
	Modules []arklet.Biz
	// ListedAt is the Origin.At of the module list in Modules.
	ListedAt time.Time
	// ListReceivedAt is the time when the module list arrived, on the clock of the controller.
	ListReceivedAt time.Time
}

// InService reports whether the base is reachable and has not reported that it is deactivated.
func (s Snapshot) InService() bool {
	return s.Liveness == Reachable && s.Health.State != arklet.StateDeactivated
}

// Module returns a module from the last module list, or false if the list does not contain it.
func (s Snapshot) Module(name, version string) (arklet.Biz, bool) {
	for _, m := range s.Versions(name) {
		if m.Version == version {
			return m, true
		}
	}
	return arklet.Biz{}, false
}

// Versions returns all versions of a module in the last module list; empty if there are none. The slice is shared, so
// the caller must not change it.
func (s Snapshot) Versions(name string) []arklet.Biz {
	by := func(m arklet.Biz, name string) int { return strings.Compare(m.Name, name) }
	from, _ := slices.BinarySearchFunc(s.Modules, name, by)
	to := from
	for to < len(s.Modules) && s.Modules[to].Name == name {
		to++
	}
	return s.Modules[from:to]
}

// record is the state of one base. The lock of the Registry guards it.
type record struct {
	info     Info
	liveness Liveness
	owned    bool
	// elsewhere is true while another controller serves the base. heardHere becomes true when this controller
	// receives its first message from the base.
	elsewhere, heardHere bool

	peer           string // peer address of the last heartbeat; empty if unknown
	peerAt         time.Time
	source         netip.Prefix // key of the base in Registry.sources
	notServedSince time.Time    // when this controller last stopped serving the base or could not act
	lastSeen       time.Time
	appearedAt     time.Time // when the first message arrived, or when the Node was created; zero if unknown

	health     arklet.Health
	healthAt   time.Time
	growth     growthTracker
	modules    []arklet.Biz
	listed     bool
	listedAt   time.Time
	heardAt    time.Time
	older      int       // number of consecutive module lists that were older than listedAt
	olderAt    time.Time // when the first outdated module list arrived
	listCount  uint64
	nextListed chan struct{} // closed when the next module list is accepted; nil if no caller is waiting

	nextHealth time.Time
	nextList   time.Time
	missed     bool // whether the missed heartbeat has already been counted in the metrics

	observed          Observation
	graceUntil        time.Time // heartbeats missed before this time are ignored
	outageSince       time.Time // when the current mass outage began; zero if there is none
	adopted           bool      // whether the base already had a Node when this controller started
	heartbeatRequired time.Time // when the Node was deleted; zero if the base has sent a message since then
	outageUntil       time.Time // end of the last mass outage; heartbeats missed before it do not change the liveness
	reconnecting      bool      // whether no message has arrived since the tunnel reconnected
}

func (r *record) snapshot() Snapshot {
	s := Snapshot{Info: r.info, Liveness: r.liveness, LastSeen: r.lastSeen, Observed: r.observed, Adopted: r.adopted,
		NeedsHeartbeat: !r.heartbeatRequired.IsZero(), Health: r.health, HealthAt: r.healthAt, Growth: r.growth.growth,
		ListedAt: r.listedAt, ListReceivedAt: r.heardAt}
	if r.listed {
		s.Modules = r.modules
	}
	return s
}

// isObserved reports whether this controller evaluates missed heartbeats of the base. It ignores missed heartbeats
// while another controller serves the base, because that controller may be the only one that receives the heartbeats.
// Over HTTP, a base sends each heartbeat to one controller. Over MQTT, the other controller may use another broker.
func (r *record) isObserved() bool {
	return !r.elsewhere || !r.heartbeatRequired.IsZero() || r.info.Tunnel == tunnel.MQTT && r.heardHere
}

func (r *record) address() tunnel.Address {
	return tunnel.Address{Identity: r.info.Identity, IP: r.info.IP, Port: r.info.Port}
}
