// Package base maintains the state of all bases: their liveness, their module lists, and the pending requests. It sends
// messages through the tunnels, and does not depend on Kubernetes.
package base

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Options configure a Registry. The zero value of a field selects its default, which is in package api unless stated
// otherwise.
type Options struct {
	// UnreachableAfter is how long a base may miss heartbeats before it is unreachable.
	UnreachableAfter time.Duration
	// DeadAfter is how long a base may miss heartbeats before it is removed.
	DeadAfter time.Duration
	// HealthInterval is the time between two health checks of a base.
	HealthInterval time.Duration
	// ListInterval is the time between two module list queries of a base.
	ListInterval time.Duration
	// Grace is how long missed heartbeats over MQTT are ignored after the tunnel reconnects; a negative value disables
	// the grace period. The default is the maximum delay of a real base between two connection attempts (protocol
	// 3.2).
	Grace time.Duration
	// Mass configures the detection of mass outages; see MassOptions.
	Mass MassOptions
	// Deletions is the maximum percentage of bases that are removed per minute because of missed heartbeats; default
	// 10. At least one base per minute can be removed.
	Deletions int
	// MaxBases is the maximum number of bases; default DefaultMaxBases. Adopted bases are not limited. At most half
	// of MaxBases can appear over MQTT in one burst.
	MaxBases int
	// MaxPerAddress is the maximum number of bases that send heartbeats over HTTP from the same address; default
	// DefaultMaxPerAddress. Bases with a client certificate are not limited.
	MaxPerAddress int
	// Connected reports whether a tunnel is connected. If Connected is nil, all tunnels are always connected. It must
	// not block.
	Connected func(tunnel.Key) bool
	// Delayed reports whether messages over a tunnel arrive late or are lost. If Delayed is nil, no messages are
	// delayed. It must not block.
	Delayed func(tunnel.Key) bool
	// MayAct reports whether this controller may act. While it returns false, no base is removed because of missed
	// heartbeats. If MayAct is nil, the controller may always act. It must not block.
	MayAct func() bool
	// TimeScale divides the durations that are not in Options. The durations in Options are already divided.
	TimeScale pace.TimeScale
	// Clock provides the time; default the real clock.
	Clock clock.Clock
	// Observer is called for each change; nil disables the calls. Calls may be concurrent. Observer must not block.
	Observer func(Change)
}

// suspendThreshold is the minimum time between two sweeps that is treated as a suspension of the process.
const suspendThreshold = 2 * time.Second

// ChangeKind is the kind of a Change.
type ChangeKind int

// Kinds of changes.
const (
	Appeared       ChangeKind = iota // the base was added
	InfoChanged                      // the metadata or the address changed
	HealthChanged                    // the health document changed
	ModulesChanged                   // the module list changed; see Change.Names
	LivenessChanged
	Disappeared     // the base was removed
	Restarted       // the JVM of the base has restarted
	Returned        // the first message since the tunnel reconnected
	ObservedChanged // Snapshot.Observed or Snapshot.NeedsHeartbeat changed
)

// Change is a change in the state of one base.
type Change struct {
	Kind     ChangeKind
	Identity string
	// Liveness is the new liveness. It is set for LivenessChanged.
	Liveness Liveness
	// Names are the names of the changed modules. They are set for ModulesChanged.
	Names []string
	// TimedOut is true if the base Disappeared because of missed heartbeats. Such a base may recover and still have
	// its modules.
	TimedOut bool
}

// Registry contains the state of all bases. Its methods are safe for concurrent use.
type Registry struct {
	opts       Options
	mu         sync.Mutex
	bases      map[string]*record
	suspension suspendDetector
	health     map[tunnel.Key]*tunnelHealth
	// budgets limits the removals in each group of bases. sources contains the number of bases of each source
	// address.
	budgets  map[netip.Prefix]budget
	sources  map[netip.Prefix]int
	newBases *rate.Limiter
}

// NewRegistry returns an empty Registry.
func NewRegistry(opts Options) *Registry {
	opts.UnreachableAfter = cmp.Or(opts.UnreachableAfter, api.UnreachableAfter)
	opts.DeadAfter = cmp.Or(opts.DeadAfter, api.DeadAfter)
	opts.HealthInterval = cmp.Or(opts.HealthInterval, api.HealthInterval)
	opts.ListInterval = cmp.Or(opts.ListInterval, api.ListInterval)
	opts.Grace = max(cmp.Or(opts.Grace, api.ReconnectGrace), 0)
	opts.Deletions = cmp.Or(opts.Deletions, 10)
	opts.MaxBases = cmp.Or(opts.MaxBases, DefaultMaxBases)
	opts.MaxPerAddress = cmp.Or(opts.MaxPerAddress, DefaultMaxPerAddress)
	opts.Mass.complete()
	opts.Clock = cmp.Or[clock.Clock](opts.Clock, clock.RealClock{})
	if opts.Connected == nil {
		opts.Connected = func(tunnel.Key) bool { return true }
	}
	if opts.Delayed == nil {
		opts.Delayed = func(tunnel.Key) bool { return false }
	}
	if opts.MayAct == nil {
		opts.MayAct = func() bool { return true }
	}
	if opts.Observer == nil {
		opts.Observer = func(Change) {}
	}
	burst := max(opts.MaxBases/2, 1)
	return &Registry{
		opts: opts, bases: map[string]*record{}, health: map[tunnel.Key]*tunnelHealth{},
		budgets: map[netip.Prefix]budget{}, sources: map[netip.Prefix]int{},
		newBases:   rate.NewLimiter(rate.Every(opts.TimeScale.Of(newBasesPeriod)/time.Duration(burst)), burst),
		suspension: suspendDetector{maxGap: max(opts.UnreachableAfter/5, opts.TimeScale.Of(suspendThreshold))},
	}
}

// Adopt adds a base that already has a Node when this controller starts, unless the Registry contains the base.
// Missed heartbeats are ignored until the end of the grace period. appearedAt is the time when the base appeared, or
// zero if unknown.
func (r *Registry) Adopt(info Info, appearedAt time.Time) {
	r.mu.Lock()
	_, known := r.bases[info.Identity]
	if !known {
		b := r.add(info)
		b.adopted, b.appearedAt, b.graceUntil = true, appearedAt, b.lastSeen.Add(r.grace(info.Tunnel))
		if info.Tunnel == tunnel.HTTP {
			r.setSource(b, info.IP) // until the first heartbeat
		}
	}
	r.mu.Unlock()
	if !known {
		r.opts.Observer(Change{Kind: Appeared, Identity: info.Identity})
	}
}

func (r *Registry) add(info Info) *record {
	now := r.opts.Clock.Now()
	b := &record{info: info, lastSeen: now, nextHealth: now, nextList: now}
	r.bases[info.Identity] = b
	return b
}

func (r *Registry) remove(identity string) (known bool) {
	b, known := r.bases[identity]
	if known {
		delete(r.bases, identity)
		r.setSource(b, "")
	}
	return known
}

// DisplayName returns the name of a base for use in messages: its host name, or its identity if it has no host name.
// If another base has the same host name, the result contains both the host name and the identity.
func (r *Registry) DisplayName(identity string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[identity]
	if !known || b.info.HostName == "" {
		return identity
	}
	for _, other := range r.bases {
		if other != b && other.info.HostName == b.info.HostName {
			return b.info.HostName + " (" + identity + ")"
		}
	}
	return b.info.HostName
}

// HandleHeartbeat records a heartbeat, or returns the reason why the heartbeat is ignored; see Accept.
func (r *Registry) HandleHeartbeat(from tunnel.Origin, h arklet.Heartbeat) (tunnel.Rejection, error) {
	reason, changes, err := r.handleHeartbeat(from, h)
	r.notify(changes)
	return reason, err
}

func (r *Registry) handleHeartbeat(from tunnel.Origin, h arklet.Heartbeat) (reason tunnel.Rejection, changes []Change,
	err error) {
	info := Info{
		Identity: from.Identity, Name: h.Name, Version: h.Version, Cluster: h.Cluster, Labels: h.Labels,
		IP: h.IP, HostName: h.HostName, Port: h.Port, Tunnel: from.Tunnel,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	reason, err = r.accept(from)
	if reason != "" {
		return reason, nil, err
	}
	b, known := r.bases[info.Identity]
	switch {
	case known && !h.Active && !r.recognizes(b, from):
		return tunnel.WrongAddress, nil,
			fmt.Errorf("ignored a heartbeat from %s that reports the end of base %q, because the other heartbeats "+
				"of the base come from %s; if the other heartbeats stop, the base is removed after %s",
				from.Peer, info.Identity, b.peer, r.opts.DeadAfter)
	case !h.Active:
		if r.remove(info.Identity) {
			changes = append(changes, Change{Kind: Disappeared, Identity: info.Identity})
		}
	case !known:
		reason, err = r.checkCapacity(from)
		if reason != "" {
			return reason, nil, err
		}
		b = r.add(info)
		b.appearedAt, b.heardHere = b.lastSeen, true
		r.recordPeer(b, from.Peer)
		changes = append(changes, Change{Kind: Appeared, Identity: info.Identity})
	default:
		changes = r.touch(b)
		r.recordPeer(b, from.Peer)
		if !reflect.DeepEqual(b.info, info) {
			b.info = info
			changes = append(changes, Change{Kind: InfoChanged, Identity: info.Identity})
		}
	}
	return "", changes, nil
}

// Touch records that a base has sent a message. Every message counts as a heartbeat, because a real base may stop
// sending heartbeats and still answer (protocol 3.2).
func (r *Registry) Touch(identity string) {
	r.mu.Lock()
	var changes []Change
	if b, known := r.bases[identity]; known {
		changes = r.touch(b)
	}
	r.mu.Unlock()
	r.notify(changes)
}

func (r *Registry) touch(b *record) []Change {
	b.lastSeen, b.missed, b.heardHere = r.opts.Clock.Now(), false, true
	b.graceUntil, b.outageSince, b.outageUntil = time.Time{}, time.Time{}, time.Time{}
	changes := b.observe(Observation{})
	if !b.heartbeatRequired.IsZero() {
		b.heartbeatRequired = time.Time{}
		changes = append(changes, Change{Kind: ObservedChanged, Identity: b.info.Identity})
	}
	if b.reconnecting {
		b.reconnecting = false
		changes = append(changes, Change{Kind: Returned, Identity: b.info.Identity})
	}
	if b.liveness != Reachable {
		b.liveness = Reachable
		changes = append(changes, Change{Kind: LivenessChanged, Identity: b.info.Identity, Liveness: Reachable})
	}
	if len(changes) > 0 { // the base has recovered
		b.nextHealth, b.nextList = b.lastSeen, b.lastSeen
	}
	return changes
}

// SetHealth records the answer to a health check. A decreased run time means that the base has restarted.
func (r *Registry) SetHealth(from tunnel.Origin, h arklet.Health) {
	r.mu.Lock()
	b, known := r.bases[from.Identity]
	if !known {
		r.mu.Unlock()
		return
	}
	changes := r.touch(b)
	if !b.healthAt.IsZero() && h.RunTime < b.health.RunTime {
		b.nextList = r.opts.Clock.Now()
		changes = append(changes, Change{Kind: Restarted, Identity: from.Identity})
	}
	before := b.health
	first := b.healthAt.IsZero()
	b.health, b.healthAt = h, r.opts.Clock.Now()
	before.RunTime, h.RunTime = 0, 0
	if first || before != h {
		changes = append(changes, Change{Kind: HealthChanged, Identity: from.Identity})
	}
	r.mu.Unlock()
	r.notify(changes)
}

// acceptOlderAfter is the number of consecutive outdated module lists after which an outdated list is accepted. The
// lists must arrive over at least Options.ListInterval. So many outdated lists mean that the clock of the base was
// set back. Fewer outdated lists are treated as lists that arrived out of order.
const acceptOlderAfter = 3

// SetModules records a module list. If the list is older than the recorded list, SetModules does not record it and
// returns false; see acceptOlderAfter for the exception.
func (r *Registry) SetModules(from tunnel.Origin, list []arklet.Biz) bool {
	r.mu.Lock()
	b, known := r.bases[from.Identity]
	if !known {
		r.mu.Unlock()
		return true
	}
	changes := r.touch(b)
	if from.At.Before(b.listedAt) {
		now := r.opts.Clock.Now()
		b.older++
		if b.older == 1 {
			b.olderAt = now
		}
		if b.older < acceptOlderAfter || now.Sub(b.olderAt) < r.opts.ListInterval {
			r.mu.Unlock()
			r.notify(changes)
			return false
		}
	}
	b.older = 0
	list = slices.SortedStableFunc(slices.Values(list),
		func(a, b arklet.Biz) int { return strings.Compare(a.Name, b.Name) })
	names := changedNames(b.modules, list)
	if len(names) > 0 || !b.listed {
		changes = append(changes, Change{Kind: ModulesChanged, Identity: from.Identity, Names: names})
	}
	if list == nil {
		list = []arklet.Biz{} // no modules; nil means unknown
	}
	b.modules, b.listed, b.listedAt, b.heardAt = list, true, from.At, r.opts.Clock.Now()
	b.listCount++
	if b.nextListed != nil {
		close(b.nextListed)
		b.nextListed = nil
	}
	r.mu.Unlock()
	r.notify(changes)
	return true
}

func changedNames(oldModules, newModules []arklet.Biz) []string {
	index := func(list []arklet.Biz) map[arklet.Module]arklet.Biz {
		m := make(map[arklet.Module]arklet.Biz, len(list))
		for _, b := range list {
			m[b.Module()] = b
		}
		return m
	}
	old, fresh := index(oldModules), index(newModules)
	names := map[string]bool{}
	for k, b := range fresh {
		if o, ok := old[k]; !ok || !reflect.DeepEqual(o, b) {
			names[k.Name] = true
		}
	}
	for k := range old {
		if _, ok := fresh[k]; !ok {
			names[k.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// SetOwned records whether this controller serves the base. When this controller starts serving the base, SetOwned
// discards the last module list, because another controller may have changed the modules since then.
func (r *Registry) SetOwned(identity string, owned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, known := r.bases[identity]; known && b.owned != owned {
		b.owned = owned
		b.nextList = r.opts.Clock.Now()
		if owned {
			b.modules, b.listed = nil, false
		} else {
			b.notServedSince = b.nextList
		}
	}
}

// SetServedElsewhere records whether another controller serves the base. When the other controller stops serving the
// base, this controller ignores the heartbeats missed so far and sends a health check.
func (r *Registry) SetServedElsewhere(identity string, elsewhere bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[identity]
	if !known || b.elsewhere == elsewhere {
		return
	}
	if !elsewhere && !b.isObserved() {
		now := r.opts.Clock.Now()
		b.nextHealth = now
		if b.graceUntil.Before(now) { // otherwise the grace period continues
			b.graceUntil = now
		}
	}
	b.elsewhere = elsewhere
}

// RequestModules makes the next module list query to a base due immediately.
func (r *Registry) RequestModules(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, known := r.bases[identity]; known {
		b.nextList = r.opts.Clock.Now()
	}
}

// Get returns the state of a base, or false if the Registry does not contain the base.
func (r *Registry) Get(identity string) (Snapshot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[identity]
	if !known {
		return Snapshot{}, false
	}
	return b.snapshot(), true
}

// Count returns the number of bases for each liveness.
func (r *Registry) Count() map[Liveness]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[Liveness]int{Reachable: 0, Unreachable: 0}
	for _, b := range r.bases {
		n[b.liveness]++
	}
	return n
}

// RequireHeartbeat makes a health check due immediately, because the Node of the base was deleted. The base is
// removed if it does not send a message for half of Options.UnreachableAfter, even during a mass outage.
func (r *Registry) RequireHeartbeat(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, known := r.bases[identity]; known && b.heartbeatRequired.IsZero() {
		now := r.opts.Clock.Now()
		b.heartbeatRequired, b.nextHealth, b.nextList = now, now, now
	}
}

func (r *Registry) notify(changes []Change) {
	for _, c := range changes {
		r.opts.Observer(c)
	}
}

// grace returns the grace period: how long missed heartbeats are ignored after a tunnel reconnects.
func (r *Registry) grace(key tunnel.Key) time.Duration {
	if key == tunnel.MQTT {
		return r.opts.Grace
	}
	return 0
}

// queryOffset returns up to a tenth of an interval, depending on the identity of a base. It prevents the queries to all
// bases from being sent at the same time.
func queryOffset(identity string, interval time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(identity)) // never fails
	return time.Duration(h.Sum32()%100) * interval / 1000
}
