package fleet

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Member is a base of a fleet.
type Member struct {
	// HostName and IP are the member's own; no other has them.
	HostName string
	IP       string
	// Group and Set that it belongs to; Group is empty for one of the fleet's own.
	Group, Set string
	// Index counts the bases of a set from 1.
	Index int
	// Tunnel is how it talks to controllers.
	Tunnel v1alpha1.Tunnel
	// Runtime is what it runs as.
	Runtime v1alpha1.BaseRuntime
	// Base is the simulated base.
	Base Base

	number    int          // of its address; 0 in a container
	container Container    // nil in this process
	remote    *remote.Base // Base, in a container
	cancel    context.CancelFunc
	done      chan struct{} // closed when it has ended
	away      bool          // its first faults keep it from connecting

	// Fleet.mu guards what follows.
	online    bool
	ended     bool  // for good
	failure   error // why it has ended by itself; nil = it has not
	processes int   // started so far
	epoch     int   // changes when a process starts and when it ends
}

// Name is what reports call it: SET-N in a group, else its host name.
func (m *Member) Name() string {
	if m.Group == "" {
		return m.HostName
	}
	return m.HostName[len(m.Group)+1:]
}

// reserve takes names and addresses for bases of a set, which nobody sees yet. It
// counts as something that the end of Start waits for, until f.wg.Done.
func (f *Fleet) reserve(s Set, count int) ([]*Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.launch == nil {
		return nil, ErrNotRunning
	}
	if err := f.roomFor(s, count); err != nil {
		return nil, err
	}
	key, members := setKey{s.Group, s.Name}, make([]*Member, 0, count)
	for i := range count {
		index := f.last[key] + 1 + i
		m := &Member{HostName: fmt.Sprintf("%s-%d", s.prefix(), index), Group: s.Group, Set: s.Name, Index: index,
			Tunnel: s.Spec.Tunnel, Runtime: s.Spec.Runtime, done: make(chan struct{})}
		err := validHostName(m.HostName)
		if err == nil && f.hostNames[m.HostName] {
			err = fmt.Errorf("%w: there is a base %s already", ErrInvalid, m.HostName)
		}
		if err == nil && m.Runtime == v1alpha1.RuntimeProcess {
			m.number, err = f.numbers.take()
			m.IP = address(m.number).String()
		}
		if err != nil {
			f.release(members)
			return nil, err
		}
		if m.Runtime == v1alpha1.RuntimeContainer {
			f.containers++
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
		f.numbers.release(m.number)
		if m.Runtime == v1alpha1.RuntimeContainer {
			f.containers--
		}
	}
}

// settle makes of the options of a set those of one of its bases.
func (f *Fleet) settle(m *Member, s Set, options fakebase.Options, delay time.Duration) fakebase.Options {
	options.Identity, options.NewIdentity = uuid.NewString(), uuid.NewString
	options.IP, options.HostName = m.IP, m.HostName
	options.InitialDelay = delay
	options.Seed = seedOf(s, m.Index)
	m.away = keptAway(options)
	if options.HTTP != nil && options.HTTP.HeartbeatEndpoint != "" {
		own := *options.HTTP
		own.Client = &http.Client{Timeout: beatTimeout, Transport: &beats{f, m}}
		options.HTTP = &own
	}
	return options
}

// make makes the bases of members.
func (f *Fleet) make(ctx context.Context, s Set, options fakebase.Options, members []*Member) error {
	if s.Spec.Runtime == v1alpha1.RuntimeContainer {
		return f.makeContainers(ctx, s, options, members)
	}
	for i, m := range members {
		b, err := fakebase.New(f.settle(m, s, options, time.Duration(i)*stagger))
		if err != nil {
			return fmt.Errorf("making base %s: %w: %w", m.HostName, ErrInvalid, err)
		}
		m.Base = b
	}
	return nil
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

// run starts the member's goroutine. f.mu is held.
func (f *Fleet) run(ctx context.Context, m *Member) {
	ctx, m.cancel = context.WithCancel(ctx)
	f.wg.Go(func() {
		_, unwatch := m.Base.Watch(func(e fakebase.Event) { f.seen(m, e) })
		f.show(m)
		err := m.Base.Start(ctx)
		if err != nil {
			f.o.Logger.Error("base ended", "base", m.HostName, "err", err)
		}
		unwatch()
		if m.container != nil {
			f.close(m)
		}
		f.mu.Lock()
		f.note(m, false)
		m.ended, m.failure = true, failure(err)
		f.changed()
		f.mu.Unlock()
		f.hide(m)
		close(m.done)
	})
}

// seen notes what an event says; the base is locked.
func (f *Fleet) seen(m *Member, e fakebase.Event) {
	if e.Kind == fakebase.EventBiz {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Kind {
	case fakebase.EventUp:
		f.known[e.Identity] = true
		m.epoch++
		m.processes++
		f.changes++
		f.changed()
	case fakebase.EventConnected:
		f.note(m, true)
	case fakebase.EventDown:
		m.epoch++
		f.note(m, false)
	case fakebase.EventDisconnected:
		f.note(m, false)
	}
}

// note takes down whether a base is connected, and tells whether that is new.
// f.mu is held.
func (f *Fleet) note(m *Member, online bool) bool {
	if m.online == online {
		return false
	}
	m.online = online
	f.changed()
	return true
}
