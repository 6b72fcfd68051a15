package fleet

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Member is a base of a fleet.
type Member struct {
	// HostName is the name of the base, which no other base has.
	HostName string
	// Group and Set that it belongs to; Group is empty for one of the fleet's own.
	Group, Set string
	// Index counts the bases of a set from 1.
	Index int
	// Tunnel is how it talks to controllers.
	Tunnel v1alpha1.Tunnel
	// WebPort is the port at IP on which its modules serve.
	WebPort string
	// Runtime is what it runs as.
	Runtime v1alpha1.BaseRuntime
	// Base is the simulated base.
	Base Base

	ip            string // its address that is not routed; empty = it has the address of its place
	slot          Slot   // what it runs in; nil before that is open
	cancel        context.CancelFunc
	done          chan struct{} // closed when it has ended
	startsOffline bool          // its first faults keep it from connecting

	// Fleet.mu guards what follows.
	listedIP  string // the address under which Fleet.byIP has it
	online    bool
	ended     bool  // for good
	failure   error // why it has ended by itself; nil = it has not
	processes int   // started so far
	epoch     int   // changes when a process starts and when it ends

	identities []string // that its processes have had, the last one last
}

// Name is what reports call it: SET-N in a group, else its host name.
func (m *Member) Name() string {
	if m.Group == "" {
		return m.HostName
	}
	return m.HostName[len(m.Group)+1:]
}

// IP is the address that the base reports. No other base has it.
func (m *Member) IP() string { return cmp.Or(m.ip, m.slot.IP()) }

// Routed reports whether the cluster routes the address of the base.
func (m *Member) Routed() bool { return m.ip == "" }

// ClusterAddr is that of Place.
func (m *Member) ClusterAddr() string { return m.slot.ClusterAddr() }

// Arklet returns where this machine reaches the arklet HTTP listener of the base, and the port of
// that listener at the address of the base. Both are empty if the base has never had one.
func (m *Member) Arklet() (addr, port string) {
	own := m.Base.HTTPAddr()
	if own == "" {
		return "", ""
	}
	_, port, _ = net.SplitHostPort(own) // an address of a listener has a port
	return m.slot.ArkletAddr(own), port
}

// reserve takes names and addresses for bases of a set, which nobody sees yet. It
// counts as something that the end of Start waits for, until f.wg.Done.
func (f *Fleet) reserve(s Set, count int) ([]*Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runCtx == nil {
		return nil, ErrNotRunning
	}
	if total := len(f.hostNames); f.o.MaxBases > 0 && total+count > f.o.MaxBases {
		return nil, fmt.Errorf("%w: there are %d, and one sandbox runs 1 to %d", ErrInvalid, total, f.o.MaxBases)
	}
	key, members := setKey{s.Group, s.Name}, make([]*Member, 0, count)
	for i := range count {
		index := f.last[key] + 1 + i
		m := &Member{HostName: fmt.Sprintf("%s-%d", s.hostNamePrefix(), index), Group: s.Group, Set: s.Name, Index: index,
			Tunnel: s.Spec.Tunnel, WebPort: strconv.Itoa(s.Spec.WebPort), Runtime: s.Spec.Runtime,
			done: make(chan struct{})}
		err := validHostName(m.HostName)
		if err == nil && f.hostNames[m.HostName] {
			err = fmt.Errorf("%w: there is a base %s already", ErrInvalid, m.HostName)
		}
		if err != nil {
			f.release(members)
			return nil, err
		}
		f.hostNames[m.HostName] = true
		members = append(members, m)
	}
	f.last[key] += count
	f.wg.Add(1)
	return members, nil
}

// release gives back what reserve has taken. f.mu is held.
func (f *Fleet) release(members []*Member) {
	for _, m := range members {
		delete(f.hostNames, m.HostName)
	}
}

// optionsOf makes of the options of a set those of one of its bases.
func (f *Fleet) optionsOf(m *Member, s Set, options fakebase.Options, delay time.Duration) fakebase.Options {
	options.Identity = uuid.NewString()
	options.IP, options.HostName = m.IP(), m.HostName
	options.InitialDelay = delay
	options.Seed = seedOf(s, m.Index)
	m.startsOffline = startsOffline(options)
	if options.HTTP != nil && options.HTTP.HeartbeatEndpoint != "" {
		own := *options.HTTP
		own.Client = &http.Client{Timeout: heartbeatTimeout, Transport: &heartbeatTransport{f, m}}
		options.HTTP = &own
	}
	return options
}

// createBases opens what members run in, and makes their bases, a few at a time.
func (f *Fleet) createBases(ctx context.Context, s Set, options fakebase.Options, members []*Member) error {
	runtime := f.o.Runtimes[s.Spec.Runtime]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.Concurrency())
	for i, m := range members {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			place, err := runtime.Open(ctx, m.HostName)
			if err != nil {
				return err
			}
			m.slot = place
			if place.IP() == "" {
				f.mu.Lock()
				m.ip, err = f.takeAddress()
				f.mu.Unlock()
				if err != nil {
					return err
				}
			}
			m.Base, err = place.New(ctx, f.optionsOf(m, s, options, time.Duration(i)*stagger))
			if err != nil {
				return fmt.Errorf("making base %s: %w", m.HostName, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// recordAddress records the address of a member. f.mu is held.
func (f *Fleet) recordAddress(m *Member) {
	if f.byIP[m.listedIP] == m {
		delete(f.byIP, m.listedIP)
	}
	m.listedIP = m.IP()
	f.byIP[m.listedIP] = m
}

// closeSlot ends what a member runs in.
func (f *Fleet) closeSlot(m *Member) {
	if m.slot == nil {
		return
	}
	if err := m.slot.Close(); err != nil {
		f.o.Logger.Error("a base's place did not end well", "base", m.HostName, "err", err)
	}
}

// seedOf is the seed of one base of a set; zero = drawn.
func seedOf(s Set, index int) uint64 {
	if s.Seed == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s/%d", s.Seed, s.Name, index) // writing to a hash never fails
	return max(1, h.Sum64())
}

// runMember starts the member's goroutine. f.mu is held.
func (f *Fleet) runMember(ctx context.Context, m *Member) {
	ctx, m.cancel = context.WithCancel(ctx)
	f.wg.Go(func() {
		_, unwatch := m.Base.Watch(func(e fakebase.Event) { f.onEvent(m, e) })
		f.notifyAdded(m)
		err := m.Base.Start(ctx)
		if err != nil {
			f.o.Logger.Error("base ended", "base", m.HostName, "err", err)
		}
		unwatch()
		f.closeSlot(m)
		f.mu.Lock()
		f.setOnline(m, false)
		m.ended, m.failure = true, err
		f.signalChange()
		f.mu.Unlock()
		f.notifyRemoved(m)
		close(m.done)
	})
}

// onEvent notes what an event says; the base is locked.
func (f *Fleet) onEvent(m *Member, e fakebase.Event) {
	if e.Kind == fakebase.EventBiz {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Kind {
	case fakebase.EventUp:
		f.known[e.Identity] = true
		if !slices.Contains(m.identities, e.Identity) {
			m.identities = append(m.identities, e.Identity)
		}
		m.epoch++
		m.processes++
		f.recordAddress(m)
		f.changes++
		f.signalChange()
	case fakebase.EventConnected:
		f.setOnline(m, true)
	case fakebase.EventDown:
		m.epoch++
		f.setOnline(m, false)
	case fakebase.EventDisconnected:
		f.setOnline(m, false)
	}
}

// setOnline takes down whether a base is connected, and reports whether that is new.
// f.mu is held.
func (f *Fleet) setOnline(m *Member, online bool) bool {
	if m.online == online {
		return false
	}
	m.online = online
	f.signalChange()
	return true
}
