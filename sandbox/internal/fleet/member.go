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
	// HostName is the unique name of the base.
	HostName string
	// Group is the group of the base; empty for the fleet's own bases. Set is the set of the base within the group.
	Group, Set string
	// Index is the number of the base within its set, from 1.
	Index int
	// Tunnel is the tunnel that the base uses.
	Tunnel v1alpha1.Tunnel
	// WebPort is the port on which the modules of the base listen, at the address that IP returns.
	WebPort string
	// Runtime is the runtime of the base.
	Runtime v1alpha1.BaseRuntime
	// Base is the simulated base.
	Base Base

	ip            string // unrouted address of the base; empty if the base uses the address of its slot
	slot          Slot   // slot in which the base runs; nil until the slot is open
	cancel        context.CancelFunc
	done          chan struct{} // closed when the base has stopped
	startsOffline bool          // whether the base stays offline after its start; see startsOffline

	// Fleet.mu guards the following fields.
	listedIP  string // key of the member in Fleet.byIP
	online    bool
	ended     bool  // whether the base has stopped permanently
	failure   error // error with which the base stopped; nil if it was removed
	processes int   // number of processes that the base has started
	epoch     int   // incremented when a process starts or ends

	identities []string // identities of all processes, in the order in which the processes started
}

// Name returns the name of the base for use in reports: SET-N for a base in a group, and the host name for an own
// base.
func (m *Member) Name() string {
	if m.Group == "" {
		return m.HostName
	}
	return m.HostName[len(m.Group)+1:]
}

// IP returns the unique address that the base reports.
func (m *Member) IP() string { return cmp.Or(m.ip, m.slot.IP()) }

// Routed reports whether the cluster can route traffic to the address of the base.
func (m *Member) Routed() bool { return m.ip == "" }

// ClusterAddr returns the ClusterAddr of the base's slot.
func (m *Member) ClusterAddr() string { return m.slot.ClusterAddr() }

// Arklet returns the host:port at which this machine reaches the arklet HTTP listener of the base, and the port on
// which the base listens. Both are empty if the base has never had an arklet HTTP listener.
func (m *Member) Arklet() (addr, port string) {
	own := m.Base.HTTPAddr()
	if own == "" {
		return "", ""
	}
	_, port, _ = net.SplitHostPort(own) // the address of a listener has a port
	return m.slot.ArkletAddr(own), port
}

// reserve reserves host names for new bases of a set. It also calls f.wg.Add. The caller must call f.wg.Done, for
// which Start waits.
func (f *Fleet) reserve(s Set, count int) ([]*Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runCtx == nil {
		return nil, ErrNotRunning
	}
	if total := len(f.hostNames); f.o.MaxBases > 0 && total+count > f.o.MaxBases {
		return nil, fmt.Errorf("%w: %d bases exist, and %d more were requested; the maximum in a sandbox is %d",
			ErrInvalid, total, count, f.o.MaxBases)
	}
	key, members := setKey{s.Group, s.Name}, make([]*Member, 0, count)
	for i := range count {
		index := f.last[key] + 1 + i
		m := &Member{HostName: fmt.Sprintf("%s-%d", s.hostNamePrefix(), index),
			Group: s.Group, Set: s.Name, Index: index,
			Tunnel: s.Spec.Tunnel, WebPort: strconv.Itoa(s.Spec.WebPort), Runtime: s.Spec.Runtime,
			done: make(chan struct{})}
		err := validHostName(m.HostName)
		if err == nil && f.hostNames[m.HostName] {
			err = fmt.Errorf("%w: base %s already exists", ErrInvalid, m.HostName)
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

// release releases reserved host names. The caller holds f.mu.
func (f *Fleet) release(members []*Member) {
	for _, m := range members {
		delete(f.hostNames, m.HostName)
	}
}

// optionsOf returns the options of one base of a set.
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

// createBases opens the slots of members and creates their bases. It opens as many slots concurrently as the runtime
// allows.
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
				return fmt.Errorf("creating base %s: %w", m.HostName, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// recordAddress updates the entry of a member in byIP after its address has changed. The caller holds f.mu.
func (f *Fleet) recordAddress(m *Member) {
	if f.byIP[m.listedIP] == m {
		delete(f.byIP, m.listedIP)
	}
	m.listedIP = m.IP()
	f.byIP[m.listedIP] = m
}

// closeSlot closes the slot of a member. It does nothing if the slot is not open.
func (f *Fleet) closeSlot(m *Member) {
	if m.slot == nil {
		return
	}
	if err := m.slot.Close(); err != nil {
		f.o.Logger.Error("could not close the slot of a base", "base", m.HostName, "err", err)
	}
}

// seedOf returns the random seed for one base of a set. Zero means that the base chooses a random seed.
func seedOf(s Set, index int) uint64 {
	if s.Seed == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s/%d", s.Seed, s.Name, index) // writing to a hash never fails
	return max(1, h.Sum64())
}

// runMember starts the goroutine that runs the base of a member. The caller holds f.mu.
func (f *Fleet) runMember(ctx context.Context, m *Member) {
	ctx, m.cancel = context.WithCancel(ctx)
	f.wg.Go(func() {
		_, unwatch := m.Base.Watch(func(e fakebase.Event) { f.onEvent(m, e) })
		f.notifyAdded(m)
		err := m.Base.Start(ctx)
		if err != nil {
			f.o.Logger.Error("base failed", "base", m.HostName, "err", err)
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

// onEvent updates the state of a member from an event of its base. The base is locked during the call.
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

// setOnline records whether a base is connected, and reports whether the recorded state has changed. The caller holds
// f.mu.
func (f *Fleet) setOnline(m *Member, online bool) bool {
	if m.online == online {
		return false
	}
	m.online = online
	f.signalChange()
	return true
}
