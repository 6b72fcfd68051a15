// Package fleet runs the simulated bases of a sandbox, all in one process, or each
// in a container: the sandbox's own ones, and groups of others that come and go.
//
//	fleet.go     Fleet: Start(ctx), Add, WaitConnected, Restart, Remove
//	lookup.go    Count, List, Find, ByIP
//	member.go    one base, and whether it is connected
//	container.go bases in containers
//	set.go       what bases to add, as settings of fakebase
//	beat.go      heartbeats over HTTP
//	watch.go     Watch: everything that happens to bases
//	address.go   which number and address a base gets
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// stagger is the time between the first heartbeats of bases that are added
// together, and so between all that follow: 1,000 bases spread over a second of
// each period.
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
	// Apart is added to every environment but Env, on a broker where somebody else
	// may have one of that name. Default: nothing.
	Apart string
	// Username and Password for the broker; without a user name there is none.
	Username, Password string
	// ClientPrefix begins each client id. Default: koupleless.
	ClientPrefix string
	// Dial connects to the broker. Required.
	Dial func(context.Context) (net.Conn, error)
	// Beat takes the heartbeats of bases over HTTP to the controllers of Env; their
	// URLs name no real host. Default: nobody gets them.
	Beat http.RoundTripper
	// Containers is where sets of the runtime container run. Default: nowhere.
	Containers *Containers
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
	mu        sync.Mutex
	launch    func(*Member) // nil while Start does not run
	numbers   numbers
	last      map[setKey]int     // the last index of each set
	members   []*Member          // in order of addition
	byIP      map[string]*Member // the same
	hostNames map[string]bool    // of members, and of those that are being added
	// containers is how many there are, and are being started.
	containers int
	known      map[string]bool // identities of all processes that there have been
	changes    uint64          // of members and their processes
	watchers   []*watcher
	change     chan struct{} // closed at the next change of the fields above
	wg         sync.WaitGroup
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
	return &Fleet{
		o: o, last: map[setKey]int{}, byIP: map[string]*Member{}, hostNames: map[string]bool{}, known: map[string]bool{},
		change: make(chan struct{}),
	}
}

// Start lets bases run until ctx ends, and returns nil when all have ended. It
// can be called once.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	f.launch = func(m *Member) { f.run(ctx, m) }
	f.changed()
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.launch = nil
	f.mu.Unlock()
	f.wg.Wait()
	return nil
}

// Add starts count more bases of a set, each with a new random identity, and
// returns them without waiting for their connections; see WaitConnected. It waits for
// Start, if that comes later, and for containers. The error may wrap ErrInvalid or ErrNotRunning; then none was
// added.
func (f *Fleet) Add(ctx context.Context, s Set, count int) ([]*Member, error) {
	s, options, err := f.settings(s)
	if err != nil {
		return nil, fmt.Errorf("adding bases %s: %w: %w", s.prefix(), ErrInvalid, err)
	}
	if err := f.await(ctx, func() bool { return f.launch != nil }); err != nil {
		return nil, fmt.Errorf("adding %d bases: %w", count, ErrNotRunning)
	}
	added, err := f.reserve(s, count)
	if err != nil {
		return nil, fmt.Errorf("adding %d bases: %w", count, err)
	}
	defer f.wg.Done()
	err = f.make(ctx, s, options, added)
	f.mu.Lock()
	if err == nil && f.launch == nil {
		err = ErrNotRunning
	}
	if err != nil {
		f.mu.Unlock()
		f.discard(s, added)
		return nil, fmt.Errorf("adding %d bases: %w", count, err)
	}
	defer f.mu.Unlock()
	for _, m := range added {
		f.byIP[m.IP] = m
		f.launch(m)
	}
	f.members = append(f.members, added...)
	f.changes++
	f.changed()
	return added, nil
}

// discard undoes reserve and make.
func (f *Fleet) discard(s Set, members []*Member) {
	for _, m := range members {
		if m.container != nil {
			f.close(m)
		}
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

// changed wakes those who wait. f.mu is held.
func (f *Fleet) changed() {
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

// WaitConnected blocks until each of the bases is connected, as Member.Connected
// says, or has been removed; bases whose first faults keep them away are not waited
// for. When ctx ends before, the error says how many are not. One that ends by itself is an
// error.
func (f *Fleet) WaitConnected(ctx context.Context, members ...*Member) error {
	rest := slices.Clone(members)
	err := f.await(ctx, func() bool {
		rest = slices.DeleteFunc(rest, func(m *Member) bool { return m.online || m.away || m.ended })
		return len(rest) == 0
	})
	if err != nil {
		return fmt.Errorf("%d of %d bases are not connected, such as %s: %w", len(rest), len(members), rest[0].HostName, err)
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
		return nil, fmt.Errorf("base %s has ended and cannot be restarted (%w): remove it and add another", m.HostName, err)
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
	if err := f.await(ctx, func() bool { return m.processes > before && (m.online || m.away) || m.ended }); err != nil {
		return nil, fmt.Errorf("restarting base %s: it is not connected again: %w", m.HostName, err)
	}
	return m, nil
}

// Remove ends the bases with the names, which are identities, host names or
// addresses, and returns them when they have ended. When one is unknown none is
// removed.
func (f *Fleet) Remove(names ...string) ([]*Member, error) {
	gone, err := f.resolve(names)
	if err != nil {
		return nil, fmt.Errorf("removing bases: %w", err)
	}
	return f.remove(func() []*Member { return gone }), nil
}

// RemoveYoungest ends the count bases of the fleet's own that were added last,
// and returns them.
func (f *Fleet) RemoveYoungest(count int) []*Member {
	return f.remove(func() []*Member {
		own := f.group("")
		return own[max(0, len(own)-count):]
	})
}

// RemoveGroup ends all bases of a group and forgets it: the next base of a set of
// this name is number 1 again.
func (f *Fleet) RemoveGroup(group string) []*Member {
	return f.remove(func() []*Member {
		for key := range f.last {
			if key.group == group {
				delete(f.last, key)
			}
		}
		return f.group(group)
	})
}

// remove takes members off the list, ends them, and returns those that were on
// it. which is called with f.mu held.
func (f *Fleet) remove(which func() []*Member) []*Member {
	f.mu.Lock()
	set := map[*Member]bool{}
	for _, m := range which() {
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
	f.changed()
	f.mu.Unlock()
	for _, m := range gone {
		m.cancel()
	}
	for _, m := range gone {
		<-m.done
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.release(gone)
	for _, m := range gone {
		if f.byIP[m.IP] == m { // an engine may have given the address to another
			delete(f.byIP, m.IP)
		}
	}
	f.changed()
	return gone
}

// prefix is what the host names of a set begin with.
func (s Set) prefix() string {
	return strings.TrimPrefix(s.Group+"-"+s.Name, "-")
}
