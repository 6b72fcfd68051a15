package pods

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
)

// place is the place of one base in a Pod.
type place struct {
	pod      *pod
	hostName string
	own      *atomic.Value // the address of the Pod when the base was made; nil = it is not that of the base
	base     *base         // nil before New
}

func newPlace(x *pod, hostName string) *place {
	p := &place{pod: x, hostName: hostName}
	if ip := x.address(); x.pods.o.PerPod == 1 && ip != "" {
		p.own = &atomic.Value{}
		p.own.Store(ip)
	}
	return p
}

// settle takes over the address that the Pod has now, and returns it. It returns nothing if that is
// not the address of the base.
func (p *place) settle() string {
	ip := p.pod.address()
	if p.own == nil || ip == "" {
		return ""
	}
	p.own.Store(ip)
	return ip
}

// IP implements fleet.Place. It is empty if bases share the Pod.
func (p *place) IP() string {
	if p.own == nil {
		return ""
	}
	return p.own.Load().(string)
}

// Arklet implements fleet.Place.
func (p *place) Arklet(string) string {
	addr, _ := p.base.arklet.listen(p.base, remote.Arklet) // a base that has ended takes no commands
	return addr
}

// Inside implements fleet.Place.
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
	o.IP = cmp.Or(p.settle(), o.IP)
	pods := p.pod.pods
	if o.HTTP != nil && o.HTTP.HeartbeatEndpoint != "" {
		o.HTTP.HeartbeatEndpoint += "/" + p.hostName
	}
	b, err := remote.New(ctx, conn, remote.Options{
		Options: o, BrokerCA: pods.o.BrokerCA, BrokerCert: pods.o.BrokerCert, BrokerKey: pods.o.BrokerKey,
		ClockOffset: p.pod.clockAhead,
	})
	if err != nil {
		return nil, err // and no interface with a nil in it
	}
	p.base = &base{Base: b, place: p}
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
	place *place

	mu          sync.Mutex // guards what follows
	started     bool
	ended       bool
	web, arklet door
	carrying    sync.WaitGroup
}

// door is a listener on this machine whose connections lead to one of the base. base.mu guards it.
type door struct{ net.Listener } // nil before the first use

// Start runs the base until ctx ends, through all lives of its Pod, and then returns nil. An error
// means that the base could not run.
func (b *base) Start(ctx context.Context) error {
	b.mu.Lock()
	b.started = true
	b.mu.Unlock()
	for {
		err := b.Base.Start(ctx)
		if !remote.IsProcessLost(err) || ctx.Err() != nil {
			return err
		}
		if err := b.renew(ctx); err != nil {
			return err
		}
	}
}

// renew blocks until the base is made again, or ctx ends. An error means that it cannot be made.
func (b *base) renew(ctx context.Context) error {
	for ctx.Err() == nil {
		conn, err := b.place.pod.await(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended: that is no failure
		}
		err = b.attempt(ctx, conn)
		if !remote.IsProcessLost(err) {
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
	return b.Recreate(ctx, conn, b.place.settle())
}

// WebAddr returns the address of this machine whose connections lead to the listener for module
// traffic, over the connection of the Pod.
func (b *base) WebAddr(context.Context) (string, error) {
	return b.web.listen(b, remote.Web) //nolint:contextcheck // the connections outlive the call
}

// listen opens the door at the first call, and returns its address.
func (d *door) listen(b *base, to remote.Listener) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return "", net.ErrClosed
	}
	if d.Listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("opening a port for base %s: %w", b.place.hostName, err)
		}
		d.Listener = l
		b.carrying.Go(func() { b.carry(l, to) }) //nolint:contextcheck // it ends with the listener
	}
	return d.Addr().String(), nil
}

// carry takes connections to a listener of the base, until l is closed.
func (b *base) carry(l net.Listener, to remote.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends what is being carried
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		b.carrying.Go(func() { _ = b.Forward(ctx, conn, to) }) // the client sees that its connection ends
	}
}

// Status has the address of the door in place of one that only the Pod reaches.
func (b *base) Status() fakebase.Status { return b.shown(b.Base.Status()) }

// Watch implements fleet.Base.
func (b *base) Watch(fn func(fakebase.Event)) (now fakebase.Status, stop func()) {
	now, stop = b.Base.Watch(fn)
	return b.shown(now), stop
}

func (b *base) shown(s fakebase.Status) fakebase.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.WebAddr = ""
	if b.web.Listener != nil {
		s.WebAddr = b.web.Addr().String()
	}
	return s
}

// close forgets the base, which has ended or was never started.
func (b *base) close() (err error) {
	b.mu.Lock()
	started := b.started
	b.ended = true
	b.mu.Unlock()
	for _, d := range []door{b.web, b.arklet} { // no longer written: the base has ended
		if d.Listener != nil {
			_ = d.Close() // it carries nothing any more
		}
	}
	if !started {
		err = b.Discard(context.Background())
	}
	b.carrying.Wait()
	return err
}
