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

// stagger is the time between the first heartbeats of bases that are added together: the heartbeats of 1,000 bases
// spread over a second of each period.
const stagger = time.Millisecond

// Options of a Fleet; all bases share them.
type Options struct {
	// Own are the settings of the fleet's own bases. Default: those of BaseSet.
	Own v1alpha1.BaseSet
	// ClusterName is what the fleet's own bases report; those of a group report
	// its name. Default: that of fakebase.
	ClusterName string
	// Env that bases report whose set names none. Default: dev.
	Env string
	// EnvSuffix is added to every environment but Env, on a broker where somebody else
	// may have one of that name. Default: nothing.
	EnvSuffix string
	// Speed divides the periods of all bases; 0 = 1.
	Speed int
	// Username and Password for the broker; without a user name there is none.
	Username, Password string
	// ClientPrefix begins each client id. Default: koupleless.
	ClientPrefix string
	// Dial connects to the broker. Required.
	Dial func(context.Context) (net.Conn, error)
	// Heartbeats takes the heartbeats of bases over HTTP to the controllers of Env; their
	// URLs name no real host. Default: nobody gets them.
	Heartbeats http.RoundTripper
	// NoHTTPReason says why no base can have the tunnel http. Default: bases can.
	NoHTTPReason string
	// Runtimes are what bases can run in, besides this process, by the name that sets give.
	// Default: none.
	Runtimes map[v1alpha1.BaseRuntime]Runtime
	// BeforeEnd is called when bases have been taken off the list, and before they end: it may wait until
	// those who ask bases no longer ask them. Default: nobody does.
	BeforeEnd func()
	// DeleteNodes deletes the Nodes of the identities of removed bases. Remove calls it when the bases have
	// ended. Default: Nodes are left to the controller.
	DeleteNodes func(ctx context.Context, identities []string) error
	// MaxBases is how many bases there may be at once. Default: any number.
	MaxBases int
	// Logger for what the bases have to say. Default: nothing is logged.
	Logger *slog.Logger
}

// ErrUnknown is returned, wrapped, for a base that is not in the fleet.
var ErrUnknown = errors.New("no such base")

// ErrNotRunning is returned by Add before Start and after its end.
var ErrNotRunning = errors.New("the fleet does not run")

// ErrInvalid is returned, wrapped, for a set that cannot be.
var ErrInvalid = errors.New("these bases cannot be")

// Fleet is a changing set of bases. All methods may be called concurrently.
type Fleet struct {
	o Options

	// mu is taken by the bases' events while a base is locked: whoever holds it
	// must not call a base.
	mu          sync.Mutex
	runCtx      context.Context    // of Start; nil while Start does not run
	last        map[setKey]int     // the last index of each set
	members     []*Member          // in order of addition
	byIP        map[string]*Member // the same
	hostNames   map[string]bool    // of members, and of those that are being added
	lastAddress int                // number of the last address that was assigned
	known       map[string]bool    // identities of all processes that there have been
	removed     []string           // the fleet's own bases that have been removed
	changes     uint64             // of members and their processes
	watchers    []*watcher
	change      chan struct{} // closed at the next change of the fields above
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
	return &Fleet{
		o: o, last: map[setKey]int{}, byIP: map[string]*Member{}, hostNames: map[string]bool{},
		known:  map[string]bool{},
		change: make(chan struct{}),
	}
}

// Start lets bases run until ctx ends, and returns nil when all have ended. It
// can be called once.
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

// Add starts count more bases of a set, each with a new random identity. It waits for Start and for the runtime, but
// not for the connections; see WaitConnected. The error may wrap ErrInvalid or ErrNotRunning; then no base was added.
func (f *Fleet) Add(ctx context.Context, s Set, count int) ([]*Member, error) {
	p, err := f.Prepare(ctx, s, count)
	if err != nil {
		return nil, err
	}
	return p.Start()
}

// Prepared are bases that are not in their fleet yet: what they run in has started, and they say
// nothing. Whoever has some calls Start or Discard, once.
type Prepared struct {
	f       *Fleet
	set     Set
	members []*Member
}

// Prepare is the first part of Add, which may take long, as starting Pods does: nobody sees the
// bases before Start.
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

// Start is the second part of Add. The error may wrap ErrNotRunning; then the bases are discarded.
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

// Discard ends what the bases run in, and gives back their names and addresses.
func (p *Prepared) Discard() {
	defer p.f.wg.Done()
	p.f.discard(p.set, p.members)
}

// discard undoes reserve and make.
func (f *Fleet) discard(s Set, members []*Member) {
	for _, m := range members {
		f.closeSlot(m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(members)
	// The numbers are free again, unless others came after them.
	key, n := setKey{s.Group, s.Name}, len(members)
	if n > 0 && f.last[key] == members[n-1].Index {
		f.last[key] -= n
	}
}

// signalChange wakes those who wait. f.mu is held.
func (f *Fleet) signalChange() {
	close(f.change)
	f.change = make(chan struct{})
}

// await blocks until ok, which is called with f.mu held, or until ctx ends.
func (f *Fleet) await(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		fine, change := ok(), f.change
		f.mu.Unlock()
		if fine {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WaitConnected blocks until all bases are connected or removed. It ignores bases whose first faults prevent a
// connection. A base that ends by itself is an error. When ctx ends first, the error has the number of missing bases.
func (f *Fleet) WaitConnected(ctx context.Context, members ...*Member) error {
	rest := slices.Clone(members)
	err := f.await(ctx, func() bool {
		rest = slices.DeleteFunc(rest, func(m *Member) bool { return m.online || m.startsOffline || m.ended })
		return len(rest) == 0
	})
	if err != nil {
		return fmt.Errorf("%d of %s not connected, such as %s: %w", len(rest), plain.Count(len(members), "base"),
			rest[0].HostName, err)
	}
	for _, m := range members {
		if err := f.Failure(m); err != nil {
			return fmt.Errorf("base %s has ended: %w", m.HostName, err)
		}
	}
	return nil
}

// Restart ends the process of a base and blocks until its next one is connected,
// as WaitConnected does.
func (f *Fleet) Restart(ctx context.Context, name string, newIdentity bool) (*Member, error) {
	m, err := f.Find(name)
	if err != nil {
		return nil, fmt.Errorf("restarting a base: %w", err)
	}
	if err := f.Failure(m); err != nil {
		return nil, fmt.Errorf("base %s has ended and cannot be restarted (%w): remove it and add another", m.HostName,
			err)
	}
	f.mu.Lock()
	before := m.processes
	f.mu.Unlock()
	identity := "" // as before
	if newIdentity {
		identity = uuid.NewString()
	}
	if err := m.Base.Restart(identity); err != nil {
		return nil, fmt.Errorf("restarting base %s: %w", m.HostName, err)
	}
	if err := f.await(ctx, func() bool { return m.processes > before && (m.online || m.startsOffline) || m.ended }); err != nil {
		return nil, fmt.Errorf("restarting base %s: it is not connected again: %w", m.HostName, err)
	}
	return m, nil
}

// Selection names the bases that Remove ends. Set exactly one of Names, Youngest and Group.
type Selection struct {
	// Names are identities, host names or addresses. When one is unknown, Remove ends no base.
	Names []string
	// Newest is the number of bases to end among the fleet's own, the last added first.
	Newest int
	// Group ends all bases of a group. The next base of a set of this group gets the number 1 again.
	Group string
	// Unannounced leaves the Nodes to the controller, which has to notice the missing heartbeats, as when
	// a machine fails. Default: Options.Ended deletes them.
	Unannounced bool
}

// Remove ends bases and deletes their Nodes. It returns the ended bases, also with an error about their Nodes. The end
// of ctx does not interrupt it.
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
			err = fmt.Errorf("the bases have ended, but their Nodes may still exist: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(gone)
	for _, m := range gone {
		if m.Group == "" {
			f.removed = append(f.removed, m.identities...)
		}
		if f.byIP[m.listedIP] == m { // a new base may have the address of the Pod already
			delete(f.byIP, m.listedIP)
		}
	}
	f.signalChange()
	return gone, err
}

// unlist removes the selected bases from the list of members and returns the bases that were in the list.
func (f *Fleet) unlist(s Selection, named []*Member) []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	selected := named
	switch {
	case s.Group != "":
		selected = f.group(s.Group)
		maps.DeleteFunc(f.last, func(key setKey, _ int) bool { return key.group == s.Group })
	case s.Newest > 0:
		own := f.group("")
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

// hostNamePrefix is what the host names of a set begin with.
func (s Set) hostNamePrefix() string {
	return strings.TrimPrefix(s.Group+"-"+s.Name, "-")
}
