// Package fleet runs the simulated bases of a sandbox, all in one process.
//
//	fleet.go     Fleet: Start(ctx), Add, Remove, List, Find, WaitConnected
//	address.go   which number, host name and address a base gets
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/fakebase"
)

// stagger is the time between the first heartbeats of bases that are added
// together, and so between all that follow: 1,000 bases spread over a second of
// each period.
const stagger = time.Millisecond

// Options of a Fleet; all bases share them.
type Options struct {
	// Name, Version, ClusterName and Env are what the bases report. Default: those
	// of fakebase.
	Name, Version, ClusterName, Env string
	// Activation says what a base does with a second version of a module.
	// Default: the first version stays active, as on a real base without settings.
	Activation fakebase.Activation
	// Username and Password for the broker.
	Username, Password string
	// ClientPrefix begins each client id. Default: koupleless.
	ClientPrefix string
	// Dial connects to the broker. Required.
	Dial func(context.Context) (net.Conn, error)
	// Logger for what the bases have to say. Default: nothing is logged.
	Logger *slog.Logger
}

// ErrUnknown is returned, wrapped, for a base that is not in the fleet.
var ErrUnknown = errors.New("no such base")

// ErrNotRunning is returned by Add before Start and after its end.
var ErrNotRunning = errors.New("the fleet does not run")

// Fleet is a changing set of bases. All methods may be called concurrently.
type Fleet struct {
	o       Options
	numbers numbers

	// mu is taken by the bases' events while a base is locked: whoever holds it
	// must not call a base.
	mu        sync.Mutex
	launch    func(*Member) // nil while Start does not run
	members   []*Member     // in order of addition
	connected int
	change    chan struct{} // closed at the next change of the fields above
	wg        sync.WaitGroup
}

// Member is a base of a fleet.
type Member struct {
	// HostName and IP are the member's own; no other has them.
	HostName string
	IP       string
	// Base is the simulated base.
	Base *fakebase.Base

	number int
	cancel context.CancelFunc
	done   chan struct{}
	online bool // guarded by Fleet.mu
}

// New returns a fleet without bases.
func New(o Options) *Fleet {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Fleet{o: o, change: make(chan struct{})}
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

// Add starts count more bases, each with a new random identity, and returns them
// at once; see WaitConnected. It waits for Start, if that comes later. When it
// fails none was added.
func (f *Fleet) Add(ctx context.Context, count int) ([]*Member, error) {
	if err := f.await(ctx, func() bool { return f.launch != nil }); err != nil {
		return nil, fmt.Errorf("adding %d bases: %w", count, ErrNotRunning)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.launch == nil {
		return nil, fmt.Errorf("adding %d bases: %w", count, ErrNotRunning)
	}
	added := make([]*Member, 0, count)
	for i := range count {
		m, err := f.newMember(time.Duration(i) * stagger)
		if err != nil {
			for _, m := range added {
				f.numbers.release(m.number)
			}
			return nil, fmt.Errorf("adding %d bases: %w", count, err)
		}
		added = append(added, m)
	}
	for _, m := range added {
		f.launch(m)
	}
	f.members = append(f.members, added...)
	f.changed()
	return added, nil
}

func (f *Fleet) newMember(delay time.Duration) (*Member, error) {
	n, err := f.numbers.take()
	if err != nil {
		return nil, err
	}
	m := &Member{HostName: hostName(n), IP: address(n).String(), number: n, done: make(chan struct{})}
	m.Base, err = fakebase.New(fakebase.Options{
		Identity:     uuid.NewString(),
		Name:         f.o.Name,
		Version:      f.o.Version,
		ClusterName:  f.o.ClusterName,
		Env:          f.o.Env,
		IP:           m.IP,
		HostName:     m.HostName,
		Activation:   f.o.Activation,
		InitialDelay: delay,
		Logger:       f.o.Logger,
		MQTT: &fakebase.MQTTOptions{
			Username: f.o.Username, Password: f.o.Password, ClientPrefix: f.o.ClientPrefix, Dial: f.o.Dial,
		},
	})
	if err != nil {
		f.numbers.release(n)
		return nil, fmt.Errorf("making base %s: %w", m.HostName, err)
	}
	return m, nil
}

// run starts the member's goroutine. f.mu is held.
func (f *Fleet) run(ctx context.Context, m *Member) {
	ctx, m.cancel = context.WithCancel(ctx)
	f.wg.Go(func() {
		defer close(m.done)
		_, unwatch := m.Base.Watch(func(e fakebase.Event) {
			switch e.Kind {
			case fakebase.EventConnected:
				f.note(m, true)
			case fakebase.EventDisconnected, fakebase.EventDown:
				f.note(m, false)
			}
		})
		defer unwatch()
		if err := m.Base.Start(ctx); err != nil {
			f.o.Logger.Error("base ended", "base", m.HostName, "err", err)
		}
		f.note(m, false)
	})
}

func (f *Fleet) note(m *Member, online bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.online == online {
		return
	}
	m.online = online
	if online {
		f.connected++
	} else {
		f.connected--
	}
	f.changed()
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

// WaitConnected blocks until every base is connected to the broker. When ctx ends
// before, the error says how many are not.
func (f *Fleet) WaitConnected(ctx context.Context) error {
	if err := f.await(ctx, func() bool { return f.connected == len(f.members) }); err != nil {
		total, connected := f.Count()
		return fmt.Errorf("%d of %d bases are not connected to the broker: %w", total-connected, total, err)
	}
	return nil
}

// Count returns how many bases there are and how many are connected.
func (f *Fleet) Count() (total, connected int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.members), f.connected
}

// Remove ends the bases with the names, which are identities, host names or
// addresses, and returns them when they have ended. When one is unknown none is
// removed.
func (f *Fleet) Remove(names ...string) ([]*Member, error) {
	gone, err := f.resolve(names)
	if err != nil {
		return nil, fmt.Errorf("removing bases: %w", err)
	}
	f.mu.Lock()
	gone = f.drop(gone)
	f.mu.Unlock()
	f.end(gone)
	return gone, nil
}

// RemoveYoungest ends the count bases that were added last, and returns them.
func (f *Fleet) RemoveYoungest(count int) []*Member {
	f.mu.Lock()
	gone := slices.Clone(f.members[max(0, len(f.members)-count):])
	f.drop(gone)
	f.mu.Unlock()
	f.end(gone)
	return gone
}

// drop takes members off the list and returns those that were on it. f.mu is
// held.
func (f *Fleet) drop(gone []*Member) []*Member {
	set := make(map[*Member]bool, len(gone))
	for _, m := range gone {
		set[m] = true
	}
	var dropped []*Member
	f.members = slices.DeleteFunc(f.members, func(m *Member) bool {
		if set[m] {
			dropped = append(dropped, m)
		}
		return set[m]
	})
	f.changed()
	return dropped
}

func (f *Fleet) end(gone []*Member) {
	for _, m := range gone {
		m.cancel()
	}
	for _, m := range gone {
		<-m.done
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range gone {
		f.numbers.release(m.number)
	}
}

// List returns the bases, the oldest first.
func (f *Fleet) List() []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}

// Find returns the base with the identity, host name or address.
func (f *Fleet) Find(name string) (*Member, error) {
	found, err := f.resolve([]string{name})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func (f *Fleet) resolve(names []string) ([]*Member, error) {
	known := map[string]*Member{}
	for _, m := range f.List() {
		known[m.HostName], known[m.IP], known[m.Base.Status().Identity] = m, m, m
	}
	found := make([]*Member, 0, len(names))
	for _, name := range names {
		m, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("base %q: %w; see: koupsandbox base list", name, ErrUnknown)
		}
		found = append(found, m)
	}
	return found, nil
}
