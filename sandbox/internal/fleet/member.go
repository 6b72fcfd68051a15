package fleet

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/fakebase"
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
	// Base is the simulated base.
	Base *fakebase.Base

	number int
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	away   bool          // its first faults keep it from connecting

	// Fleet.mu guards what follows.
	online    bool
	ended     bool // for good
	processes int  // started so far
	epoch     int  // changes when a process starts and when it ends
}

// Name is what reports call it: SET-N in a group, else its host name.
func (m *Member) Name() string {
	if m.Group == "" {
		return m.HostName
	}
	return m.HostName[len(m.Group)+1:]
}

// newMember makes the base of a set with an index. f.mu is held.
func (f *Fleet) newMember(s Set, options fakebase.Options, index int, delay time.Duration) (*Member, error) {
	n, err := f.numbers.take()
	if err != nil {
		return nil, err
	}
	m := &Member{
		HostName: fmt.Sprintf("%s-%d", s.prefix(), index), IP: address(n).String(), Group: s.Group, Set: s.Name, Index: index,
		Tunnel: s.Spec.Tunnel, away: keptAway(options), number: n, done: make(chan struct{}),
	}
	if err = validHostName(m.HostName); err == nil && f.hostNames[m.HostName] {
		err = fmt.Errorf("%w: there is a base %s already", ErrInvalid, m.HostName)
	}
	if err == nil {
		options.Identity, options.NewIdentity = uuid.NewString(), uuid.NewString
		options.IP, options.HostName = m.IP, m.HostName
		options.InitialDelay = delay
		options.Seed = seedOf(s, index)
		if options.HTTP != nil && options.HTTP.HeartbeatEndpoint != "" {
			own := *options.HTTP
			own.Client = &http.Client{Timeout: beatTimeout, Transport: &beats{f, m}}
			options.HTTP = &own
		}
		m.Base, err = fakebase.New(options)
		if err != nil {
			err = fmt.Errorf("making base %s: %w: %w", m.HostName, ErrInvalid, err)
		}
	}
	if err != nil {
		f.numbers.release(n)
		return nil, err
	}
	return m, nil
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
		if err := m.Base.Start(ctx); err != nil {
			f.o.Logger.Error("base ended", "base", m.HostName, "err", err)
		}
		unwatch()
		f.mu.Lock()
		f.note(m, false)
		m.ended = true
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
