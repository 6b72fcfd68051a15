package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// stagger is the delay between the first heartbeats of bases that are added together. It spreads the heartbeats of
// 1,000 bases over one second of each heartbeat period.
const stagger = time.Millisecond

// Options configures a Fleet. The options apply to all bases.
type Options struct {
	// Own contains the settings of the fleet's own sets of bases. The counts are ignored. Default: one set with the
	// defaults of BaseSet.
	Own []v1alpha1.BaseSet
	// ClusterName is the cluster name of own bases whose set has none. Bases of a group report the group name
	// instead. Default: the default cluster name of fakebase.
	ClusterName string
	// Runtime is the runtime of bases whose set does not select one. Default: the process of the fleet.
	Runtime v1alpha1.BaseRuntime
	// Env is the environment of bases whose set does not specify an environment. Default: dev.
	Env string
	// EnvSuffix is appended to the environment of a set unless the environment is Env. It separates the bases from
	// other clients of an external broker. Default: empty.
	EnvSuffix string
	// Speed is the time scale by which all periods of the bases are divided; 0 means 1.
	Speed int
	// Username and Password are the broker login. Default: no login.
	Username, Password string
	// ClientPrefix is the prefix of MQTT client IDs. Default: koupleless.
	ClientPrefix string
	// Dial connects to the broker. Required.
	Dial func(context.Context) (net.Conn, error)
	// Heartbeats sends the HTTP heartbeats of bases to the controllers of Env. The host in the request URLs is a
	// placeholder. Default: heartbeats are not sent.
	Heartbeats http.RoundTripper
	// NoHTTPReason is the reason why bases cannot use the HTTP tunnel. Default: empty; bases can use the HTTP tunnel.
	NoHTTPReason string
	// Runtimes contains the runtimes that are available in addition to this process. The keys are the runtime names
	// in base sets. Default: none.
	Runtimes map[v1alpha1.BaseRuntime]Runtime
	// BeforeEnd is called when bases have been removed from the list but not yet stopped. It may block until clients
	// no longer send requests to these bases. Default: no action.
	BeforeEnd func()
	// DeleteNodes deletes the Nodes of removed bases. Remove calls it after the bases have stopped. Default: the
	// controller deletes the Nodes.
	DeleteNodes func(ctx context.Context, identities []string) error
	// MaxBases limits the number of bases. Default: no limit.
	MaxBases int
	// Logger is the logger of the bases. Default: log messages are discarded.
	Logger *slog.Logger
}

// ErrUnknown is returned, wrapped, if a base is not in the fleet.
var ErrUnknown = errors.New("no such base")

// ErrNotRunning is returned if the fleet is not running, that is, before Start is called or after the context of
// Start has ended.
var ErrNotRunning = errors.New("the fleet is not running")

// ErrInvalid is returned, wrapped, for an invalid set of bases.
var ErrInvalid = errors.New("invalid bases")

// Fleet is a changing set of bases. Its methods may be called concurrently.
type Fleet struct {
	o Options

	// mu is locked by the event callbacks of bases, and a base is locked while it calls them. A method that holds mu
	// must therefore not call a base.
	mu          sync.Mutex
	own         []v1alpha1.BaseSet // settings of the own sets
	runCtx      context.Context    // context of Start; nil while Start is not running
	last        map[setKey]int     // highest assigned index of each set
	members     []*Member          // in the order in which they were added
	byIP        map[string]*Member // members by address
	hostNames   map[string]bool    // host names of members and of reserved bases
	lastAddress int                // number of the most recently assigned address
	known       map[string]bool    // identities of all base processes that were ever started
	removed     []string           // identities of removed own bases
	changes     uint64             // number of changes to the members and their processes
	watchers    []*watcher
	change      chan struct{} // closed and replaced when the fields above change
	wg          sync.WaitGroup
}

type setKey struct{ group, set string }

// New returns a fleet without bases.
func New(o Options) *Fleet {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Env == "" {
		o.Env = "dev"
	}
	if o.BeforeEnd == nil {
		o.BeforeEnd = func() {}
	}
	runtimes := map[v1alpha1.BaseRuntime]Runtime{v1alpha1.RuntimeProcess: processes{}}
	maps.Copy(runtimes, o.Runtimes)
	o.Runtimes = runtimes
	if len(o.Own) == 0 {
		o.Own = []v1alpha1.BaseSet{{}}
	}
	return &Fleet{
		o: o, own: slices.Clone(o.Own), last: map[setKey]int{}, byIP: map[string]*Member{},
		hostNames: map[string]bool{},
		known:     map[string]bool{},
		change:    make(chan struct{}),
	}
}

// Start runs the bases of the fleet and blocks until ctx ends. It returns nil after all bases have stopped. Call
// Start once.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	f.runCtx = ctx
	f.signalChange()
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.runCtx = nil
	f.mu.Unlock()
	f.wg.Wait()
	return nil
}

// Add starts count additional bases of a set. Each base gets a random identity. Add blocks until Start is running and
// the runtime is ready. It does not wait until the bases are connected; see WaitConnected. If it returns ErrInvalid
// or ErrNotRunning, no base was added.
func (f *Fleet) Add(ctx context.Context, s Set, count int) ([]*Member, error) {
	p, err := f.Prepare(ctx, s, count)
	if err != nil {
		return nil, err
	}
	return p.Start()
}

// Prepared contains bases that are not in the fleet yet. Their slots are open, but the bases have not started. Call
// either Start or Discard, once.
type Prepared struct {
	f       *Fleet
	set     Set
	members []*Member
}

// Prepare prepares bases without adding them to the fleet, as the first part of Add. It blocks until the runtime is
// ready, which can take long, for example if Pods must start. The bases are not listed before Prepared.Start.
func (f *Fleet) Prepare(ctx context.Context, s Set, count int) (*Prepared, error) {
	s, options, err := f.resolveSet(s)
	if err != nil {
		return nil, fmt.Errorf("adding bases %s: %w: %w", s.hostNamePrefix(), ErrInvalid, err)
	}
	if err := f.await(ctx, func() bool { return f.runCtx != nil }); err != nil {
		return nil, fmt.Errorf("adding %s: %w", plain.Count(count, "base"), ErrNotRunning)
	}
	members, err := f.reserve(s, count)
	if err != nil {
		return nil, fmt.Errorf("adding %s: %w", plain.Count(count, "base"), err)
	}
	p := &Prepared{f: f, set: s, members: members}
	if err := f.createBases(ctx, s, options, members); err != nil {
		p.Discard()
		return nil, fmt.Errorf("adding %s: %w", plain.Count(count, "base"), err)
	}
	return p, nil
}

// Start adds the prepared bases to the fleet and starts them, as the second part of Add. If it returns ErrNotRunning,
// it has discarded the bases.
func (p *Prepared) Start() ([]*Member, error) {
	f := p.f
	f.mu.Lock()
	if f.runCtx == nil {
		f.mu.Unlock()
		p.Discard()
		return nil, fmt.Errorf("adding %s: %w", plain.Count(len(p.members), "base"), ErrNotRunning)
	}
	defer f.wg.Done()
	defer f.mu.Unlock()
	for _, m := range p.members {
		f.recordAddress(m)
		f.runMember(f.runCtx, m)
	}
	f.members = append(f.members, p.members...)
	f.changes++
	f.signalChange()
	return p.members, nil
}

// Discard closes the slots of the prepared bases and releases their host names and addresses.
func (p *Prepared) Discard() {
	defer p.f.wg.Done()
	p.f.discard(p.set, p.members)
}

// discard reverts reserve and createBases for the given members.
func (f *Fleet) discard(s Set, members []*Member) {
	for _, m := range members {
		f.closeSlot(m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(members)
	// Release the indexes too, unless other bases have higher ones.
	key, n := setKey{s.Group, s.Name}, len(members)
	if n > 0 && f.last[key] == members[n-1].Index {
		f.last[key] -= n
	}
}

// signalChange makes the callers of await check their conditions again. The caller holds f.mu.
func (f *Fleet) signalChange() {
	close(f.change)
	f.change = make(chan struct{})
}

// await blocks until ok returns true, or returns an error if ctx ends first. It calls ok with f.mu locked.
func (f *Fleet) await(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		done, change := ok(), f.change
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WaitConnected blocks until each of the given bases is connected or removed. It ignores bases that start offline. It
// returns an error if a base has failed. If ctx ends first, the error contains the number of bases that are not
// connected.
func (f *Fleet) WaitConnected(ctx context.Context, members ...*Member) error {
	missing := slices.Clone(members)
	err := f.await(ctx, func() bool {
		missing = slices.DeleteFunc(missing, func(m *Member) bool { return m.online || m.startsOffline || m.ended })
		return len(missing) == 0
	})
	if err != nil {
		return fmt.Errorf("bases not connected: %d of %d, for example %s: %w", len(missing), len(members),
			missing[0].HostName, err)
	}
	for _, m := range members {
		if err := f.Failure(m); err != nil {
			return fmt.Errorf("base %s failed: %w", m.HostName, err)
		}
	}
	return nil
}

// Restart stops the process of a base and starts it again. It blocks until the base is connected; see WaitConnected.
func (f *Fleet) Restart(ctx context.Context, name string, newIdentity bool) (*Member, error) {
	m, err := f.Find(name)
	if err != nil {
		return nil, fmt.Errorf("restarting a base: %w", err)
	}
	if err := f.Failure(m); err != nil {
		return nil, fmt.Errorf("base %s failed and cannot be restarted (%w); remove it and add another base",
			m.HostName, err)
	}
	f.mu.Lock()
	before := m.processes
	f.mu.Unlock()
	identity := "" // unchanged
	if newIdentity {
		identity = uuid.NewString()
	}
	if err := m.Base.Restart(identity); err != nil {
		return nil, fmt.Errorf("restarting base %s: %w", m.HostName, err)
	}
	err = f.await(ctx, func() bool { return m.processes > before && (m.online || m.startsOffline) || m.ended })
	if err != nil {
		return nil, fmt.Errorf("restarting base %s: the base has not reconnected: %w", m.HostName, err)
	}
	return m, nil
}

// Selection selects the bases to remove. Set exactly one of Names, Newest and Group.
type Selection struct {
	// Names contains identities, host names or addresses of bases. If one of them is unknown, Remove removes no base.
	Names []string
	// Newest is the number of own bases to remove, starting with the most recently added base. Set limits the
	// selection to one own set. Default: all own sets.
	Newest int
	Set    string
	// Group selects all bases of a group. Bases that are added to the group later are numbered from 1 again.
	Group string
	// Unannounced keeps the Nodes of the removed bases, so that the controller must detect the missing heartbeats, as
	// after a machine failure. Default: Options.DeleteNodes deletes the Nodes.
	Unannounced bool
}

// Remove stops bases, blocks until they have stopped, and deletes their Nodes. It returns the removed bases even if
// deleting the Nodes fails. It continues after ctx has ended.
func (f *Fleet) Remove(ctx context.Context, s Selection) ([]*Member, error) {
	named, err := f.resolve(s.Names)
	if err != nil {
		return nil, fmt.Errorf("removing bases: %w", err)
	}
	gone := f.unlist(s, named)
	f.o.BeforeEnd()
	for _, m := range gone {
		m.cancel()
	}
	for _, m := range gone {
		<-m.done
	}
	if f.o.DeleteNodes != nil && !s.Unannounced && len(gone) > 0 {
		err = f.o.DeleteNodes(context.WithoutCancel(ctx), f.IdentitiesOf(gone))
		if err != nil {
			err = fmt.Errorf("the bases have stopped, but their Nodes may still exist: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(gone)
	for _, m := range gone {
		if m.Group == "" {
			f.removed = append(f.removed, m.identities...)
		}
		if f.byIP[m.listedIP] == m { // a new base may already have the address of the Pod
			delete(f.byIP, m.listedIP)
		}
	}
	f.signalChange()
	return gone, err
}

// unlist removes the selected bases from the member list, and returns the bases that it has removed.
func (f *Fleet) unlist(s Selection, named []*Member) []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	selected := named
	switch {
	case s.Group != "":
		selected = f.group(s.Group)
		maps.DeleteFunc(f.last, func(key setKey, _ int) bool { return key.group == s.Group })
	case s.Newest > 0:
		own := slices.DeleteFunc(f.group(""), func(m *Member) bool { return s.Set != "" && m.Set != s.Set })
		selected = own[max(0, len(own)-s.Newest):]
	}
	set := map[*Member]bool{}
	for _, m := range selected {
		set[m] = true
	}
	var gone []*Member
	f.members = slices.DeleteFunc(f.members, func(m *Member) bool {
		if set[m] {
			gone = append(gone, m)
		}
		return set[m]
	})
	f.changes++
	f.signalChange()
	return gone
}

// hostNamePrefix returns the prefix of the host names of a set.
func (s Set) hostNamePrefix() string {
	return strings.TrimPrefix(s.Group+"-"+s.Name, "-")
}
