package pods

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
)

// place is one of a Pod.
type place struct {
	pod  *pod
	base *base // nil before New
}

// IP is empty: the Pod's address is that of many bases.
func (p *place) IP() string { return "" }

// Inside is that of fleet.Place.
func (p *place) Inside() string {
	ip := p.pod.address()
	_, port, err := net.SplitHostPort(p.base.Base.Status().WebAddr)
	if ip == "" || err != nil {
		return ""
	}
	return net.JoinHostPort(ip, port)
}

func (p *place) New(ctx context.Context, o fakebase.Options) (fleet.Base, error) {
	conn, err := p.pod.await(ctx)
	if err != nil {
		return nil, err
	}
	pods := p.pod.pods
	b, err := remote.New(ctx, conn, remote.Options{
		Options: o, BrokerCA: pods.o.BrokerCA, BrokerCert: pods.o.BrokerCert, BrokerKey: pods.o.BrokerKey, Ahead: p.pod.clockAhead,
	})
	if err != nil {
		return nil, err // and no interface with a nil in it
	}
	p.base = &base{Base: b, pod: p.pod}
	return p.base, nil
}

func (p *place) Sync(ctx context.Context) error { return p.base.Sync(ctx) }

// Close gives the place to others.
func (p *place) Close() error {
	defer p.pod.give()
	if p.base == nil {
		return nil
	}
	return p.base.close()
}

// base is a base in a Pod. While the Pod is away it is down, as one that has crashed; then it comes
// back with the Pod.
type base struct {
	*remote.Base
	pod *pod

	mu       sync.Mutex // guards what follows
	started  bool
	ended    bool
	door     net.Listener // for requests to modules; nil before the first
	carrying sync.WaitGroup
}

// Start runs the base until ctx ends, through all lives of its Pod, and then returns nil. An error
// means that the base could not run.
func (b *base) Start(ctx context.Context) error {
	b.mu.Lock()
	b.started = true
	b.mu.Unlock()
	for {
		err := b.Base.Start(ctx)
		if !remote.Lost(err) || ctx.Err() != nil {
			return err
		}
		if err := b.renew(ctx); err != nil {
			return err
		}
	}
}

// renew blocks until the base is made anew, or ctx ends. An error means that it cannot be made.
func (b *base) renew(ctx context.Context) error {
	for ctx.Err() == nil {
		conn, err := b.pod.await(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended: that is no failure
		}
		if err = b.attempt(ctx, conn); !remote.Lost(err) {
			return err
		}
		select { // that connection is of no use
		case <-conn.Done():
		case <-ctx.Done():
		}
	}
	return nil
}

func (b *base) attempt(ctx context.Context, conn connection) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return b.Renew(ctx, conn)
}

// WebAddr is where this machine reaches the listener for module traffic: a door of its own, that
// leads there over the connection of the Pod. It is open from the first call on.
func (b *base) WebAddr(context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return "", net.ErrClosed
	}
	if b.door == nil {
		door, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("opening a port for requests to base %q: %w", b.Identity(), err)
		}
		b.door = door
		b.carrying.Go(func() { b.carry(door) }) //nolint:contextcheck // it ends with the door
	}
	return b.door.Addr().String(), nil
}

// carry takes connections to the base, until the door is closed.
func (b *base) carry(door net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends what is being carried
	for {
		conn, err := door.Accept()
		if err != nil {
			return
		}
		b.carrying.Go(func() { _ = b.Forward(ctx, conn) }) // whoever asks sees that nobody answers
	}
}

// Status has the address of the door in place of one that only the Pod reaches.
func (b *base) Status() fakebase.Status { return b.shown(b.Base.Status()) }

// Watch is that of fleet.Base.
func (b *base) Watch(fn func(fakebase.Event)) (now fakebase.Status, stop func()) {
	now, stop = b.Base.Watch(fn)
	return b.shown(now), stop
}

func (b *base) shown(s fakebase.Status) fakebase.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.WebAddr = ""
	if b.door != nil {
		s.WebAddr = b.door.Addr().String()
	}
	return s
}

// close forgets the base, which has ended or was never started.
func (b *base) close() (err error) {
	b.mu.Lock()
	started, door := b.started, b.door
	b.ended = true
	b.mu.Unlock()
	if door != nil {
		_ = door.Close() // it carries nothing any more
	}
	if !started {
		err = b.Discard(context.Background())
	}
	b.carrying.Wait()
	return err
}
