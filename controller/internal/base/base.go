package base

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Info is the data that a base reports about itself.
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

// Liveness classifies bases by the time since their last message.
type Liveness int

const (
	// Reachable bases sent a message within Options.UnreachableAfter.
	Reachable Liveness = iota
	// Unreachable bases miss heartbeats and may recover. The controller sends them only health checks.
	Unreachable
)

func (l Liveness) String() string {
	return [...]string{"reachable", "unreachable"}[l]
}

// Snapshot is the state of a base at one moment. It is a copy, but Modules is shared and must not be changed.
type Snapshot struct {
	Info
	Liveness Liveness
	// LastSeen is the time of the last message, on the clock of the controller.
	LastSeen time.Time
	// Observed states whether missed heartbeats of the base count.
	Observed Observation
	// Adopted reports whether the base had a Node when this controller started.
	Adopted bool
	// NeedsHeartbeat reports whether the base has sent no message since its Node was deleted.
	NeedsHeartbeat bool
	// Health is the last answer to a health check. HealthAt is when it arrived; zero before the first answer.
	Health   arklet.Health
	HealthAt time.Time
	// Modules is the last module list, sorted by name; nil before the first, empty if the base has no modules.
	Modules []arklet.Biz
	// ListedAt is the Origin.At of the module list.
	ListedAt time.Time
	// ListReceivedAt is when the module list arrived, on the clock of the controller.
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

// Versions returns all versions of a module in the last list. The caller must not change the slice, which is shared.
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
	// elsewhere is true while another controller serves the base. heardHere is true after the first message from the
	// base.
	elsewhere, heardHere bool

	peer           string // peer address of the last heartbeat, which arrived at peerAt; empty if unknown
	peerAt         time.Time
	source         netip.Prefix // key of Registry.sources
	notServedSince time.Time    // when this controller stopped serving the base, or last could not act
	lastSeen       time.Time
	appearedAt     time.Time // when the first message arrived or the Node was created; zero if unknown

	health     arklet.Health
	healthAt   time.Time
	modules    []arklet.Biz
	listed     bool
	listedAt   time.Time
	heardAt    time.Time
	older      int       // number of consecutive lists that were older than listedAt
	olderAt    time.Time // when the first of these lists arrived
	listCount  uint64
	nextListed chan struct{} // closed when the next list is accepted; nil if no call waits

	nextHealth time.Time
	nextList   time.Time
	missed     bool // the missed heartbeat was counted

	observed          Observation
	graceUntil        time.Time // heartbeats missed before this time do not count
	outageSince       time.Time // when the current mass outage began; zero if there is none
	adopted           bool      // had a Node when this controller started
	heartbeatRequired time.Time // when the Node was deleted; zero if a message arrived since
	outageUntil       time.Time // end of the last mass outage; heartbeats missed before do not change the liveness
	reconnecting      bool      // no message has arrived since the tunnel reconnected
}

func (r *record) snapshot() Snapshot {
	s := Snapshot{Info: r.info, Liveness: r.liveness, LastSeen: r.lastSeen, Observed: r.observed, Adopted: r.adopted,
		NeedsHeartbeat: !r.heartbeatRequired.IsZero(), Health: r.health, HealthAt: r.healthAt, ListedAt: r.listedAt,
		ListReceivedAt: r.heardAt}
	if r.listed {
		s.Modules = r.modules
	}
	return s
}

// isObserved reports whether missed heartbeats of the base count in this controller. They do not count if another
// controller serves the base and may be the only one that receives its heartbeats. Over HTTP, a base sends each
// heartbeat to one controller. Over MQTT, the other controller may use another broker.
func (r *record) isObserved() bool {
	return !r.elsewhere || !r.heartbeatRequired.IsZero() || r.info.Tunnel == tunnel.MQTT && r.heardHere
}

func (r *record) address() tunnel.Address {
	return tunnel.Address{Identity: r.info.Identity, IP: r.info.IP, Port: r.info.Port}
}
