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

// Options configure a Registry. A zero duration means its default.
type Options struct {
	// UnreachableAfter is the silence after which a base counts as unreachable; default 25 s.
	UnreachableAfter time.Duration
	// DeadAfter is the silence after which a base counts as gone; default 60 s.
	DeadAfter time.Duration
	// HealthInterval is how often a base is asked for its health; default 10 s.
	HealthInterval time.Duration
	// ListInterval is how often a base is asked for its modules; default 15 s.
	ListInterval time.Duration
	// Grace is for how long after sight has returned the silence of a base over MQTT does not count;
	// default 128 s, the longest pause between two attempts of a real base to connect (protocol
	// 3.1). Negative means none. Over HTTP there is no connection to come back, and no grace.
	Grace time.Duration
	// Mass says when the silence of many bases is taken for a fault of the way to them.
	Mass MassOptions
	// Deletions is how many percent of all bases may be given up for their silence in a minute, one
	// at least; default 10.
	Deletions int
	// MaxBases is how many bases are known at most; 0 means 20,000. Those of which there are Nodes when the
	// controller starts are known all the same. Half of MaxBases can appear over MQTT in one burst.
	MaxBases int
	// MaxPerAddress is the maximum number of bases that send heartbeats from one address over HTTP; 0 means
	// 1,000. Bases with a client certificate are not limited.
	MaxPerAddress int
	// Sees says whether a tunnel carries what bases say at this moment; nil means that all do. It is
	// called at every sweep and must not block.
	Sees func(tunnel.Key) bool
	// Behind says whether what bases say through a tunnel comes late, or is lost, at this moment; nil means that
	// it never does. It is called at every sweep and must not block.
	Behind func(tunnel.Key) bool
	// Acting says whether this controller may act at this moment; nil means that it always may. While it
	// may not, no base is given up for its silence: nobody would remove its Node. It is called at every
	// sweep and must not block.
	Acting func() bool
	// Speed divides the periods that have no setting; the durations here are divided already.
	Speed pace.Speed
	// Clock defaults to the real one.
	Clock clock.Clock
	// Observer hears of every change, outside the lock and possibly from several goroutines at
	// once; it must not block. Nil hears nothing.
	Observer func(Change)
}

// The defaults are the intervals of the original controller (virtual-kubelet of Koupleless,
// model/consts.go).
const (
	DefaultUnreachableAfter = api.UnreachableAfter
	DefaultDeadAfter        = api.DeadAfter
	DefaultHealthInterval   = api.HealthInterval
	DefaultListInterval     = api.ListInterval
	DefaultGrace            = api.ReconnectGrace
	DefaultDeletions        = 10
	DefaultMaxBases         = 20_000
	DefaultMassWindow       = api.MassWindow
	DefaultMassAtMost       = api.MassAtMost
)

// suspended is the least gap between two sweeps at which the process counts as having stood still.
const suspended = 2 * time.Second

// ChangeKind says what changed about a base.
type ChangeKind int

// The kinds of change.
const (
	Appeared       ChangeKind = iota // a base that was not known, or was gone
	InfoChanged                      // its metadata or address
	HealthChanged                    // its metaspace
	ModulesChanged                   // its list of modules, Change.Names says which
	LivenessChanged
	Disappeared     // gone; the registry knows it no more
	Restarted       // the JVM is a new one under the same identity
	Returned        // it spoke for the first time since its tunnel was connected again
	ObservedChanged // whether anything can be concluded from its silence
)

// Change is one change of one base.
type Change struct {
	Kind     ChangeKind
	Identity string
	// Liveness is set with LivenessChanged.
	Liveness Liveness
	// Names are the module names whose entries changed, with ModulesChanged.
	Names []string
	// Silent is set with Disappeared for a base that only fell silent: it may come back as it was.
	Silent bool
}

// Registry holds all bases. It may be used concurrently.
type Registry struct {
	opts   Options
	mu     sync.Mutex
	bases  map[string]*record
	hosts  map[string]int // how many bases have a host name
	awake  awake
	sights map[tunnel.Key]*sight
	// budgets has the number of removals left for each group of bases. sources has the number of bases of each
	// source.
	budgets  map[netip.Prefix]budget
	sources  map[netip.Prefix]int
	newBases *rate.Limiter
}

// NewRegistry returns an empty registry.
func NewRegistry(opts Options) *Registry {
	opts.UnreachableAfter = cmp.Or(opts.UnreachableAfter, DefaultUnreachableAfter)
	opts.DeadAfter = cmp.Or(opts.DeadAfter, DefaultDeadAfter)
	opts.HealthInterval = cmp.Or(opts.HealthInterval, DefaultHealthInterval)
	opts.ListInterval = cmp.Or(opts.ListInterval, DefaultListInterval)
	opts.Grace = max(cmp.Or(opts.Grace, DefaultGrace), 0)
	opts.Deletions = cmp.Or(opts.Deletions, DefaultDeletions)
	opts.MaxBases = cmp.Or(opts.MaxBases, DefaultMaxBases)
	opts.MaxPerAddress = cmp.Or(opts.MaxPerAddress, DefaultMaxPerAddress)
	opts.Mass.complete()
	opts.Clock = cmp.Or[clock.Clock](opts.Clock, clock.RealClock{})
	if opts.Sees == nil {
		opts.Sees = func(tunnel.Key) bool { return true }
	}
	if opts.Behind == nil {
		opts.Behind = func(tunnel.Key) bool { return false }
	}
	if opts.Acting == nil {
		opts.Acting = func() bool { return true }
	}
	if opts.Observer == nil {
		opts.Observer = func(Change) {}
	}
	burst := max(opts.MaxBases/2, 1)
	return &Registry{
		opts: opts, bases: map[string]*record{}, hosts: map[string]int{}, sights: map[tunnel.Key]*sight{},
		budgets: map[netip.Prefix]budget{}, sources: map[netip.Prefix]int{}, newBases: rate.NewLimiter(rate.Every(opts.Speed.Of(newBasesIn)/time.Duration(burst)), burst),
		awake: awake{atMost: max(opts.UnreachableAfter/5, opts.Speed.Of(suspended))},
	}
}

// Adopt makes a base known that was there before this controller started, so that it is probed. Its
// silence is counted from now on, after the grace: nothing tells how long the broker has been back.
// A base that is already known is left as it is. came is when it came, as far as is known.
func (r *Registry) Adopt(info Info, came time.Time) {
	r.mu.Lock()
	_, known := r.bases[info.Identity]
	if !known {
		b := r.add(info)
		b.adopted, b.came, b.quietUntil = true, came, b.lastSeen.Add(r.grace(info.Tunnel))
		if info.Tunnel == tunnel.HTTP {
			r.setSource(b, info.IP) // until its first heartbeat
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
	r.hosts[info.HostName]++
	return b
}

// remove forgets a base, and tells whether it was known.
func (r *Registry) remove(identity string) (known bool) {
	b, known := r.bases[identity]
	if known {
		delete(r.bases, identity)
		countDown(r.hosts, b.info.HostName)
		r.setSource(b, "")
	}
	return known
}

func countDown[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// Called is how texts for people name a base: base-1, by its host name. The identity stands behind it
// where bases share a host name, and instead of one that is not known.
func (r *Registry) Called(identity string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[identity]
	switch {
	case !known || b.info.HostName == "":
		return identity
	case r.hosts[b.info.HostName] > 1:
		return b.info.HostName + " (" + identity + ")"
	}
	return b.info.HostName
}

// Heard takes a heartbeat, or says why it is not acted on: see Accept.
func (r *Registry) Heard(from tunnel.Origin, h arklet.Heartbeat) (tunnel.Rejection, error) {
	reason, changes, err := r.hear(from, h)
	r.tell(changes)
	return reason, err
}

func (r *Registry) hear(from tunnel.Origin, h arklet.Heartbeat) (reason tunnel.Rejection, changes []Change, err error) {
	info := Info{
		Identity: from.Identity, Name: h.Name, Version: h.Version, Cluster: h.Cluster,
		IP: h.IP, HostName: h.HostName, Port: h.Port, Tunnel: from.Tunnel,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason, err = r.accept(from); reason != "" {
		return reason, nil, err
	}
	b, known := r.bases[info.Identity]
	switch {
	case known && !h.Active && !r.recognizes(b, from):
		return tunnel.WrongAddress, nil, fmt.Errorf("heartbeat from %s reports the end of base %q, whose other heartbeats come from %s: ignored; if these heartbeats stop, the base is removed after %s",
			from.Peer, info.Identity, b.peer, r.opts.DeadAfter)
	case !h.Active:
		if r.remove(info.Identity) {
			changes = append(changes, Change{Kind: Disappeared, Identity: info.Identity})
		}
	case !known:
		if reason, err = r.room(from); reason != "" {
			return reason, nil, err
		}
		b = r.add(info)
		b.came, b.heardHere = b.lastSeen, true
		r.heardFrom(b, from.Peer)
		changes = append(changes, Change{Kind: Appeared, Identity: info.Identity})
	default:
		changes = r.touch(b)
		r.heardFrom(b, from.Peer)
		if b.info != info {
			countDown(r.hosts, b.info.HostName)
			r.hosts[info.HostName]++
			b.info = info
			changes = append(changes, Change{Kind: InfoChanged, Identity: info.Identity})
		}
	}
	return "", changes, nil
}

// Touch takes any other message of a base as a sign of life (protocol 3.2: a real base may lose its
// heartbeat for ever).
func (r *Registry) Touch(identity string) {
	r.mu.Lock()
	var changes []Change
	if b, known := r.bases[identity]; known {
		changes = r.touch(b)
	}
	r.mu.Unlock()
	r.tell(changes)
}

func (r *Registry) touch(b *record) []Change {
	b.lastSeen, b.missed, b.heardHere = r.opts.Clock.Now(), false, true
	b.quietUntil, b.heldSince, b.heldUntil = time.Time{}, time.Time{}, time.Time{}
	changes := b.observe(Observation{})
	if !b.doubted.IsZero() {
		b.doubted = time.Time{}
		changes = append(changes, Change{Kind: ObservedChanged, Identity: b.info.Identity})
	}
	if b.away {
		b.away = false
		changes = append(changes, Change{Kind: Returned, Identity: b.info.Identity})
	}
	if b.liveness != Alive {
		b.liveness = Alive
		changes = append(changes, Change{Kind: LivenessChanged, Identity: b.info.Identity, Liveness: Alive})
	}
	if len(changes) > 0 { // a silence ends
		b.nextHealth, b.nextList = b.lastSeen, b.lastSeen
	}
	return changes
}

// SetHealth takes a health answer. A run time that went back tells of a restart under the same
// identity: the list of modules is void then.
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
	r.tell(changes)
}

// believedAfter is how many lists in a row must be older than the newest one, and come within no less than
// Options.ListInterval, before they are believed: the base's clock was set back then. Others are messages
// that were overtaken or delivered twice.
const believedAfter = 3

// SetModules takes a list of modules. It reports false for a list that is older than one already
// seen (reordered or duplicated on the way), which changes nothing.
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
		if b.older++; b.older == 1 {
			b.olderAt = now
		}
		if b.older < believedAfter || now.Sub(b.olderAt) < r.opts.ListInterval {
			r.mu.Unlock()
			r.tell(changes)
			return false
		}
	}
	b.older = 0
	list = slices.SortedStableFunc(slices.Values(list), func(a, b arklet.Biz) int { return strings.Compare(a.Name, b.Name) })
	names := changedNames(b.modules, list)
	if len(names) > 0 || !b.listed {
		changes = append(changes, Change{Kind: ModulesChanged, Identity: from.Identity, Names: names})
	}
	if list == nil {
		list = []arklet.Biz{} // it has none, which is not the same as not having said
	}
	b.modules, b.listed, b.listedAt, b.heardAt = list, true, from.At, r.opts.Clock.Now()
	b.listTurn++
	if b.turned != nil {
		close(b.turned)
		b.turned = nil
	}
	r.mu.Unlock()
	r.tell(changes)
	return true
}

// changedNames lists the module names whose entries differ in any way.
func changedNames(before, after []arklet.Biz) []string {
	index := func(list []arklet.Biz) map[arklet.Module]arklet.Biz {
		m := make(map[arklet.Module]arklet.Biz, len(list))
		for _, b := range list {
			m[b.Module()] = b
		}
		return m
	}
	old, fresh := index(before), index(after)
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

// Own says whether this controller serves the base. Others are asked for their health once, so that
// whoever comes to serve them can show it, and no more. So what was listed before a base is served is
// void: another controller may have changed it since, or this one may have stood still.
func (r *Registry) Own(identity string, owned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, known := r.bases[identity]; known && b.owned != owned {
		b.owned = owned
		b.nextList = r.opts.Clock.Now()
		if owned {
			b.modules, b.listed = nil, false
		} else {
			b.lostAt = b.nextList
		}
	}
}

// ServedElsewhere records whether another controller serves the base. When the other controller stops serving
// it, this controller ignores the heartbeats missed so far and sends a health check.
func (r *Registry) ServedElsewhere(identity string, elsewhere bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[identity]
	if !known || b.elsewhere == elsewhere {
		return
	}
	if !elsewhere && !b.isObserved() {
		now := r.opts.Clock.Now()
		b.nextHealth = now
		if b.quietUntil.Before(now) { // otherwise the grace period continues
			b.quietUntil = now
		}
	}
	b.elsewhere = elsewhere
}

// AskModules makes the question for a base's modules due at once: something happened there that
// nobody waits for.
func (r *Registry) AskModules(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, known := r.bases[identity]; known {
		b.nextList = r.opts.Clock.Now()
	}
}

// Get returns what is known of a base.
func (r *Registry) Get(identity string) (Snapshot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[identity]
	if !known {
		return Snapshot{}, false
	}
	return b.snapshot(), true
}

// Count returns the number of bases by liveness.
func (r *Registry) Count() map[Liveness]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[Liveness]int{Alive: 0, Unreachable: 0}
	for _, b := range r.bases {
		n[b.liveness]++
	}
	return n
}

// Doubt has a base asked at once, for somebody has deleted its Node. If it stays silent for half of
// the time after which it would be unreachable it is given up, whatever other bases do; until then
// its Snapshot is Doubted.
func (r *Registry) Doubt(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, known := r.bases[identity]; known && b.doubted.IsZero() {
		now := r.opts.Clock.Now()
		b.doubted, b.nextHealth, b.nextList = now, now, now
	}
}

func (r *Registry) tell(changes []Change) {
	for _, c := range changes {
		r.opts.Observer(c)
	}
}

// grace is for how long after sight has returned the silence of a tunnel's bases does not count.
func (r *Registry) grace(key tunnel.Key) time.Duration {
	if key == tunnel.MQTT {
		return r.opts.Grace
	}
	return 0
}

// spread is up to a tenth of an interval more, fixed by the identity, so that bases that came
// together are not asked together for ever.
func spread(identity string, interval time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(identity)) // never fails
	return time.Duration(h.Sum32()%100) * interval / 1000
}
