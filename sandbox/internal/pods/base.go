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

// slot is the part of a Pod in which one base runs.
type slot struct {
	pod      *pod
	hostName string
	ownIP    *atomic.Value // address of the Pod if the base uses it; otherwise nil
	base     *base         // nil until New is called
}

func newSlot(x *pod, hostName string) *slot {
	p := &slot{pod: x, hostName: hostName}
	if ip := x.address(); x.pods.o.PerPod == 1 && ip != "" {
		p.ownIP = &atomic.Value{}
		p.ownIP.Store(ip)
	}
	return p
}

// refreshIP sets ownIP to the current address of the Pod and returns the address. It returns an empty string if the
// base does not use the address of the Pod, or if this address is unknown.
func (p *slot) refreshIP() string {
	ip := p.pod.address()
	if p.ownIP == nil || ip == "" {
		return ""
	}
	p.ownIP.Store(ip)
	return ip
}

// IP implements fleet.Slot. It returns an empty string if several bases share the Pod.
func (p *slot) IP() string {
	if p.ownIP == nil {
		return ""
	}
	return p.ownIP.Load().(string)
}

// ArkletAddr implements fleet.Slot.
func (p *slot) ArkletAddr(string) string {
	addr, _ := p.base.arklet.listen(p.base, remote.Arklet) // empty if the base has ended
	return addr
}

// ClusterAddr implements fleet.Slot.
func (p *slot) ClusterAddr() string {
	ip := p.pod.address()
	_, port, err := net.SplitHostPort(p.base.Base.Status().WebAddr)
	if ip == "" || err != nil {
		return ""
	}
	return net.JoinHostPort(ip, port)
}

// New implements fleet.Slot.
func (p *slot) New(ctx context.Context, o fakebase.Options) (fleet.Base, error) {
	conn, err := p.pod.waitConnected(ctx)
	if err != nil {
		return nil, err
	}
	o.IP = cmp.Or(p.refreshIP(), o.IP)
	pods := p.pod.pods
	if o.HTTP != nil && o.HTTP.HeartbeatEndpoint != "" {
		o.HTTP.HeartbeatEndpoint += "/" + p.hostName
	}
	b, err := remote.New(ctx, conn, remote.Options{
		Options: o, BrokerCA: pods.o.BrokerCA, BrokerCert: pods.o.BrokerCert, BrokerKey: pods.o.BrokerKey,
		ClockOffset: p.pod.clockAhead,
	})
	if err != nil {
		return nil, err // not a non-nil interface with a nil pointer
	}
	p.base = &base{Base: b, slot: p}
	return p.base, nil
}

// Sync implements fleet.Slot.
func (p *slot) Sync(ctx context.Context) error { return p.base.Sync(ctx) }

// Close implements fleet.Slot. After Close, another base can use the slot.
func (p *slot) Close() error {
	defer p.pod.releaseSlot()
	if p.base == nil {
		return nil
	}
	return p.base.close()
}

// base is a base in a Pod. While the Pod is unavailable, the base is down, as after a crash. Start recreates the base
// when the Pod is available again.
type base struct {
	*remote.Base
	slot *slot

	mu          sync.Mutex // guards the following fields
	started     bool
	ended       bool
	web, arklet portForward
	forwards    sync.WaitGroup
}

// portForward is a listener on this machine that forwards its connections to a listener of the base. base.mu guards
// it.
type portForward struct{ net.Listener } // nil before the first use

// Start runs the base until ctx ends, and then returns nil. After each restart of the Pod, it recreates the base. It
// returns an error if the base cannot run.
func (b *base) Start(ctx context.Context) error {
	b.mu.Lock()
	b.started = true
	b.mu.Unlock()
	for {
		err := b.Base.Start(ctx)
		if !remote.IsProcessLost(err) || ctx.Err() != nil {
			return err
		}
		if err := b.recreate(ctx); err != nil {
			return err
		}
	}
}

// recreate recreates the base in its Pod. It blocks until this succeeds or ctx ends. It returns an error if the base
// cannot be recreated.
func (b *base) recreate(ctx context.Context) error {
	for ctx.Err() == nil {
		conn, err := b.slot.pod.waitConnected(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended, which is not a failure
		}
		err = b.tryRecreate(ctx, conn)
		if !remote.IsProcessLost(err) {
			return err
		}
		select { // the connection is broken; wait for its end
		case <-conn.Done():
		case <-ctx.Done():
		}
	}
	return nil
}

func (b *base) tryRecreate(ctx context.Context, conn connection) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return b.Recreate(ctx, conn, b.slot.refreshIP())
}

// WebAddr returns the address on this machine that is forwarded to the base's listener for module traffic.
func (b *base) WebAddr(context.Context) (string, error) {
	return b.web.listen(b, remote.Web) //nolint:contextcheck // the connections outlive the call
}

// listen returns the address of the forwarding listener, which it opens on the first call.
func (d *portForward) listen(b *base, to remote.Listener) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return "", net.ErrClosed
	}
	if d.Listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("opening a local port for base %s: %w", b.slot.hostName, err)
		}
		d.Listener = l
		b.forwards.Go(func() { b.accept(l, to) }) //nolint:contextcheck // ends when the listener is closed
	}
	return d.Addr().String(), nil
}

// accept accepts connections and forwards them to a listener of the base until l is closed.
func (b *base) accept(l net.Listener, to remote.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the open connections
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		b.forwards.Go(func() { _ = b.Forward(ctx, conn, to) }) // the client notices the end of its connection
	}
}

// Status returns the status of the base. Its web address is the forwarded address on this machine, not the address in
// the Pod.
func (b *base) Status() fakebase.Status { return b.withLocalWebAddr(b.Base.Status()) }

// Watch implements fleet.Base.
func (b *base) Watch(fn func(fakebase.Event)) (now fakebase.Status, stop func()) {
	now, stop = b.Base.Watch(fn)
	return b.withLocalWebAddr(now), stop
}

// withLocalWebAddr replaces the web address in a status with the forwarded address on this machine, or with an empty
// string if the forwarding listener is not open.
func (b *base) withLocalWebAddr(s fakebase.Status) fakebase.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.WebAddr = ""
	if b.web.Listener != nil {
		s.WebAddr = b.web.Addr().String()
	}
	return s
}

// close closes the forwarding listeners. If the base was never started, it also discards the base.
func (b *base) close() (err error) {
	b.mu.Lock()
	started := b.started
	b.ended = true
	b.mu.Unlock()
	for _, d := range []portForward{b.web, b.arklet} { // unchanged after the end of the base
		if d.Listener != nil {
			_ = d.Close() // no connection is lost: the base has ended
		}
	}
	if !started {
		err = b.Discard(context.Background())
	}
	b.forwards.Wait()
	return err
}
